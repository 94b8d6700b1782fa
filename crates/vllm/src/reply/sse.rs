//! Server-sent events: where one ends, and its name and data.
//!
//! Lines end in LF or CRLF. A lone CR, which the standard also allows, is not taken for a line's
//! end: no engine writes it, and it would make every chunk that ends in CR ambiguous.

use std::borrow::Cow;

use memchr::memchr;

/// Finds the ends of events in a stream that may be split at any byte.
#[derive(Debug, Default)]
pub(super) struct Framer {
    line: Line,
}

/// What the current line holds so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    Cr,
    Filled,
}

impl Line {
    fn then(self, bytes: &[u8]) -> Self {
        match (self, bytes) {
            (line, []) => line,
            (Self::Empty, b"\r") => Self::Cr,
            _ => Self::Filled,
        }
    }
}

impl Framer {
    /// Offset just past the blank line that ends the current event; `None` where it is yet to come.
    pub(super) fn event_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(length) = memchr(b'\n', &bytes[at..]) {
            let line = self.line.then(&bytes[at..at + length]);
            at += length + 1;
            self.line = Line::Empty;
            if line != Line::Filled {
                return Some(at);
            }
        }
        self.line = self.line.then(&bytes[at..]);
        None
    }
}

/// One event's fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    /// Empty where none was given.
    pub name: &'a [u8],
    /// Data lines joined by LF; `None` where there is none: a comment, which clients never see.
    pub data: Option<Cow<'a, [u8]>>,
}

impl<'a> Event<'a> {
    /// Reads an event's bytes, with or without the blank line.
    pub(super) fn parse(bytes: &'a [u8]) -> Self {
        let mut event = Self {
            name: b"",
            data: None,
        };
        for line in lines(bytes) {
            if let Some(name) = field(line, b"event:") {
                event.name = name;
            } else if let Some(data) = field(line, b"data:") {
                event.data = Some(match event.data {
                    None => Cow::Borrowed(data),
                    Some(before) => Cow::Owned([&before, &b"\n"[..], data].concat()),
                });
            }
        }
        event
    }
}

/// Whether a torn event may yet turn out to be named so. One whose data comes first may be.
pub(super) fn may_be_named(torn: &[u8], name: &[u8]) -> bool {
    let mut rest = torn;
    while let Some(end) = memchr(b'\n', rest) {
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        if let Some(value) = field(line, b"event:") {
            return value == name;
        }
        if field(line, b"data:").is_some() {
            return true;
        }
        rest = &rest[end + 1..];
    }
    field(rest.strip_suffix(b"\r").unwrap_or(rest), b"event:")
        .is_none_or(|value| name.starts_with(value))
}

/// Lines without their ends; the last one may be torn.
fn lines(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let (line, rest) = match memchr(b'\n', bytes) {
            Some(end) => (&bytes[..end], &bytes[end + 1..]),
            None => (bytes, &bytes[bytes.len()..]),
        };
        bytes = rest;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// A field's value: one space after the colon does not belong to it.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}
