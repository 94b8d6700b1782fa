//! Everything the gateway itself may answer instead of an engine, and the one place where that
//! becomes a response.

use http::{HeaderValue, Response, StatusCode, header};
use routing::Refusal;
use vllm::{BodyError, Dialect, ErrorKind};

use super::{body::Body, stamp::Stamp};
use crate::{
    keys::{Denied, Limited},
    telemetry::End,
    upstream::ConnectError,
};

/// Seconds after which a client may come back: an engine that loads, a replica that restarts, and
/// buffers that drain.
const RETRY_LOADING_S: u32 = 10;
const RETRY_REPLICA_S: u32 = 3;
const RETRY_BUFFER_S: u32 = 1;

/// What is noted where a client left before the answer.
pub(super) const CLIENT_GONE_STATUS: u16 = 499;

/// Why a request was not answered by an engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum GatewayError {
    /// Client: no key, a wrong one, or one that may not.
    #[error(transparent)]
    Denied(Denied),
    /// Client: over a limit of its key; a retry helps, later.
    #[error("this key's limit of {} {} is reached; try again in {} s", .0.value, .0.limit, .0.retry_after_s)]
    Limited(Limited),
    /// Client: the body is of no use.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// Client: the head of its request breaks HTTP's rules.
    #[error("the request's line or headers break the rules of HTTP/1.1")]
    HeadBroken,
    /// Client: too large a head.
    #[error(
        "the request's line and headers are larger than {bytes_max} bytes or more than 100 lines, \
         the most this gateway takes"
    )]
    HeadTooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// Client: it left while it sent the body. Only the log sees this.
    #[error("the connection closed before the request body was whole")]
    ClientGone,
    /// Client: the body's framing is broken.
    #[error("the request body did not arrive whole")]
    BodyBroken,
    /// Client: vLLM does not read compressed bodies, and neither does the warden.
    #[error("request bodies with a content-encoding are not supported; send plain JSON")]
    BodyCompressed,
    /// Client: too large.
    #[error("the request body is larger than {bytes_max} bytes, the most this gateway takes")]
    BodyTooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// Client: too slow.
    #[error("the request body arrived too slowly")]
    BodyTimeout,
    /// Ours: too many bodies at once; a retry helps.
    #[error("too many request bodies are held at the moment; try again shortly")]
    BufferFull,
    /// Client: no such path.
    #[error("there is no {path} here; the APIs are under /v1")]
    UnknownPath {
        /// As asked for.
        path: String,
    },
    /// Client: the path takes another method.
    #[error("{path} takes {allow} only")]
    Method {
        /// The path.
        path: &'static str,
        /// What it takes.
        allow: &'static str,
    },
    /// Client: nobody serves this model here.
    #[error("the model \"{asked}\" is not served here; the models are: {known}")]
    UnknownModel {
        /// As asked for, shortened.
        asked: String,
        /// All names and aliases.
        known: String,
    },
    /// Client: no such rank.
    #[error("{0}")]
    Pin(Refusal),
    /// So many wait for room that it would wait for too long; a retry helps.
    #[error("the machine is full: {0}")]
    QueueTooLong(Refusal),
    /// Nobody can take it now; a retry helps.
    #[error("the model \"{model}\" cannot answer: {cause}")]
    Unavailable {
        /// Its name.
        model: String,
        /// Its state, or what the router said.
        cause: String,
        /// When to come back, in seconds.
        retry_after_s: u32,
    },
    /// Engine: it broke off before a byte, and no other could be asked.
    #[error("the engine broke off before it answered: {cause}")]
    EngineBroke {
        /// What was seen.
        cause: String,
    },
    /// Engine: nothing moved on the replica for the whole time.
    #[error("the replica made no progress for {seconds} s")]
    Stalled {
        /// The bound.
        seconds: u64,
    },
    /// Ours: a fault of the program.
    #[error("lm-warden failed at this request; its log says where")]
    Panicked,
    /// Ours: no file or port is left for a connection to the engine; a retry helps.
    #[error("{0}")]
    Scarcity(ConnectError),
    /// Ours: a configured address is none.
    #[error("{0}")]
    Address(ConnectError),
}

impl GatewayError {
    /// A model that cannot answer because of its state.
    pub(super) fn loading(model: &str, cause: String) -> Self {
        Self::Unavailable {
            model: model.to_owned(),
            cause,
            retry_after_s: RETRY_LOADING_S,
        }
    }

    /// A model none of whose replicas may be asked.
    pub(super) fn no_replica(model: &str, cause: String) -> Self {
        Self::Unavailable {
            model: model.to_owned(),
            cause,
            retry_after_s: RETRY_REPLICA_S,
        }
    }

