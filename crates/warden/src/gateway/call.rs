//! A request that has been understood: which model, whose conversation, and what goes to the
//! engine.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, request::Parts, uri::PathAndQuery};
use hyper::body::Incoming;
use routing::{Identity, OwnerId};
use vllm::{BodyFacts, Dialect, Digests, HeaderIds};

use super::{
    Gateway,
    budget::Share,
    endpoint::{Endpoint, Known},
    error::GatewayError,
    headers, identity, inbound,
    ledger::Ledger,
    salt,
};
use crate::{fleet::Model, telemetry::PromptNote, upstream::Payload};

/// See the module.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) model: Arc<Model>,
    pub(super) dialect: Dialect,
    pub(super) method: Method,
    pub(super) path: PathAndQuery,
    /// As the engine gets them, all but host and rank.
    pub(super) headers: HeaderMap,
    pub(super) payload: Payload,
    /// Held as long as the payload may be needed again.
    pub(super) share: Share,
    /// What the router is asked; `None` for calls that take no slot.
    pub(super) question: Option<routing::Request>,
}

impl Call {
    /// Reads and understands a request, and tells that it arrived.
    pub(super) async fn read(
        gateway: &Gateway,
        known: Known,
        parts: Parts,
        incoming: Incoming,
        ledger: &mut Ledger,
    ) -> Result<Self, GatewayError> {
        let (dialect, routed) = match known.endpoint {
            Endpoint::Generate(dialect) => (dialect, true),
            Endpoint::Pass(dialect) => (dialect, false),
            _ => (Dialect::Other, false),
        };
        let body =
            inbound::read(&parts.headers, incoming, &gateway.limits, &gateway.budget).await?;
        let ids = identity::ids(&parts.headers);
        let mut facts = if routed {
            let who = (ledger.owner(), &ids);
            gateway.bookmarks.scan(dialect, who, &body.bytes)?
        } else {
            vllm::scan(dialect, Digests::Identity, &body.bytes)?
        };
        let Some((model, name)) = gateway.model(&facts.model) else {
            return Err(gateway.unknown_model(&facts.model));
        };
        let salt = if routed {
            salt::of(gateway, ledger.owner(), model, facts.cache_salt.as_deref())
        } else {
            None
        };
        if salt.is_some() {
            facts.lineage = salt::lineage(facts.lineage, ledger.owner());
        }
        let question =
            routed.then(|| question(gateway, ledger.owner(), (&ids, &facts), model, dialect));
        ledger.prompt_bytes(facts.prompt_bytes);
        let chain = facts.chain.take();
        ledger.arrived(|info| {
            info.model = Some(Arc::clone(name));
            info.stream = facts.stream;
            info.identity = question.and_then(|question| question.identity);
            info.prompt = question
                .filter(|question| question.identity.is_some())
                .zip(chain)
                .map(|(request, chain)| Box::new(PromptNote { request, chain }));
        });
        let mut payload = payload(model, &body.bytes, &facts);
        if let Some(salt) = &salt {
            payload = payload.with_member(salt);
        }
        let mut headers = parts.headers;
        headers::to_engine(&mut headers, engine_key(model).as_ref());
        Ok(Self {
            model: Arc::clone(model),
            dialect,
            method: parts.method,
            path: path(known, parts.uri.query()),
            headers,
            payload,
            share: body.share,
            question,
        })
    }
}

fn question(
    gateway: &Gateway,
    owner: OwnerId,
    (ids, facts): (&HeaderIds<'_>, &BodyFacts<'_>),
    model: &Model,
    dialect: Dialect,
) -> routing::Request {
    let candidates = identity::candidates(ids, facts);
    routing::Request {
        owner,
        identity: Identity::of(&gateway.seed, owner, &model.name, &candidates),
        pin: ids.pin,
        steerable: dialect != Dialect::Responses
            || model
                .responses_steerable
                .load(std::sync::atomic::Ordering::Relaxed),
        prompt_bytes: facts.prompt_bytes,
        shared_bytes: facts.shared_bytes,
        lineage: facts.lineage,
        front: facts.first_turn_hash.unwrap_or(0),
        class: identity::class(ids),
        streams: facts.stream,
    }
}

/// The client's bytes, with the engine's name for the model where it has another.
fn payload(model: &Model, body: &Bytes, facts: &BodyFacts<'_>) -> Payload {
    let engine_model = model
        .engine_model
        .read()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    // Until the engine has told its own name, it most likely goes by the configured one.
    let engine_model = match engine_model.as_str() {
        "" => model.name.as_str(),
        told => told,
    };
    if engine_model == facts.model {
        return Payload::whole(body.clone());
    }
    let span = &facts.model_span;
    let (_, name, _) = vllm::splice_model(body, span, engine_model);
    Payload::spliced(
        body.slice(..span.start),
        Bytes::from(name),
        body.slice(span.end..),
    )
}

fn engine_key(model: &Model) -> Option<HeaderValue> {
    let key = model.engine_key.as_ref()?;
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn path(known: Known, query: Option<&str>) -> PathAndQuery {
    let Some(query) = query else {
        return PathAndQuery::from_static(known.path);
    };
    format!("{}?{query}", known.path)
        .parse()
        .unwrap_or_else(|_| PathAndQuery::from_static(known.path))
}
