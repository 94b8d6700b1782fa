//! The `x-lm-warden-*` headers: what the warden did with this request.

use http::{HeaderMap, HeaderValue};
use routing::{ReplicaIndex, Route};

use crate::telemetry::RequestId;

/// What is said on every proxied reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    pub(super) id: RequestId,
    /// The decision, where one was made and an engine answered.
    pub(super) routed: Option<(Route, Option<ReplicaIndex>)>,
    /// The reply began while its request still waited.
    pub(super) queued: bool,
    /// Milliseconds that the warden held the request back before it was sent.
    pub(super) queue_ms: u64,
}

impl Stamp {
    /// For what is answered without a decision.
    pub(super) fn undecided(id: RequestId) -> Self {
        Self {
            id,
            routed: None,
            queued: false,
            queue_ms: 0,
        }
    }

    /// Sets the headers, whatever an engine (or a warden behind this one) said there.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        let none = HeaderValue::from_static("-");
        let replica = self
            .routed
            .and_then(|(_, replica)| replica)
            .map_or_else(|| none.clone(), |replica| HeaderValue::from(replica.0));
        let route = match self.routed {
            Some((route, _)) => HeaderValue::from_static(route.as_str()),
            None if self.queued => HeaderValue::from_static("queued"),
            None => none,
        };
        headers.insert("x-lm-warden-request-id", hex(self.id.0));
        headers.insert("x-lm-warden-replica", replica);
        headers.insert("x-lm-warden-route", route);
        headers.insert("x-lm-warden-queue-ms", HeaderValue::from(self.queue_ms));
    }
}

fn hex(id: u128) -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (i, digit) in text.iter_mut().enumerate() {
        *digit = DIGITS[(id >> (124 - 4 * i) & 15) as usize];
    }
    HeaderValue::from_bytes(&text).expect("hex digits are visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_was_decided() {
        let check = |routed, queued, replica: &str, route: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-lm-warden-route", HeaderValue::from_static("forged"));
            let id = RequestId(0x0123_4567_89ab_cdef_0000_0000_0000_0001);
            let stamp = Stamp {
                id,
                routed,
                queued,
                queue_ms: 7,
            };
            stamp.put(&mut headers);
            assert_eq!(headers["x-lm-warden-request-id"], id.to_string());
            assert_eq!(headers["x-lm-warden-replica"], replica);
            assert_eq!(headers["x-lm-warden-route"], route);
            assert_eq!(headers["x-lm-warden-queue-ms"], "7");
            assert_eq!(headers.len(), 4);
        };
        check(None, false, "-", "-");
        check(None, true, "-", "queued");
        check(Some((Route::Balanced, None)), false, "-", "balanced");
        check(
            Some((Route::Sticky, Some(ReplicaIndex(12)))),
            false,
            "12",
            "sticky",
        );
    }
}
