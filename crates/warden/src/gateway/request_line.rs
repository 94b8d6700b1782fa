//! The beginning of a request as it came, for an answer where the rest of its head cannot be read.

use vllm::Dialect;

use super::endpoint;

/// Enough for the longest path of an API.
const BYTES_MAX: usize = 64;

/// The first bytes of a request line.
#[derive(Debug)]
pub(super) struct RequestLine {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

impl Default for RequestLine {
    fn default() -> Self {
        Self {
            bytes: [0; BYTES_MAX],
            len: 0,
        }
    }
}

impl RequestLine {
    /// The next bytes that a client sent.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(BYTES_MAX - self.len);
        self.bytes[self.len..self.len + taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
    }

    /// Whether the answer may have no body.
    pub(super) fn asks_for_head(&self) -> bool {
        self.bytes[..self.len].starts_with(b"HEAD ")
    }

    /// The shape in which an error is told on its path, as far as it can be read.
    pub(super) fn dialect(&self) -> Dialect {
        let mut words = self.bytes[..self.len].split(u8::is_ascii_whitespace);
        let target = words.nth(1).unwrap_or_default();
        let path = target.split(|&byte| byte == b'?').next();
        endpoint::dialect_of(str::from_utf8(path.unwrap_or_default()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pieces: &[&[u8]]) -> RequestLine {
        let mut line = RequestLine::default();
        for piece in pieces {
            line.feed(piece);
        }
        line
    }

    #[test]
    fn the_path_names_the_shape_however_it_arrives() {
        for (pieces, dialect) in [
            (
                &[&b"POST /v1/messages HTTP/1.1\r\n"[..]][..],
                Dialect::Messages,
            ),
            (
                &[b"POST /v1/mess", b"ages?beta=true HTTP/1.1"],
                Dialect::Messages,
            ),
            (&[b"POST /v1/messages/count_tokens X"], Dialect::Messages),
            (&[b"POST /v1/messagesX HTTP/1.1"], Dialect::Other),
            (&[b"POST /v1/chat/completions HTTP/1.1"], Dialect::Other),
            (&[b"\0\xff\xfe"], Dialect::Other),
            (&[b""], Dialect::Other),
        ] {
            assert_eq!(line(pieces).dialect(), dialect, "{pieces:?}");
        }
        let long = line(&[b"POST /v1/messages?", &[b'x'; 1000]]);
        assert_eq!(long.dialect(), Dialect::Messages);
        assert_eq!(long.len, BYTES_MAX);
    }

    #[test]
    fn only_head_asks_for_no_body() {
        assert!(line(&[b"HE", b"AD / HTTP/1.1"]).asks_for_head());
        assert!(!line(&[b"HEADS / HTTP/1.1"]).asks_for_head());
        assert!(!line(&[]).asks_for_head());
    }
}
