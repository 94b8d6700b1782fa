//! A reply that is a stream of server-sent events.
//!
//! Events that lie whole in a chunk, nearly all of them, are read where they lie; only a torn one
//! is copied. Deltas are not parsed: a byte search tells whether an event holds anything of
//! interest. What may not reach the client is the mark of a reply that a dying vLLM cut short and
//! makes look complete: in the Messages API a `message_delta` with `stop_reason: null` (or a
//! `message_stop` without any stop reason before it), in the completions APIs a choice whose
//! `finish_reason` is `abort`. A torn event that may become such a `message_delta` is held back;
//! anything else passes at once, and then it is the end of the marked event that is withheld,
//! without which no client acts on it.

use memchr::memmem::Finder;

use super::{
    HELD_BYTES_MAX, MEASURED_BYTES_MAX, StreamEnd, TapOutput,
    payload::{self, Payload},
    sse::{Event, Framer, may_be_named},
    usage::{self, Usage},
};
use crate::Dialect;

#[derive(Debug)]
pub(super) struct Stream {
    dialect: Dialect,
    framer: Framer,
    words: Words,
    /// The torn event's bytes, at most [`MEASURED_BYTES_MAX`] of them.
    torn: Vec<u8>,
    /// How many bytes of it have come, kept or not.
    torn_bytes: usize,
    /// Of these, how many the client has not been given.
    held_bytes: usize,
    usage: Option<Usage>,
    saw_first_event: bool,
    saw_stop_reason: bool,
    end: Option<StreamEnd>,
    is_broken: bool,
}

/// What makes an event worth parsing. Searchers cost more to make than one use of them.
#[derive(Debug)]
struct Words {
    usage: Finder<'static>,
    error: Finder<'static>,
    abort: Finder<'static>,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            usage: Finder::new("\"usage\""),
            error: Finder::new("\"error\""),
            abort: Finder::new("\"abort\""),
        }
    }
}

/// What an event means for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Withhold,
}

impl Stream {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            framer: Framer::default(),
            words: Words::default(),
            torn: Vec::new(),
            torn_bytes: 0,
            held_bytes: 0,
            usage: None,
            saw_first_event: false,
            saw_stop_reason: false,
            end: None,
            is_broken: false,
        }
    }

    pub(super) fn feed(&mut self, chunk: &[u8]) -> TapOutput {
        if self.is_broken {
            return TapOutput::Broken(0);
        }
        let held_before = self.held_bytes;
        let mut at = 0;
        while let Some(length) = self.framer.event_end(&chunk[at..]) {
            let was_torn = self.torn_bytes > 0;
            if self.complete_event(&chunk[at..at + length]) == Verdict::Withhold {
                self.is_broken = true;
                self.held_bytes = 0;
                return TapOutput::Broken(if was_torn { 0 } else { held_before + at });
            }
            at += length;
        }
        self.keep(&chunk[at..]);
        // All that was held belongs to the event that was torn before this chunk.
        let unpassed = chunk.len() - at + if at == 0 { held_before } else { 0 };
        self.held_bytes = if self.must_hold() { unpassed } else { 0 };
        TapOutput::Pass(held_before + chunk.len() - self.held_bytes)
    }

    pub(super) fn finish(&mut self) -> StreamEnd {
        // Some servers leave out the blank line after `[DONE]`. In the Messages API a torn event
        // is one that the client never got.
        if self.dialect != Dialect::Messages && self.torn_bytes > 0 && !self.is_broken {
            self.is_broken = self.complete_event(b"") == Verdict::Withhold;
        }
        if self.is_broken {
            return StreamEnd::Cut;
        }
        self.end.unwrap_or(StreamEnd::Cut)
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    pub(super) fn saw_first_event(&self) -> bool {
        self.saw_first_event
    }

    fn must_hold(&self) -> bool {
        self.dialect == Dialect::Messages
            && self.torn_bytes <= HELD_BYTES_MAX
            && may_be_named(&self.torn, b"message_delta")
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MEASURED_BYTES_MAX.saturating_sub(self.torn.len());
        self.torn.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.torn_bytes += bytes.len();
    }

    /// Reads an event whose last bytes are these.
    fn complete_event(&mut self, bytes: &[u8]) -> Verdict {
        if self.torn_bytes == 0 {
            return self.event(&bytes[..bytes.len().min(MEASURED_BYTES_MAX)]);
        }
        self.keep(bytes);
        self.torn_bytes = 0;
        let mut event = std::mem::take(&mut self.torn);
        let verdict = self.event(&event);
        // The next torn event uses the buffer again, unless this one was uncommonly long.
        if event.capacity() <= HELD_BYTES_MAX {
            event.clear();
            self.torn = event;
        }
        verdict
    }

    fn event(&mut self, bytes: &[u8]) -> Verdict {
        let event = Event::parse(bytes);
        let Some(data) = event.data else {
            return Verdict::Pass;
        };
        if matches!(self.dialect, Dialect::Messages | Dialect::Responses) {
            let unnamed = if event.name.is_empty() {
                Payload::of(&data).kind()
            } else {
                None
            };
            let name = unnamed.map_or(event.name, str::as_bytes);
            self.saw_first_event |= name != b"ping";
            if self.dialect == Dialect::Messages {
                return self.messages_event(name, &data);
            }
            self.responses_event(name, &data);
            return Verdict::Pass;
        }
        self.saw_first_event = true;
        self.completions_event(&data)
    }

    fn messages_event(&mut self, name: &[u8], data: &[u8]) -> Verdict {
        match name {
            b"message_start" => {
                let usage = Payload::of(data)
                    .message()
                    .and_then(|message| message.usage());
                usage::merge(&mut self.usage, usage.as_ref());
            }
            b"message_delta" => {
                let payload = Payload::of(data);
                usage::merge(&mut self.usage, payload.usage().as_ref());
                match payload.stop_reason() {
                    Some("null") => return Verdict::Withhold,
                    Some(_) => self.saw_stop_reason = true,
                    None => {}
                }
            }
            b"message_stop" if !self.saw_stop_reason => return Verdict::Withhold,
            b"message_stop" => self.ended(StreamEnd::Complete),
            b"error" => self.ended(StreamEnd::EngineError),
            _ => {}
        }
        Verdict::Pass
    }

    fn responses_event(&mut self, name: &[u8], data: &[u8]) {
        let end = match name {
            b"response.completed" | b"response.incomplete" => StreamEnd::Complete,
            b"response.failed" | b"error" => StreamEnd::EngineError,
            _ => return,
        };
        let usage = Payload::of(data)
            .response()
            .and_then(|response| response.usage());
        usage::merge(&mut self.usage, usage.as_ref());
        self.ended(end);
    }

    fn completions_event(&mut self, data: &[u8]) -> Verdict {
        if data == b"[DONE]" {
            self.ended(StreamEnd::Complete);
            return Verdict::Pass;
        }
        // A quote inside a string is escaped, so generated text never looks like these.
        if self.words.abort.find(data).is_some() && payload::is_aborted(data) {
            return Verdict::Withhold;
        }
        if self.words.usage.find(data).is_some() || self.words.error.find(data).is_some() {
            let payload = Payload::of(data);
            usage::merge(&mut self.usage, payload.usage().as_ref());
            if payload.is_error() {
                self.ended(StreamEnd::EngineError);
            }
        }
        Verdict::Pass
    }

    /// The first word on the end counts: `[DONE]` follows errors too.
    fn ended(&mut self, end: StreamEnd) {
        self.end.get_or_insert(end);
    }
}
