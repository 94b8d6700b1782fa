//! Four replicas that record what reaches them and answer each API with the shortest valid reply.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

/// A request as it reached a replica.
pub(crate) struct Captured {
    pub(crate) replica: usize,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

#[derive(Default)]
struct State {
    captured: Mutex<Vec<Captured>>,
    /// Where set, no request is answered before so many have arrived.
    together: Mutex<Option<Arc<Barrier>>>,
}

/// The replicas; they end with the test's runtime.
pub(crate) struct Upstream {
    pub(crate) addresses: Vec<SocketAddr>,
    state: Arc<State>,
}

impl Upstream {
    pub(crate) async fn start(replicas: usize) -> Self {
        let state = Arc::new(State::default());
        let mut addresses = Vec::new();
        for replica in 0..replicas {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            addresses.push(listener.local_addr().expect("an address"));
            tokio::spawn(accept(listener, replica, Arc::clone(&state)));
        }
        Self { addresses, state }
    }

    /// What has arrived since the last call.
    pub(crate) fn take(&self) -> Vec<Captured> {
        std::mem::take(&mut self.state.captured.lock().expect("not poisoned"))
    }

    /// From now on answers only when `requests` are in flight together.
    pub(crate) fn hold_until(&self, requests: usize) {
        let barrier = Some(Arc::new(Barrier::new(requests)));
        *self.state.together.lock().expect("not poisoned") = barrier;
    }
}

async fn accept(listener: TcpListener, replica: usize, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, replica, Arc::clone(&state)));
    }
}

async fn connection(stream: TcpStream, replica: usize, state: Arc<State>) {
    let service = service_fn(|request| answer(request, replica, &state));
    // The other side may close whenever it likes.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    replica: usize,
    state: &State,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    let path = parts.uri.path().to_owned();
    let stream = parts.method == Method::POST && !path.contains("count_tokens");
    if parts.method == Method::POST {
        let path = parts.uri.path_and_query().expect("a path").to_string();
        let captured = Captured {
            replica,
            path,
            headers: parts.headers,
            body,
        };
        state.captured.lock().expect("not poisoned").push(captured);
        let together = state.together.lock().expect("not poisoned").clone();
        if let Some(barrier) = together {
            barrier.wait().await;
        }
    }
    let kind = if stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    let mut reply = Response::new(Full::from(reply_of(&path)));
    reply
        .headers_mut()
        .insert("content-type", HeaderValue::from_static(kind));
    Ok(reply)
}

/// A reply without content in the shape of the API at `path`. Every recorded turn asked for a stream.
pub(crate) fn reply_of(path: &str) -> &'static str {
    match path {
        "/v1/messages" => MESSAGES,
        "/v1/chat/completions" => CHAT,
        "/v1/responses" => RESPONSES,
        "/v1/messages/count_tokens" => r#"{"input_tokens":7}"#,
        "/v1/models" => r#"{"object":"list","data":[{"id":"lab-model","object":"model"}]}"#,
        "/version" => r#"{"version":"0.26.0"}"#,
        _ => "",
    }
}

const MESSAGES: &str = "event: message_start\n\
data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"lab-model\",\"stop_reason\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":0}}}\n\n\
event: message_delta\n\
data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":2,\"cache_read_input_tokens\":7,\"output_tokens\":1}}\n\n\
event: message_stop\n\
data: {\"type\":\"message_stop\"}\n\n";

const CHAT: &str = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,\"total_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\n\
data: [DONE]\n\n";

const RESPONSES: &str = "event: response.created\n\
data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"in_progress\",\"output\":[]}}\n\n\
event: response.completed\n\
data: {\"type\":\"response.completed\",\"sequence_number\":1,\"response\":{\"id\":\"r\",\"object\":\"response\",\"status\":\"completed\",\"output\":[],\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":7},\"output_tokens\":1,\"total_tokens\":10}}}\n\n";
