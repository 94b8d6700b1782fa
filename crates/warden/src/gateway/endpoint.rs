//! The client paths, and what each of them is.

use http::Method;
use vllm::Dialect;

/// What a path does here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// Generates: routed, counted in flight, part of a conversation.
    Generate(Dialect),
    /// Goes to any replica, takes no slot and touches no conversation.
    Pass(Dialect),
    /// `/v1/models`
    Models,
    /// `/v1/models/{id}`
    Model,
    /// `/health`
    Health,
    /// `/ready`
    Ready,
    /// `/version`
    Version,
    /// `HEAD /` and `HEAD /api/hello`: agents ask whether anything is there.
    Hello,
}

impl Endpoint {
    /// Whether it is answered without a key, too: what tells no more than that something is here.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Health | Self::Ready | Self::Hello)
    }
}

const MODEL_PREFIX: &str = "/v1/models/";

/// A client path with what it accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) endpoint: Endpoint,
    /// As a name for logs and the engine; for `/v1/models/{id}` without the id.
    pub(super) path: &'static str,
    /// As the `Allow` header names it.
    pub(super) allow: &'static str,
}

impl Known {
    const fn new(endpoint: Endpoint, path: &'static str, allow: &'static str) -> Self {
        Self {
            endpoint,
            path,
            allow,
        }
    }

    /// Whether the path takes this method.
    pub(super) fn allows(&self, method: &Method) -> bool {
        self.allow
            .split(", ")
            .any(|allowed| allowed == method.as_str())
    }
}

/// Looks a request up; `None` for what is not the clients' side.
pub(super) fn lookup(method: &Method, path: &str) -> Option<Known> {
    use Dialect::{ChatCompletions, Completions, Messages, Other, Responses};
    use Endpoint::{Generate, Hello, Pass};
    let known = match path {
        "/v1/messages" => Known::new(Generate(Messages), "/v1/messages", "POST"),
        "/v1/chat/completions" => {
            Known::new(Generate(ChatCompletions), "/v1/chat/completions", "POST")
        }
        "/v1/completions" => Known::new(Generate(Completions), "/v1/completions", "POST"),
        "/v1/responses" => Known::new(Generate(Responses), "/v1/responses", "POST"),
        "/v1/messages/count_tokens" => {
            Known::new(Pass(Messages), "/v1/messages/count_tokens", "POST")
        }
        "/v1/embeddings" => Known::new(Pass(Other), "/v1/embeddings", "POST"),
        "/tokenize" => Known::new(Pass(Other), "/tokenize", "POST"),
        "/detokenize" => Known::new(Pass(Other), "/detokenize", "GET, POST"),
        "/v1/models" => Known::new(Endpoint::Models, "/v1/models", "GET, HEAD"),
        "/health" => Known::new(Endpoint::Health, "/health", "GET, HEAD"),
        "/ready" => Known::new(Endpoint::Ready, "/ready", "GET, HEAD"),
        "/version" => Known::new(Endpoint::Version, "/version", "GET, HEAD"),
        "/" if method == Method::HEAD => Known::new(Hello, "/", "GET, HEAD"),
        "/api/hello" => Known::new(Hello, "/api/hello", "GET, HEAD"),
        _ if path.len() > MODEL_PREFIX.len() && path.starts_with(MODEL_PREFIX) => {
            Known::new(Endpoint::Model, MODEL_PREFIX, "GET, HEAD")
        }
        _ => return None,
    };
    Some(known)
}

/// Whether a path is the clients' side's to answer for, known or not: its errors then have an API's
/// shape, and not the operators'.
pub(super) fn is_clients(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/")
}

/// The id in `/v1/models/{id}`, percent-decoded; ids of models hold slashes and colons.
pub(super) fn model_id(path: &str) -> String {
    percent_decode(path.strip_prefix(MODEL_PREFIX).unwrap_or_default())
}

/// The shape in which an error on this path is told. Everything but the Messages API speaks the
/// OpenAI shape.
pub(super) fn dialect_of(path: &str) -> Dialect {
    if path == "/v1/messages" || path.starts_with("/v1/messages/") {
        Dialect::Messages
    } else {
        Dialect::Other
    }
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let decoded = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = decoded {
            bytes.push(high << 4 | low);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods() {
        let check = |method: Method, path: &str, expected: Option<bool>| {
            let found = lookup(&method, path).map(|known| known.allows(&method));
            assert_eq!(found, expected, "{method} {path}");
        };
        check(Method::POST, "/v1/messages", Some(true));
        check(Method::GET, "/v1/messages", Some(false));
        check(Method::DELETE, "/v1/chat/completions", Some(false));
        check(Method::GET, "/detokenize", Some(true));
        check(Method::POST, "/detokenize", Some(true));
        check(Method::POST, "/v1/models", Some(false));
        check(Method::GET, "/v1/models/org/name", Some(true));
        check(Method::GET, "/v1/models/", None);
        check(Method::HEAD, "/", Some(true));
        check(Method::GET, "/", None);
        check(Method::HEAD, "/api/hello", Some(true));
        check(Method::POST, "/v1/messages/", None);
        check(Method::POST, "//v1/messages", None);
    }

    #[test]
    fn paths_under_v1_are_the_clients() {
        for path in ["/v1", "/v1/", "/v1/audio/speech", "/v1/messages/batches"] {
            assert!(is_clients(path), "{path}");
        }
        for path in [
            "/",
            "/v10/models",
            "/api/v1/models",
            "/models/v1/x",
            "//v1/x",
        ] {
            assert!(!is_clients(path), "{path}");
        }
    }

    #[test]
    fn model_ids_are_decoded() {
        assert_eq!(model_id("/v1/models/org%2Fname:x"), "org/name:x");
        assert_eq!(model_id("/v1/models/50%"), "50%");
        assert_eq!(model_id("/v1/models/%zz%41"), "%zzA");
    }
}
