//! Strings in JSON text: where they end, what their escapes stand for.
//!
//! An escape is validated and measured when its string is taken; only the few strings that are
//! needed themselves are ever unescaped.

use std::borrow::Cow;

use fearless_simd::{Level, Simd, dispatch};

use super::block::{self, Block, Escapes, Least};

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

/// Where the string that starts here ends, at its closing quote, and how many bytes its escapes take
/// beyond what they stand for; the error is the offset of what is wrong with it.
#[inline]
pub(super) fn extent(level: Level, bytes: &[u8]) -> Result<(usize, usize), usize> {
    // Keys and short words end in their first bytes.
    match bytes.first_chunk().and_then(block::short_string) {
        Some(length) => Ok((length, 0)),
        None => dispatch!(level, simd => extent_by_blocks(simd, bytes)),
    }
}

#[expect(
    clippy::inline_always,
    reason = "only what is inlined into the dispatched closure gets its vector instructions"
)]
#[inline(always)]
fn extent_by_blocks<S: Simd>(simd: S, bytes: &[u8]) -> Result<(usize, usize), usize> {
    let (mut at, mut torn) = (0, 0);
    let mut escape_bytes = 0;
    let mut least = Least::new(simd);
    while at < bytes.len() {
        let block = Block::of(simd, &bytes[at..]);
        least.add(&block);
        let Escapes {
            backslashes,
            escaped,
            torn: into_next,
        } = block.escapes(torn);
        let quotes = block.find(b'"');
        let end = quotes & !escaped;
        let escaped = escaped & end.wrapping_sub(1) & !end;
        if escaped != 0 {
            escape_bytes += escaped.count_ones() as usize;
            let letters = block.find(b'n') | block.find(b't');
            let mut others = escaped & !(quotes | backslashes | letters);
            while others != 0 {
                let start = at + others.trailing_zeros() as usize - 1;
                let (written, meant) = escape(&bytes[start..]).ok_or(start)?;
                escape_bytes += written - meant - 1;
                others &= others - 1;
            }
        }
        if end != 0 {
            let length = at + end.trailing_zeros() as usize;
            return match least.may_be_control().then(|| control(&bytes[..length])) {
                Some(Some(at)) => Err(at),
                _ => Ok((length, escape_bytes)),
            };
        }
        torn = into_next;
        at += block::BYTES;
    }
    Err(bytes.len())
}

/// Where the first control byte stands, which no JSON string may hold as it is.
#[cold]
fn control(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte < 0x20)
}

/// Length of the escape at the start of `bytes`, and of what it stands for in UTF-8. A surrogate
/// counts two bytes, so that a pair counts the four it stands for.
pub(super) fn escape(bytes: &[u8]) -> Option<(usize, usize)> {
    let kind = *bytes.get(1)?;
    if kind != b'u' {
        let is_known = matches!(kind, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't');
        return is_known.then_some((2, 1));
    }
    let unit = code_unit(bytes.get(2..6)?)?;
    let utf8_bytes = match unit {
        0..0x80 => 1,
        0x80..0x800 | 0xD800..0xE000 => 2,
        _ => 3,
    };
    Some((6, utf8_bytes))
}

fn code_unit(digits: &[u8]) -> Option<u16> {
    let values: [u8; 4] = digits.first_chunk()?.map(|digit| HEX[usize::from(digit)]);
    let [a, b, c, d] = values.map(u16::from);
    (values.iter().all(|value| *value < 16)).then_some(a << 12 | b << 8 | c << 4 | d)
}

/// The value of each hexadecimal digit; 255 for what is none.
const HEX: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

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
