//! A small client: whole replies, streams event by event, metrics.

use std::{collections::BTreeMap, future::Future, time::Duration};

use bytes::Bytes;
use engine::Engine;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};

/// Longer than any test takes, in virtual time.
const TEST_LASTS_MAX: Duration = Duration::from_secs(600);

pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    url: String,
}

/// A reply, read to its end.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A server-sent event: its name (empty for the OpenAI dialects) and its data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// A stream, read as it arrives.
pub(crate) struct Stream {
    body: Incoming,
    buffer: String,
}

impl Client {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self {
            http: legacy::Client::builder(TokioExecutor::new()).build_http(),
            url: engine.url(),
        }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        within(self.http.request(request)).await.unwrap()
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Reply {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        let response = self.send(Method::POST, path, &all, body.to_string()).await;
        Reply::read(response).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        Reply::read(self.send(Method::GET, path, &[], "").await).await
    }

    /// Opens a stream; returns once its headers are there.
    pub(crate) async fn open(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Stream {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        let response = self.send(Method::POST, path, &all, body.to_string()).await;
        assert_eq!(response.status(), 200);
        Stream {
            body: response.into_body(),
            buffer: String::new(),
        }
    }

    /// A metric of each rank, summed over other labels that match.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> BTreeMap<usize, f64> {
        let page = self.get("/metrics").await.text();
        let mut values = BTreeMap::new();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Some(labels) = series.strip_prefix(&format!("vllm:{name}{{")) else {
                continue;
            };
            if labels.contains(label) {
                let rank = labels.split("engine=\"").nth(1).unwrap();
                let rank = rank.split('"').next().unwrap().parse().unwrap();
                *values.entry(rank).or_default() += value.parse::<f64>().unwrap();
            }
        }
        values
    }

    /// Waits until the first rank's gauge is so.
    pub(crate) async fn until(&self, gauge: &str, value: f64) {
        let reached = async {
            while self.metric(gauge, "").await[&0] != value {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within(reached).await;
    }

    /// A fault from now on.
    pub(crate) async fn fault(&self, spec: &str) {
        let spec = spec.to_owned();
        let response = self.send(Method::POST, "/sim/fault", &[], spec).await;
        assert_eq!(response.status(), 204);
    }
}

impl Reply {
    pub(crate) async fn read(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let body = within(body.collect()).await.unwrap().to_bytes();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let text = self.text();
        text.split_terminator("\n\n").map(Event::parse).collect()
    }
}

impl Event {
    fn parse(text: &str) -> Self {
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name).map(str::to_owned))
        };
        Self {
            name: field("event: ").unwrap_or_default(),
            data: field("data: ").unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Stream {
    /// The next event; `None` at a clean end, an error where the stream broke.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, hyper::Error> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let event = Event::parse(&self.buffer[..end]);
                self.buffer.drain(..end + 2);
                return Ok(Some(event));
            }
            match within(self.body.frame()).await {
                Some(frame) => {
                    let data = frame?.into_data().unwrap();
                    self.buffer.push_str(std::str::from_utf8(&data).unwrap());
                }
                None => return Ok(None),
            }
        }
    }

    /// All events up to the end, and whether that was clean.
    pub(crate) async fn rest(mut self) -> (Vec<Event>, bool) {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, true),
                Err(_) => return (events, false),
            }
        }
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_LASTS_MAX, future)
        .await
        .expect("it takes longer than any test does")
}

/// A Messages body with one user message.
pub(crate) fn ask(text: &str) -> Value {
    json!({"model": "demo", "max_tokens": 100_000, "messages": [{"role": "user", "content": text}]})
}

/// The same, streamed.
pub(crate) fn ask_stream(text: &str) -> Value {
    let mut body = ask(text);
    body["stream"] = json!(true);
    body
}

/// Text that is so many tokens long and differs by its number.
pub(crate) fn text(number: usize, tokens: usize) -> String {
    let mut text = String::with_capacity(tokens * 4);
    for token in 0..tokens {
        text.push_str(
            &[number, token % 100]
                .map(|part| format!("{part:02}"))
                .concat(),
        );
    }
    text
}
