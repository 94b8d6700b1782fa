//! One request per connection, over a plain socket.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
};

use serde_json::Value;

use super::PATIENCE;

/// Where something listens: `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url(pub(crate) String);

/// A whole reply, its body as it came (chunks not put together).
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Url {
    fn address(&self) -> &str {
        self.0.strip_prefix("http://").unwrap()
    }

    /// Whether somebody accepts connections.
    pub(crate) fn is_open(&self) -> bool {
        TcpStream::connect(self.address()).is_ok()
    }

    /// Sends a request; the reply is still to be read.
    pub(crate) fn send(&self, head: &str, headers: &str, body: &str) -> TcpStream {
        self.try_send(head, headers, body).unwrap()
    }

    /// The same where nobody may be listening.
    pub(crate) fn try_send(&self, head: &str, headers: &str, body: &str) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{head} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            self.address(),
            body.len(),
        )?;
        Ok(stream)
    }

    pub(crate) fn ask(&self, head: &str, headers: &str, body: &str) -> Reply {
        Reply::read(self.send(head, headers, body))
    }

    /// The JSON of a successful `GET`.
    pub(crate) fn get(&self, path: &str) -> Value {
        let reply = self.ask(&format!("GET {path}"), "", "");
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        serde_json::from_str(&reply.body).unwrap()
    }

    /// One turn of a session over the Messages API.
    pub(crate) fn turn(&self, model: &str, session: &str, prompt: &str) -> Reply {
        let headers = format!("x-claude-code-session-id: {session}\r\n");
        self.ask(
            "POST /v1/messages",
            &headers,
            &messages(model, prompt, false),
        )
    }
}

/// A body of the Messages API.
pub(crate) fn messages(model: &str, prompt: &str, stream: bool) -> String {
    format!(
        r#"{{"model":"{model}","max_tokens":8,"stream":{stream},"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    )
}

impl Reply {
    /// To its end.
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Self {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Route and replica, as the warden's headers say.
    pub(crate) fn went(&self) -> (String, String) {
        assert_eq!(self.status, 200, "{}", self.body);
        let header = |name: &str| self.header(name).to_owned();
        (header("x-lm-warden-route"), header("x-lm-warden-replica"))
    }
}
