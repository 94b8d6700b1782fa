//! What an engine does to one request: well-behaved replies, and every way to break one.

use super::dice::Dice;
use crate::support::{CHAT_EVENT, MESSAGE, MESSAGES_EVENTS, NULL_STOP_EVENT};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Reply {
    /// As it should be: events so far apart.
    Good { gap_ms: u64 },
    /// So, and the connection is closed behind it.
    GoodThenCloses,
    /// So, by an engine that ends its bodies by closing.
    GoodOld,
    /// So, one byte at a time.
    SlowBytes,
    /// So, behind an informational response.
    Hints,
    /// An error of the engine's.
    Error(u16),
    /// A reset without a byte, after the head, or after an event.
    Reset { steps: usize },
    /// Nothing more comes after so many steps, for ever.
    Stalls { steps: usize },
    /// HTTP ends well, the content does not.
    EndsEarly,
    /// A deadly delta.
    NullStop,
    /// The length is larger or smaller than the body.
    WrongLength { more: bool },
    /// No HTTP, or no chunk where one should be.
    Garbage { in_body: bool },
    /// A second reply that nobody asked for.
    Twice,
}

/// An error within a chat stream.
pub(super) const ERROR_EVENT: &str = "data: {\"choices\":[],\"error\":{\"message\":\"boom\"}}\n\n";

/// One thing an engine does.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Bytes {
        bytes: Vec<u8>,
        of_body: usize,
    },
    Wait(u64),
    Forever,
    Reset,
    Close,
    /// All of the reply has been sent, well-formed.
    Whole {
        status: u16,
        body: Vec<u8>,
    },
}

impl Reply {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        if dice.percent(45) {
            let gap_ms = *dice.pick(&[0, 1, 50, 900, 5_000]);
            return Self::Good { gap_ms };
        }
        let steps = dice.below(3) as usize;
        match dice.below(14) {
            0 => Self::GoodThenCloses,
            1 => Self::GoodOld,
            2 => Self::SlowBytes,
            3 => Self::Hints,
            4 => Self::Error(*dice.pick(&[400, 404, 429, 500, 503])),
            5 | 6 => Self::Reset { steps },
            7 => Self::Stalls { steps },
            8 => Self::EndsEarly,
            9 => Self::NullStop,
            10 => Self::WrongLength {
                more: dice.percent(50),
            },
            11 | 12 => Self::Garbage {
                in_body: dice.percent(50),
            },
            _ => Self::Twice,
        }
    }

    /// What it does, for a request with this start line.
    pub(super) fn steps(&self, line: &str) -> Vec<Step> {
        let events = events(line);
        match self {
            Self::Good { gap_ms } => good(&events, *gap_ms),
            Self::GoodThenCloses => [good(&events, 0), vec![Step::Close]].concat(),
            Self::Twice => {
                let mut steps = good(&events, 0);
                let extra = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec();
                steps.push(Step::Bytes {
                    bytes: extra,
                    of_body: 0,
                });
                steps
            }
            Self::GoodOld => good_old(&events),
            Self::SlowBytes => slowly(good(&events, 0)),
            Self::Hints => {
                let hints = b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n".to_vec();
                let hints = Step::Bytes {
                    bytes: hints,
                    of_body: 0,
                };
                [vec![hints], good(&events, 10)].concat()
            }
            Self::Error(status) => error(*status),
            Self::Reset { steps } => up_to(&events, *steps, Step::Reset),
            Self::Stalls { steps } => up_to(&events, *steps, Step::Forever),
            Self::EndsEarly => {
                let early = &events[..events.len() - 1];
                let mut steps = good(early, 0);
                steps.pop(); // not whole
                steps
            }
            Self::NullStop => {
                // The other APIs tell their errors, and that is a whole reply.
                if !line.contains("/v1/messages") && line.contains("stream=1") {
                    return good(&[events[0], ERROR_EVENT], 0);
                }
                let mut steps = good(&[events[0], NULL_STOP_EVENT], 0);
                steps.pop();
                steps
            }
            Self::WrongLength { more } => wrong_length(*more),
            Self::Garbage { in_body: false } => {
                let bytes = b"\x16\x03\x01 no http at all\r\n\r\n".to_vec();
                vec![Step::Bytes { bytes, of_body: 0 }, Step::Close]
            }
            Self::Garbage { in_body: true } => {
                let mut steps = up_to(&events, 2, Step::Close);
                let bytes = b"zz no length\r\n".to_vec();
                steps.insert(steps.len() - 1, Step::Bytes { bytes, of_body: 0 });
                steps
            }
        }
    }
}