    /// A model for which nobody may wait any more, as the warden is being stopped.
    pub(super) fn stopping(model: &str) -> Self {
        let cause = "lm-warden is stopping, and whoever waits has to ask again".to_owned();
        Self::no_replica(model, cause)
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::ClientGone => StatusCode::from_u16(CLIENT_GONE_STATUS).expect("in range"),
            Self::Denied(denied) => denied.status(),
            Self::Limited(_) | Self::QueueTooLong(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Body(_)
            | Self::BodyBroken
            | Self::BodyCompressed
            | Self::HeadBroken
            | Self::Pin(_) => StatusCode::BAD_REQUEST,
            Self::HeadTooLarge { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UnknownPath { .. } | Self::UnknownModel { .. } => StatusCode::NOT_FOUND,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BufferFull | Self::Scarcity(_) | Self::Unavailable { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::EngineBroke { .. } | Self::Address(_) => StatusCode::BAD_GATEWAY,
            Self::Stalled { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// How the request is counted.
    pub(super) fn end(&self) -> End {
        match self {
            Self::ClientGone => End::ClientGone,
            Self::EngineBroke { .. } => End::Lost,
            Self::Stalled { .. } => End::Timeout,
            Self::Panicked => End::Internal,
            _ => End::Refused,
        }
    }

    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Denied(denied) if denied.status() == StatusCode::UNAUTHORIZED => {
                ErrorKind::Authentication
            }
            Self::Denied(_) => ErrorKind::Permission,
            Self::Limited(_) | Self::QueueTooLong(_) => ErrorKind::RateLimit,
            Self::ClientGone
            | Self::Body(_)
            | Self::BodyBroken
            | Self::BodyCompressed
            | Self::HeadBroken
            | Self::Pin(_) => ErrorKind::InvalidRequest,
            Self::HeadTooLarge { .. } => ErrorKind::HeadersTooLarge,
            Self::UnknownPath { .. } | Self::UnknownModel { .. } => ErrorKind::NotFound,
            Self::Method { .. } => ErrorKind::MethodNotAllowed,
            Self::BodyTooLarge { .. } => ErrorKind::TooLarge,
            Self::BodyTimeout | Self::Stalled { .. } => ErrorKind::Timeout,
            Self::BufferFull | Self::Scarcity(_) | Self::Unavailable { .. } => {
                ErrorKind::Overloaded
            }
            Self::EngineBroke { .. } | Self::Address(_) | Self::Panicked => ErrorKind::Api,
        }
    }

    /// The field at fault, for the shape that names it.
    fn param(&self) -> Option<&'static str> {
        match self {
            Self::Body(BodyError::MissingModel) | Self::UnknownModel { .. } => Some("model"),
            Self::Body(BodyError::WrongType { key, .. }) => Some(key),
            _ => None,
        }
    }

    /// False where the same request can only fail again.
    fn retry_may_help(&self) -> bool {
        matches!(
            self,
            Self::Limited(_)
                | Self::BodyBroken
                | Self::BodyTimeout
                | Self::BufferFull
                | Self::Scarcity(_)
                | Self::QueueTooLong(_)
                | Self::Unavailable { .. }
                | Self::EngineBroke { .. }
                | Self::Stalled { .. }
        )
    }

    fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::BufferFull | Self::Scarcity(_) => Some(RETRY_BUFFER_S),
            Self::Unavailable { retry_after_s, .. }
            | Self::Limited(Limited { retry_after_s, .. }) => Some(*retry_after_s),
            Self::QueueTooLong(Refusal::QueueTooLong { retry_after, .. }) => {
                Some(retry_after.as_secs_f64().ceil() as u32)
            }
            _ => None,
        }
    }

    /// The response, in the shape of the API that was called.
    pub(super) fn response(&self, dialect: Dialect, stamp: &Stamp) -> Response<Body> {
        self.response_text(dialect, stamp).map(Body::full)
    }

    /// The same with the bytes at hand.
    pub(super) fn response_text(&self, dialect: Dialect, stamp: &Stamp) -> Response<Vec<u8>> {
        let id = stamp.id.to_string();
        let body = vllm::error_body(dialect, self.kind(), &self.to_string(), self.param(), &id);
        let mut response = Response::new(body);
        *response.status_mut() = match self {
            // Only the log knows 499. Whoever still listens has closed its side of the connection
            // before the body was whole.
            Self::ClientGone => StatusCode::BAD_REQUEST,
            _ => self.status(),
        };
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(seconds) = self.retry_after_s() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if !self.retry_may_help() {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"lm-warden\"");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Self::Method { allow, .. } = self {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        stamp.put(headers);
        response
    }
}
