//! A mock engine: vLLM's surface as far as a proxy can see it, with replies that cost nothing.
//!
//! It runs as a process of its own, so that its CPU time is not taken for a proxy's. A stream is 256
//! events, each written by itself: how many of them a proxy gathers into one write is part of what is
//! measured.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};

/// Events of a streamed reply before its last, `message_stop`.
const EVENTS: usize = 255;

/// Serves on `ports` free ports until it is killed, and prints their numbers.
pub(crate) async fn serve(ports: usize, at: Option<SocketAddr>) -> anyhow::Result<()> {
    let mut accepting = tokio::task::JoinSet::new();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    for _ in 0..ports {
        let listener = TcpListener::bind(at.unwrap_or(any)).await?;
        println!("{}", listener.local_addr()?.port());
        accepting.spawn(accept(listener));
    }
    accepting.join_next().await.context("no port to serve")??
}

async fn accept(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(connection(stream));
    }
}

async fn connection(stream: TcpStream) {
    // A client that goes away is no event here.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
}

type Reply = Either<Full<Bytes>, EventStream>;

async fn answer(mut request: Request<Incoming>) -> Result<Response<Reply>, hyper::Error> {
    let pace = Pace::of(request.headers());
    let mut stream = false;
    let mut seen = 0;
    while let Some(frame) = request.body_mut().frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        // The benchmark's bodies say it in their first hundred bytes (crate::body).
        if seen == 0 {
            let head = &data[..data.len().min(100)];
            stream = head.windows(13).any(|window| window == b"\"stream\":true");
        }
        seen += data.len();
    }
    let text = |text: &'static str| Either::Left(Full::new(Bytes::from_static(text.as_bytes())));
    let (kind, body) = match request.uri().path() {
        "/v1/messages" if stream => ("text/event-stream", Either::Right(EventStream::new(pace))),
        "/v1/messages" => ("application/json", text(MESSAGE)),
        "/version" => ("application/json", text(r#"{"version":"0.33.0"}"#)),
        "/v1/models" => ("application/json", text(MODELS)),
        _ => ("text/plain", text("")),
    };
    let mut reply = Response::new(body);
    reply
        .headers_mut()
        .insert("content-type", http::HeaderValue::from_static(kind));
    Ok(reply)
}

const MESSAGE: &str = r#"{"id":"chatcmpl-bench","type":"message","role":"assistant","model":"bench","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":{"input_tokens":40,"cache_read_input_tokens":50000,"output_tokens":256}}"#;
const MODELS: &str =
    r#"{"object":"list","data":[{"id":"bench","object":"model","max_model_len":262144}]}"#;

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"chatcmpl-bench\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"bench\",\"stop_reason\":null,\"usage\":{\"input_tokens\":50040,\"output_tokens\":0}}}\n\n";
const BLOCK: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" token\"}}\n\n";
const BLOCK_STOP: &str =
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n";
const MESSAGE_DELTA: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":40,\"cache_read_input_tokens\":50000,\"output_tokens\":251}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// How a stream is paced: as the request's `x-bench-` headers say, else all events at once.
#[derive(Clone, Copy)]
struct Pace {
    events: usize,
    gap: Option<Duration>,
}

impl Pace {
    fn of(headers: &http::HeaderMap) -> Self {
        let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
        Self {
            events: number("x-bench-events").map_or(EVENTS, |events| events.max(5) as usize),
            gap: number("x-bench-gap-ms").map(Duration::from_millis),
        }
    }
}

/// A Messages stream. It is not ready after each event, which makes the server flush that event.
struct EventStream {
    pace: Pace,
    sent: usize,
    flushing: bool,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl EventStream {
    fn new(pace: Pace) -> Self {
        Self {
            pace,
            sent: 0,
            flushing: false,
            waiting: None,
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        } else if self.flushing {
            self.flushing = false;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let last = self.pace.events - 1;
        let event = match self.sent {
            0 => START,
            1 => BLOCK,
            at if at < last - 1 => DELTA,
            at if at == last - 1 => BLOCK_STOP,
            at if at == last => MESSAGE_DELTA,
            at if at == last + 1 => STOP,
            _ => return Poll::Ready(None),
        };
        self.sent += 1;
        self.flushing = true;
        self.waiting = self.pace.gap.map(|gap| Box::pin(sleep(gap)));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(event.as_bytes())))))
    }
}

/// A mock engine in a process of its own; it ends with this value.
pub(crate) struct Child {
    process: std::process::Child,
    /// Where its "replicas" listen.
    pub(crate) ports: Vec<SocketAddr>,
}

impl Child {
    /// Listens on so many free ports.
    pub(crate) fn start(ports: usize) -> anyhow::Result<Self> {
        Self::spawn(ports, &[])
    }

    /// Listens at this address.
    pub(crate) fn start_at(address: SocketAddr) -> anyhow::Result<Self> {
        Self::spawn(1, &["--at", &address.to_string()])
    }

    fn spawn(ports: usize, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["mock", "--ports", &ports.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().context("the mock's output")?;
        let lines = BufReader::new(output).lines().take(ports);
        let listening = lines
            .map(|line| Ok(SocketAddr::from(([127, 0, 0, 1], line?.parse()?))))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let child = Self {
            process,
            ports: listening,
        };
        anyhow::ensure!(child.ports.len() == ports, "the mock engine did not start");
        Ok(child)
    }

    /// Sends it a signal, as `kill` names it.
    pub(crate) fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status()?;
        anyhow::ensure!(sent.success(), "kill {signal} {pid} failed");
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