/// The events of a whole reply to such a request; one that is no stream is one event.
fn events(line: &str) -> Vec<&'static str> {
    if line.contains("stream=0") || line.contains("count_tokens") {
        vec![MESSAGE]
    } else if line.contains("/v1/messages") {
        MESSAGES_EVENTS.to_vec()
    } else {
        let last = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n";
        vec![CHAT_EVENT, CHAT_EVENT, last, "data: [DONE]\n\n"]
    }
}

fn head(events: &[&str]) -> Step {
    let kind = if events.first().is_some_and(|event| event.starts_with('{')) {
        "application/json"
    } else {
        "text/event-stream"
    };
    let bytes =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    Step::Bytes {
        bytes: bytes.into_bytes(),
        of_body: 0,
    }
}

fn chunk(event: &str) -> Step {
    Step::Bytes {
        bytes: format!("{:x}\r\n{event}\r\n", event.len()).into_bytes(),
        of_body: event.len(),
    }
}

fn good(events: &[&str], gap_ms: u64) -> Vec<Step> {
    let mut steps = vec![head(events)];
    for event in events {
        steps.push(Step::Wait(gap_ms));
        steps.push(chunk(event));
    }
    steps.push(Step::Bytes {
        bytes: b"0\r\n\r\n".to_vec(),
        of_body: 0,
    });
    steps.push(Step::Whole {
        status: 200,
        body: events.concat().into_bytes(),
    });
    steps
}

fn good_old(events: &[&str]) -> Vec<Step> {
    let body = events.concat().into_bytes();
    let kind = if events.len() == 1 {
        "application/json"
    } else {
        "text/event-stream"
    };
    let head = format!("HTTP/1.0 200 OK\r\ncontent-type: {kind}\r\n\r\n").into_bytes();
    vec![
        Step::Bytes {
            of_body: body.len(),
            bytes: [head, body.clone()].concat(),
        },
        Step::Whole { status: 200, body },
        Step::Close,
    ]
}

/// The same, byte for byte.
fn slowly(steps: Vec<Step>) -> Vec<Step> {
    let mut slow = Vec::new();
    for step in steps {
        let Step::Bytes { bytes, of_body } = step else {
            slow.push(step);
            continue;
        };
        // The chunk's content stands before its last line end.
        let content = (bytes.len() - 2).saturating_sub(of_body)..bytes.len() - 2;
        for (at, byte) in bytes.iter().enumerate() {
            slow.push(Step::Wait(2));
            slow.push(Step::Bytes {
                bytes: vec![*byte],
                of_body: usize::from(content.contains(&at)),
            });
        }
    }
    slow
}

/// Nothing, the head, or the head and an event; then this.
fn up_to(events: &[&str], steps: usize, end: Step) -> Vec<Step> {
    let mut all = vec![head(events), chunk(events[0])];
    all.truncate(steps);
    all.push(end);
    all
}

fn error(status: u16) -> Vec<Step> {
    let body = format!("{{\"error\":{{\"message\":\"drawn\",\"code\":{status}}}}}");
    let bytes = format!(
        "HTTP/1.1 {status} Drawn\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = Step::Bytes {
        bytes: bytes.into_bytes(),
        of_body: body.len(),
    };
    let body = body.into_bytes();
    vec![sent, Step::Whole { status, body }]
}

fn wrong_length(more: bool) -> Vec<Step> {
    let length = if more {
        MESSAGE.len() + 7
    } else {
        MESSAGE.len() - 7
    };
    let bytes = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{MESSAGE}"
    );
    let sent = Step::Bytes {
        bytes: bytes.into_bytes(),
        of_body: MESSAGE.len(),
    };
    vec![sent, Step::Close]
}
