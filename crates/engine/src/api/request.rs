//! What all dialects' requests have in common, and how a body becomes one.

use std::sync::Arc;

use axum::extract::Request as HttpRequest;
use http::{HeaderMap, header};
use serde_json::Value;
use sim::scheduler::UNSALTED;

use super::Connection;
use crate::{
    conversation::{Conversation, ToolChoice, hash},
    core::Core,
    error::{ApiError, Shape},
};

/// An HTTP request, read to its end.
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) headers: HeaderMap,
    pub(crate) connection: Connection,
    pub(crate) body: Value,
}

/// What a reply is generated from.
pub(crate) struct Request {
    pub(crate) shape: Shape,
    /// Whether this API honours the rank header.
    pub(crate) steered: bool,
    pub(crate) stream: bool,
    pub(crate) conversation: Conversation,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) prompt: Vec<u32>,
    /// Tokens that the client allows; `None` for as many as fit.
    pub(crate) max_tokens: Option<u32>,
}

impl Call {
    /// Reads and parses the body. Like vLLM, it sets no limit to its size.
    pub(crate) async fn read(core: Arc<Core>, request: HttpRequest) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let content_type = parts.headers.get(header::CONTENT_TYPE);
        let media_type = content_type
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .unwrap_or_default();
        if !media_type.eq_ignore_ascii_case("application/json") {
            return Err(ApiError::NotJsonType);
        }
        let bytes = axum::body::to_bytes(body, usize::MAX)
            .await
            .map_err(|_| ApiError::NotJson { at: 0 })?;
        let body = serde_json::from_slice(&bytes)
            .map_err(|error| ApiError::NotJson { at: error.column() })?;
        let connection = parts
            .extensions
            .get::<Connection>()
            .cloned()
            .expect("the server adds it to every request");
        Ok(Self {
            core,
            headers: parts.headers,
            connection,
            body,
        })
    }

    /// An array that has to be there.
    pub(crate) fn array(&self, field: &'static str) -> Result<&[Value], ApiError> {
        match &self.body[field] {
            Value::Null => Err(ApiError::missing(field, &self.body)),
            Value::Array(items) => Ok(items),
            other => Err(ApiError::wrong(
                field,
                "Input should be a valid list",
                other,
            )),
        }
    }

    /// Checks that the model is one of the served. The OpenAI APIs let it be absent.
    pub(crate) fn check_model(&self) -> Result<(), ApiError> {
        let names = &self.core.config.served_model_names;
        match self.body["model"].as_str() {
            None | Some("") => Ok(()),
            Some(model) if names.iter().any(|name| name == model) => Ok(()),
            Some(model) => Err(ApiError::UnknownModel(model.to_owned())),
        }
    }

    /// A positive number of tokens at `field`.
    pub(crate) fn max_tokens(&self, field: &'static str) -> Result<Option<u32>, ApiError> {
        match &self.body[field] {
            Value::Null => Ok(None),
            value => match value.as_u64() {
                Some(tokens) if tokens > 0 => Ok(Some(u32::try_from(tokens).unwrap_or(u32::MAX))),
                _ => Err(ApiError::wrong(
                    field,
                    "Value error, must be positive",
                    value,
                )),
            },
        }
    }

    /// Refuses a temperature below zero, as vLLM's sampling parameters do.
    pub(crate) fn check_temperature(&self) -> Result<(), ApiError> {
        match self.body["temperature"].as_f64() {
            Some(temperature) if temperature < 0.0 => {
                let message = format!(
                    "temperature must be non-negative, got {temperature:?}. \
                     (parameter=temperature, value={temperature:?})"
                );
                Err(ApiError::client(message, Some("temperature")))
            }
            _ => Ok(()),
        }
    }

    /// What keeps its cached blocks apart from others', where the body and the version have it.
    pub(crate) fn salt(&self) -> u64 {
        let salt = self.body["cache_salt"]
            .as_str()
            .filter(|salt| !salt.is_empty());
        let honoured = salt.filter(|_| self.core.config.vllm_version.takes_cache_salt());
        honoured.map_or(UNSALTED, |salt| {
            hash(&salt.bytes().map(u32::from).collect::<Vec<_>>())
        })
    }

    /// A flag that is false where absent.
    pub(crate) fn flag(&self, field: &str) -> bool {
        self.body[field].as_bool().unwrap_or(false)
    }

    /// The id of the reply: the client's `X-Request-Id` behind the prefix, else a fresh one.
    pub(crate) fn reply_id(&self, prefix: &str) -> String {
        let given = self.headers.get("x-request-id");
        match given.and_then(|value| value.to_str().ok()) {
            Some(id) => format!("{prefix}{id}"),
            None => format!("{prefix}{}", self.core.fresh_id()),
        }
    }
}

/// The text of a string, or of whatever else stands in its place.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
