//! A validating reader of JSON text that builds nothing.
//!
//! The caller walks the containers it cares about and skips the rest; either way every byte is
//! held against the grammar of RFC 8259. The whole text is validated as UTF-8 once, up front,
//! which is several times faster than per string. Skipping keeps its open containers in the bits
//! of one integer, so no input can overflow the call stack.

use std::ops::Range;

use fearless_simd::Level;
use simdutf8::compat::from_utf8;

use super::{
    BodyError,
    text::{Text, extent},
};

/// Objects and lists that may be open at once; bodies of real clients stay under 20.
pub const DEPTH_MAX: u32 = 128;

/// A container being walked.
#[derive(Debug)]
pub(super) struct Open {
    first: bool,
}

/// Position in a JSON text.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    pos: usize,
    depth: u32,
    /// What the processor offers, asked once.
    level: Level,
}

type Result<T> = std::result::Result<T, BodyError>;

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self> {
        let text = from_utf8(bytes).map_err(|error| BodyError::Json {
            offset: error.valid_up_to(),
        })?;
        Ok(Self {
            text,
            pos: 0,
            depth: 0,
            level: Level::new(),
        })
    }

    /// Byte offset of what comes next.
    pub(super) fn offset(&self) -> usize {
        self.pos
    }

    /// The text of a range taken by [`Self::skip`].
    pub(super) fn slice(&self, range: &Range<usize>) -> &'a str {
        &self.text[range.clone()]
    }

    /// The next byte that is no whitespace, not consumed.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.pos) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(byte);
            }
            self.pos += 1;
        }
        Err(self.fault())
    }

    /// The text must end here.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek() {
            Ok(_) => Err(self.fault()),
            Err(_) => Ok(()),
        }
    }

    /// Enters the object or list that starts here.
    #[inline]
    pub(super) fn open(&mut self) -> Result<Open> {
        self.descend(1)?;
        self.depth += 1;
        self.pos += 1;
        Ok(Open { first: true })
    }

    /// Goes to the end of an element of a list that is a member of the outermost object, both of
    /// which are then open, or to the list's beginning. Only for an offset at which a scan of the same
    /// bytes came past.
    pub(super) fn go_into_list(&mut self, offset: usize, is_beginning: bool) -> [Open; 2] {
        self.pos = offset;
        self.depth = 2;
        [false, is_beginning].map(|first| Open { first })
    }

    /// The next member's key, with the cursor at its value; `None` once the object has closed.
    #[inline]
    pub(super) fn member(&mut self, open: &mut Open) -> Result<Option<Text<'a>>> {
        Ok(if self.next(open, b'}')? {
            Some(self.key()?)
        } else {
            None
        })
    }

    /// Whether another element follows, with the cursor at it; false once the list has closed.
    #[inline]
    pub(super) fn element(&mut self, open: &mut Open) -> Result<bool> {
        self.next(open, b']')
    }

    /// Takes the string that starts here.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Text<'a>> {
        if self.peek()? != b'"' {
            return Err(self.fault());
        }
        let start = self.pos + 1;
        let escape_bytes = self.skip_string()?;
        Ok(Text {
            raw: &self.text[start..self.pos - 1],
            escape_bytes,
        })
    }

    /// Takes the string whose opening quote is here, and tells how many bytes its escapes take
    /// beyond what they stand for.
    #[inline]
    fn skip_string(&mut self) -> Result<usize> {
        let start = self.pos + 1;
        let rest = &self.text.as_bytes()[start..];
        let (length, escape_bytes) =
            extent(self.level, rest).map_err(|at| BodyError::Json { offset: start + at })?;
        self.pos = start + length + 1;
        Ok(escape_bytes)
    }

    /// Takes `null` if it is next.
    #[inline]
    pub(super) fn null(&mut self) -> Result<bool> {
        Ok(self.peek()? == b'n' && {
            self.scalar()?;
            true
        })
    }

    /// Takes any one value and tells where it stood.
    pub(super) fn skip(&mut self) -> Result<Range<usize>> {
        self.peek()?;
        let start = self.pos;
        // Open containers, the innermost in the lowest bit, which is set for an object.
        let mut open: u128 = 0;
        let mut levels = 0;
        loop {
            let object = match self.peek()? {
                b'{' => true,
                b'[' => false,
                _ => {
                    self.scalar()?;
                    if self.close(&mut open, &mut levels)? {
                        return Ok(start..self.pos);
                    }
                    continue;
                }
            };
            self.descend(levels + 1)?;
            self.pos += 1;
            if self.peek()? == if object { b'}' } else { b']' } {
                self.pos += 1;
                if self.close(&mut open, &mut levels)? {
                    return Ok(start..self.pos);
                }
                continue;
            }
            open = open << 1 | u128::from(object);
            levels += 1;
            if object {
                self.skip_key()?;
            }
        }
    }

    /// After a value: closes what ends here. True once everything opened has closed.
    #[inline]
    fn close(&mut self, open: &mut u128, levels: &mut u32) -> Result<bool> {
        while *levels > 0 {
            let object = *open & 1 == 1;
            match (self.peek()?, object) {
                (b',', _) => {
                    self.pos += 1;
                    if object {
                        self.skip_key()?;
                    }
                    return Ok(false);
                }
                (b'}', true) | (b']', false) => {
                    self.pos += 1;
                    *open >>= 1;
                    *levels -= 1;
                }
                _ => return Err(self.fault()),
            }
        }
        Ok(true)
    }

    #[inline]
    fn next(&mut self, open: &mut Open, end: u8) -> Result<bool> {
        let byte = self.peek()?;
        if byte == end {
            self.pos += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if open.first {
            open.first = false;
        } else if byte == b',' {
            self.pos += 1;
        } else {
            return Err(self.fault());
        }
        Ok(true)
    }

    #[inline]
    fn key(&mut self) -> Result<Text<'a>> {
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    #[inline]
    fn skip_key(&mut self) -> Result<()> {
        if self.peek()? != b'"' {
            return Err(self.fault());
        }
        self.skip_string()?;
        self.expect(b':')
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek()? != byte {
            return Err(self.fault());
        }
        self.pos += 1;
        Ok(())
    }

    #[inline]
    fn scalar(&mut self) -> Result<()> {
        let rest = &self.text.as_bytes()[self.pos..];
        let length = match rest.first() {
            Some(b'"') => return self.skip_string().map(drop),
            Some(b't') if rest.starts_with(b"true") => 4,
            Some(b'f') if rest.starts_with(b"false") => 5,
            Some(b'n') if rest.starts_with(b"null") => 4,
            _ => number(rest).ok_or_else(|| self.fault())?,
        };
        self.pos += length;
        Ok(())
    }

    #[inline]
    fn descend(&self, levels: u32) -> Result<()> {
        if self.depth + levels > DEPTH_MAX {
            return Err(BodyError::TooDeep { offset: self.pos });
        }
        Ok(())
    }

    #[cold]
    fn fault(&self) -> BodyError {
        BodyError::Json { offset: self.pos }
    }
}

/// Length of the number at the start of `bytes`.
fn number(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        if exponent == 0 {
            return None;
        }
        at += exponent;
    }
    Some(at)
}
