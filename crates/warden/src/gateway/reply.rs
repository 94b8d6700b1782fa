//! The response with which a client's reply begins.

use std::sync::Arc;

use http::{
    HeaderValue, Response, StatusCode, Version,
    header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE},
};

use super::{
    body::Body,
    feed,
    forward::{Answer, Rest},
    headers,
    ledger::Ledger,
    peer::Peer,
    queued::Queued,
    relay::{Relay, RelayFacts},
    stamp::Stamp,
};

/// The engine's answer as the client gets it.
pub(super) fn of(
    answer: Answer,
    dialect: vllm::Dialect,
    stamp: &Stamp,
    (mut ledger, peer): (Ledger, Arc<Peer>),
) -> Response<Body> {
    let mut head = answer.head;
    // An old engine's replies have no chunks; ours do, or a cut one could not be told.
    head.version = Version::HTTP_11;
    let status = head.status.as_u16();
    let streaming = feed::is_event_stream(&head.headers);
    headers::to_client(&mut head.headers);
    stamp.put(&mut head.headers);
    let body = match answer.rest {
        Rest::Ended(end, usage) => {
            ledger.end(end, status, usage);
            if !may_have_body(head.status) {
                head.headers.remove(CONTENT_LENGTH);
            }
            Body::held(answer.opening)
        }
        Rest::Feed(feed) => {
            let facts = RelayFacts {
                dialect,
                streaming,
                status,
                peer,
            };
            Body::relay(Box::new(Relay::new(answer.opening, *feed, ledger, facts)))
        }
    };
    Response::from_parts(head, body)
}

/// The beginning of a stream whose request still waits for room.
pub(super) fn queued(stamp: &Stamp, queued: Queued) -> Response<Body> {
    let mut response = Response::new(Body::queued(Box::new(queued)));
    let headers = response.headers_mut();
    let events = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(CONTENT_TYPE, events);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    stamp.put(headers);
    response
}

fn may_have_body(status: StatusCode) -> bool {
    status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}
