//! HTTP to the server that is measured.
//!
//! HTTP/1.1, over TLS where the URL says so; sessions keep their connections, so that a handshake is
//! no part of most turns. Whom to trust is the caller's to say. Idle connections are given up before vLLM closes them (5 s), since a reset on
//! a reused connection would be counted as a failed turn.

use crate::option::OptionError;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use super::{BenchError, BenchRequest};

const POOL_IDLE: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For questions that are no turns.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A server.
#[derive(Debug, Clone)]
pub(super) struct Http {
    base: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    key: Option<HeaderValue>,
}

/// An answer that is no turn.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Http {
    /// The server that a request names, asked with its key.
    pub(super) fn of(request: &BenchRequest) -> Result<Self, BenchError> {
        let bad = || {
            let mend = "give a URL such as http://127.0.0.1:8484 or https://host:8484";
            OptionError::new("--url", &request.url, mend)
        };
        let base = request.url.trim_end_matches('/').trim_end_matches("/v1");
        let uri: http::Uri = base.parse().map_err(|_| bad())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.authority().is_none() || uri.query().is_some() {
            return Err(bad().into());
        }
        let key = match &request.key {
            Some(key) => {
                let mut value = HeaderValue::try_from(format!("Bearer {key}"))
                    .map_err(|_| OptionError::new("LM_WARDEN_KEY", "…", "is no key"))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(request.tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self {
            base: base.to_owned(),
            client: Client::builder(TokioExecutor::new())
                .pool_idle_timeout(POOL_IDLE)
                .pool_timer(TokioTimer::new())
                .build(connector),
            key,
        })
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Sends a body and gives back the reply from its headers on; an error says in words what broke.
    pub(super) async fn post(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let request = self.request(Method::POST, path, headers, body);
        let sent = self.client.request(request).await;
        sent.map_err(|error| deepest(&error))
    }

    /// Asks a question that is no turn.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, BenchError> {
        let unreachable = |reason: String| BenchError::Unreachable {
            url: self.url(path),
            reason,
        };
        let request = self.request(method, path, HeaderMap::new(), body);
        let answer = async {
            let response = self.client.request(request).await;
            let (head, body) = response
                .map_err(|error| unreachable(deepest(&error)))?
                .into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            Ok(Answer {
                status: head.status,
                body: body
                    .map_err(|error| unreachable(error.to_string()))?
                    .to_bytes(),
            })
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(unreachable(format!(
                "no answer within {} s",
                ANSWER_TIMEOUT.as_secs()
            ))),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self
            .url(path)
            .parse()
            .expect("the base was parsed, and paths are our own");
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(key) = &self.key {
            headers.insert(header::AUTHORIZATION, key.clone());
        }
        *request.headers_mut() = headers;
        request
    }
}

/// The error at the bottom, which says what happened; those above it say only where.
pub(super) fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The beginning of an error's body, on one line.
pub(super) fn first_words(body: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 200;
    let text = String::from_utf8_lossy(body);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(CHARACTERS_MAX).collect()
}
