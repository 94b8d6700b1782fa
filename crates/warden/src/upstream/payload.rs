//! A request body on its way to an engine: the client's bytes, with at most the model's name
//! replaced and one member added at the end, sent without being copied together.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Up to four pieces sent one after the other: before the model's name, the name, after it, and what
/// was added. A clone is cheap and starts at the beginning, so a second attempt sends the same bytes.
#[derive(Debug, Clone, Default)]
pub struct Payload {
    pieces: [Bytes; 4],
}

impl Payload {
    /// A body sent as it came.
    pub fn whole(body: Bytes) -> Self {
        Self {
            pieces: [body, Bytes::new(), Bytes::new(), Bytes::new()],
        }
    }

    /// A body in three pieces.
    pub fn spliced(before: Bytes, model: Bytes, after: Bytes) -> Self {
        Self {
            pieces: [before, model, after, Bytes::new()],
        }
    }

    /// The same with one more member, `"key":value`, behind all others of the object that it is.
    #[must_use]
    pub fn with_member(mut self, member: &str) -> Self {
        let end = self.pieces.iter_mut().rev().find(|piece| !piece.is_empty());
        if let Some(end) = end
            && let Some(brace) = end.iter().rposition(|byte| *byte == b'}')
        {
            end.truncate(brace);
            self.pieces[3] = Bytes::from(format!(",{member}}}"));
        }
        self
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.pieces.iter_mut().find(|piece| !piece.is_empty());
        Poll::Ready(next.map(|piece| Ok(Frame::data(std::mem::take(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn pieces_are_sent_in_order_and_counted() {
        let payload = Payload::spliced(
            Bytes::from_static(b"{\"model\":"),
            Bytes::from_static(b"\"engine\""),
            Bytes::from_static(b"}"),
        );
        assert_eq!(payload.size_hint().exact(), Some(18));
        let again = payload.clone();
        for payload in [payload, again] {
            let sent = payload.collect().await.unwrap().to_bytes();
            assert_eq!(&sent[..], b"{\"model\":\"engine\"}");
        }
    }

    #[tokio::test]
    async fn a_member_is_added_behind_all_others() {
        let member = "\"s\":2";
        let pieces = ["{\"a\":{},\"model\":", "\"engine\"", " } \n"];
        let [before, model, after] = pieces.map(|piece| Bytes::from_static(piece.as_bytes()));
        let spliced = Payload::spliced(before, model, after).with_member(member);
        let sent = spliced.collect().await.unwrap().to_bytes();
        assert_eq!(&sent[..], b"{\"a\":{},\"model\":\"engine\" ,\"s\":2}");
        let whole = Payload::whole(Bytes::from_static(b"{\"a\":\"}\"}")).with_member(member);
        assert_eq!(
            whole.len(),
            whole.clone().collect().await.unwrap().to_bytes().len()
        );
        let sent = whole.collect().await.unwrap().to_bytes();
        assert_eq!(&sent[..], b"{\"a\":\"}\",\"s\":2}");
    }

    #[tokio::test]
    async fn an_empty_payload_ends_at_once() {
        let payload = Payload::whole(Bytes::new());
        assert!(payload.is_end_stream());
        assert_eq!(payload.collect().await.unwrap().to_bytes().len(), 0);
    }
}
