//! A reply that is one JSON object.

use super::{
    MEASURED_BYTES_MAX, StreamEnd,
    payload::{self, Payload},
    usage::{self, Usage},
};
use crate::Dialect;

/// Collects a whole reply, up to [`MEASURED_BYTES_MAX`], and reads it once it has ended.
#[derive(Debug)]
pub(super) struct Whole {
    dialect: Dialect,
    status: u16,
    body: Vec<u8>,
    is_over_bound: bool,
    saw_first_byte: bool,
    usage: Option<Usage>,
}

impl Whole {
    pub(super) fn new(dialect: Dialect, status: u16) -> Self {
        Self {
            dialect,
            status,
            body: Vec::new(),
            is_over_bound: false,
            saw_first_byte: false,
            usage: None,
        }
    }

    pub(super) fn feed(&mut self, chunk: &[u8]) {
        self.saw_first_byte |= !chunk.is_empty();
        self.is_over_bound |= self.body.len() + chunk.len() > MEASURED_BYTES_MAX;
        if self.is_over_bound {
            self.body = Vec::new();
        } else {
            self.body.extend_from_slice(chunk);
        }
    }

    pub(super) fn finish(&mut self) -> StreamEnd {
        let body = std::mem::take(&mut self.body);
        if self.status >= 400 {
            return StreamEnd::EngineError;
        }
        // What is too long to be read is taken at HTTP's word; so are replies without a prompt,
        // which need not be objects.
        if self.is_over_bound {
            return StreamEnd::Complete;
        }
        let Some(reply) = Payload::parse(&body) else {
            let is_other = self.dialect == Dialect::Other;
            return if is_other {
                StreamEnd::Complete
            } else {
                StreamEnd::Cut
            };
        };
        usage::merge(&mut self.usage, reply.usage().as_ref());
        if reply.is_error() || reply.status() == Some("failed") {
            StreamEnd::EngineError
        } else if reply.stop_reason() == Some("null") && reply.kind() == Some("message")
            || payload::is_aborted(&body)
        {
            StreamEnd::Cut
        } else {
            StreamEnd::Complete
        }
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.usage
    }

    pub(super) fn saw_first_byte(&self) -> bool {
        self.saw_first_byte
    }
}
