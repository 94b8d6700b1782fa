//! Reads a reply as it passes: token usage, and whether the stream ended as it should.

use crate::Dialect;

/// What the engine counted for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All prompt tokens, cached ones included (Messages: input + cache read + cache creation).
    pub prompt_tokens: u64,
    /// Read from the prefix cache; `None` where the engine did not say.
    pub cached_tokens: Option<u64>,
    /// Generated tokens.
    pub completion_tokens: u64,
}

/// How a reply ended, once its body has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Complete: `message_stop`, `[DONE]`, `response.completed`, or a whole JSON body.
    Complete,
    /// The engine said it failed: an error event, or an error status.
    EngineError,
    /// Ended without its closing event, or with `stop_reason: null`: cut, whatever HTTP says.
    Cut,
}

/// What to do with the bytes just fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapOutput {
    /// This many bytes, counted from the start of what is held plus what was fed, may go to the
    /// client now; the tap keeps the rest (bounded) and counts it with the next feed.
    Pass(usize),
    /// A `message_delta` with `stop_reason: null`: withhold it and all that follows; the stream is
    /// broken. The number of bytes before it may pass.
    Broken(usize),
}

/// Tap of one reply. Feed it every body chunk in order, split at any byte.
#[derive(Debug)]
pub struct ReplyTap {}

impl ReplyTap {
    /// A tap for a reply of this dialect; `streaming` as the reply's content type says
    /// (`text/event-stream`), `status` as the engine answered.
    pub fn new(_dialect: Dialect, _streaming: bool, _status: u16) -> Self {
        todo!()
    }

    /// Reads a chunk.
    pub fn feed(&mut self, _chunk: &[u8]) -> TapOutput {
        todo!()
    }

    /// The body ended cleanly (as far as HTTP says).
    pub fn finish(&mut self) -> StreamEnd {
        todo!()
    }

    /// Usage seen so far; final after [`Self::finish`].
    pub fn usage(&self) -> Option<Usage> {
        todo!()
    }
}
