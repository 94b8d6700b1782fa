//! Reads a reply as it passes: token usage, and whether it ended as it should.
//!
//! The bytes themselves go to the client untouched; the tap only says how many of them may go now.
//! What it cannot read (another content coding, a reply over its bounds) passes unmeasured.

mod payload;
mod sse;
mod stream;
#[cfg(test)]
mod tests;
mod usage;
mod whole;

use crate::Dialect;

use stream::Stream;
use whole::Whole;

pub use usage::{Usage, split_prompt};

/// Largest reply, and largest single event of a stream, whose usage is read, in bytes.
pub const MEASURED_BYTES_MAX: usize = 1 << 20;

/// Most bytes of a stream that are held back at once.
pub const HELD_BYTES_MAX: usize = 64 << 10;

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
pub struct ReplyTap {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Stream(Box<Stream>),
    Whole(Whole),
}

impl ReplyTap {
    /// A tap for a reply of this dialect; `streaming` as the reply's content type says
    /// (`text/event-stream`), `status` as the engine answered.
    pub fn new(dialect: Dialect, streaming: bool, status: u16) -> Self {
        let form = if streaming && status < 400 {
            Form::Stream(Box::new(Stream::new(dialect)))
        } else {
            Form::Whole(Whole::new(dialect, status))
        };
        Self { form }
    }

    /// Reads a chunk.
    pub fn feed(&mut self, chunk: &[u8]) -> TapOutput {
        match &mut self.form {
            Form::Stream(stream) => stream.feed(chunk),
            Form::Whole(whole) => {
                whole.feed(chunk);
                TapOutput::Pass(chunk.len())
            }
        }
    }

    /// The body ended cleanly (as far as HTTP says). Bytes still held are the torn start of an
    /// event, of no use to the client.
    pub fn finish(&mut self) -> StreamEnd {
        match &mut self.form {
            Form::Stream(stream) => stream.finish(),
            Form::Whole(whole) => whole.finish(),
        }
    }

    /// Usage seen so far; final after [`Self::finish`], and of a whole reply known only then.
    pub fn usage(&self) -> Option<Usage> {
        match &self.form {
            Form::Stream(stream) => stream.usage(),
            Form::Whole(whole) => whole.usage(),
        }
    }

    /// Whether the first real event was seen, which is neither a comment nor a ping; of a whole
    /// reply, its first byte.
    pub fn saw_first_event(&self) -> bool {
        match &self.form {
            Form::Stream(stream) => stream.saw_first_event(),
            Form::Whole(whole) => whole.saw_first_byte(),
        }
    }
}
