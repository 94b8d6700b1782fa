//! How a dialect writes a reply: event by event, or whole.

use bytes::Bytes;
use serde::Serialize;

use crate::{
    VllmVersion,
    error::{ApiError, Shape},
    generation::{Finish, Usage},
    plan::{Plan, Show},
};

/// Server-sent events, one piece each.
#[derive(Debug, Default)]
pub(crate) struct Events(pub(crate) Vec<Bytes>);

/// One token as a writer sees it.
pub(crate) struct Token<'a> {
    pub(crate) show: &'a Show,
    pub(crate) plan: &'a Plan,
    pub(crate) usage: Usage,
    /// Set on the last token.
    pub(crate) finish: Option<Finish>,
}

/// A reply of one dialect.
pub(crate) trait Writer: Send {
    /// What goes out before the first token is there.
    fn open(&mut self, _events: &mut Events) {}

    /// What goes out with the first token, before it.
    fn start(&mut self, usage: Usage, events: &mut Events);

    /// One token.
    fn token(&mut self, token: &Token<'_>, events: &mut Events);

    /// The end of the stream.
    fn end(&mut self, plan: &Plan, finish: Finish, usage: Usage, events: &mut Events);

    /// An error instead of the stream.
    fn fail(&mut self, error: &ApiError, events: &mut Events);

    /// The whole reply, not streamed.
    fn whole(&mut self, plan: &Plan, finish: Finish, usage: Usage) -> Vec<u8>;
}

impl Events {
    /// `event:` and `data:`.
    pub(crate) fn named(&mut self, name: &str, data: &impl Serialize) {
        self.push(&format!("event: {name}\ndata: "), data);
    }

    /// `data:` alone.
    pub(crate) fn data(&mut self, data: &impl Serialize) {
        self.push("data: ", data);
    }

    /// The end of an OpenAI stream.
    pub(crate) fn done(&mut self) {
        self.0.push(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    /// The end of a chat or completion stream that failed: the error, then `[DONE]` as ever.
    pub(crate) fn failed(&mut self, error: &ApiError, version: VllmVersion) {
        let (_, body) = error.body(Shape::OpenAi, version);
        self.raw("data: ", &body);
        self.done();
    }

    /// An event whose JSON is printed already.
    pub(crate) fn raw(&mut self, head: &str, json: &[u8]) {
        self.0
            .push([head.as_bytes(), json, b"\n\n"].concat().into());
    }

    fn push(&mut self, head: &str, data: &impl Serialize) {
        let mut event = head.as_bytes().to_vec();
        serde_json::to_writer(&mut event, data).expect("events hold only strings and numbers");
        event.extend_from_slice(b"\n\n");
        self.0.push(event.into());
    }
}
