//! One request of an agent, and how it ended.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::client::{Caller, Connection};

/// How the engine is asked to reply.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) events: usize,
    /// From one event to the next.
    pub(crate) gap: Duration,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Complete,
    /// The client left after the reply had begun, as it had meant to.
    Left,
    /// The reply broke off after its first byte: the engine died, and nothing could save it.
    Cut,
    /// Answered with an error.
    Refused(u16),
    /// The connection ended without an answer.
    Dropped,
    /// No end within the client's patience.
    TooLong,
}

/// A request that is over.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) first_byte: Option<Duration>,
    /// `x-lm-warden-replica`.
    pub(crate) replica: Option<usize>,
}

/// Sends one turn and reads until its end, or until so many bytes of the reply have come.
pub(crate) async fn turn(
    connection: &mut Connection,
    caller: &Caller,
    body: &Bytes,
    pace: Pace,
    leaves_after: Option<usize>,
) -> Ended {
    let mut ended = Ended {
        outcome: Outcome::Dropped,
        first_byte: None,
        replica: None,
    };
    let headers = [
        ("x-bench-events", pace.events.to_string()),
        ("x-bench-gap-ms", pace.gap.as_millis().to_string()),
    ];
    let began = Instant::now();
    let Ok(mut reply) = connection.send(caller, body, &headers).await else {
        return ended;
    };
    ended.replica = reply
        .headers()
        .get("x-lm-warden-replica")
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let status = reply.status().as_u16();
    let mut bytes = 0;
    loop {
        match reply.body_mut().frame().await {
            Some(Ok(frame)) => {
                ended.first_byte.get_or_insert_with(|| began.elapsed());
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if status == 200 && leaves_after.is_some_and(|after| bytes >= after) {
                    ended.outcome = Outcome::Left;
                    return ended;
                }
            }
            Some(Err(_)) => {
                ended.outcome = Outcome::Cut;
                return ended;
            }
            None => break,
        }
    }
    ended.outcome = match status {
        200 => Outcome::Complete,
        status => Outcome::Refused(status),
    };
    ended
}
