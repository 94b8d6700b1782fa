//! Strings in JSON text: where they end, what their escapes stand for.
//!
//! An escape is validated and measured when its string is taken; only the few strings that are
//! needed themselves are ever unescaped.

use std::borrow::Cow;

use memchr::memchr2;

/// A string as it stands in the text, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Text<'a> {
    /// Escapes as written.
    pub raw: &'a str,
    /// Bytes that the escapes take beyond what they stand for.
    pub escape_bytes: usize,
}

impl<'a> Text<'a> {
    /// Length in bytes once unescaped.
    pub(super) fn decoded_len(&self) -> u64 {
        (self.raw.len() - self.escape_bytes) as u64
    }

    /// The string itself. A lone surrogate, which no Rust string can hold, becomes U+FFFD.
    /// `None` where the raw form is longer than `bytes_max`, which bounds the allocation.
    pub(super) fn decode(&self, bytes_max: usize) -> Option<Cow<'a, str>> {
        if self.raw.len() > bytes_max {
            None
        } else if self.escape_bytes == 0 {
            Some(Cow::Borrowed(self.raw))
        } else {
            Some(Cow::Owned(unescape(self.raw)))
        }
    }
}

/// Where the first quote or backslash stands. Keys and short words end within eight bytes, which one
/// integer holds; a call of `memchr2` pays off beyond.
pub(super) fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The high bit of every byte that equals the needle; a byte after the first match may be wrong.
    let matches = |word: u64, needle: u8| {
        let zeroed = word ^ (LOW * u64::from(needle));
        zeroed.wrapping_sub(LOW) & !zeroed & HIGH
    };
    if let Some(word) = bytes.first_chunk() {
        let word = u64::from_le_bytes(*word);
        let found = matches(word, b'"') | matches(word, b'\\');
        if found != 0 {
            return Some(found.trailing_zeros() as usize / 8);
        }
    }
    memchr2(b'"', b'\\', bytes)
}

/// Length of the escape at the start of `bytes`, and of what it stands for in UTF-8. A surrogate
/// counts two bytes, so that a pair counts the four it stands for.
pub(super) fn escape(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some((2, 1)),
        b'u' => Some((
            6,
            match code_unit(bytes.get(2..6)?)? {
                0..0x80 => 1,
                0x80..0x800 | 0xD800..0xE000 => 2,
                _ => 3,
            },
        )),
        _ => None,
    }
}

fn code_unit(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |unit, digit| {
        Some(unit << 4 | char::from(*digit).to_digit(16)? as u16)
    })
}

/// Unescapes a string that was validated when it was taken.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (character, written) = unescape_one(&rest[at..]);
        out.push(character);
        rest = &rest[at + written..];
    }
    out.push_str(rest);
    out
}

/// The character that the escape at the start of `raw` stands for, and the escape's length.
fn unescape_one(raw: &str) -> (char, usize) {
    let unit = |at: usize| {
        let bytes = raw.as_bytes();
        (bytes.get(at..at + 2) == Some(b"\\u")).then(|| code_unit(bytes.get(at + 2..at + 6)?))?
    };
    if let Some(high) = unit(0) {
        let pair = [
            high,
            if (0xD800..0xDC00).contains(&high) {
                unit(6).unwrap_or(0)
            } else {
                0
            },
        ];
        let first = char::decode_utf16(pair)
            .next()
            .and_then(std::result::Result::ok);
        return match first {
            Some(character) => (character, if character > '\u{FFFF}' { 12 } else { 6 }),
            None => (char::REPLACEMENT_CHARACTER, 6),
        };
    }
    let character = match raw.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        // The quote, the slashes: each stands for itself.
        other => other.map_or(char::REPLACEMENT_CHARACTER, |byte| char::from(*byte)),
    };
    (character, 2)
}
