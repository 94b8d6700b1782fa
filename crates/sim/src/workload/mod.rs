//! What agents do: sessions of turns, each with so many new tokens, an answer, and a pause before it.
//!
//! A session is a script, written down before it runs. Its contents are numbers instead of text;
//! equal prefixes are equal numbers, which is all that a prefix cache can tell. Which script a place
//! gets depends on the seed and the place alone, so that two arms of a run send the same prompts.

mod farm;
mod published;
mod recorded;

pub use farm::Farm;
pub use published::Published;
pub use recorded::{Recorded, RecordedError};

use crate::random::Random;

/// One turn of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Tokens of the conversation so far that the prompt begins with; more than there are means all.
    pub kept_tokens: u32,
    /// Tokens that this turn adds to them.
    pub new_tokens: u32,
    /// Tokens of the answer, at least 1.
    pub output_tokens: u32,
    /// Whether the answer ends with a stop token (else by the length limit). An engine sees a stop
    /// one step late.
    pub stops: bool,
    /// Pause between the end of the last turn (or the session's start) and this one, microseconds.
    pub think_us: u64,
}

/// A conversation from its first turn to its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Random id: what a client would send as session id.
    pub id: u64,
    /// Tokens at the front of every prompt that all sessions of the workload share.
    pub shared_tokens: u32,
    /// Number of the key that its client uses.
    pub owner: u32,
    /// Its turns.
    pub turns: Vec<Turn>,
}

/// Where a session stands in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Number of the stage's level, e.g. its count of sessions.
    pub level: u32,
    /// The client that runs it.
    pub client: u32,
    /// Its number among the sessions of this client.
    pub number: u32,
}

/// A source of sessions.
#[derive(Debug, Clone)]
pub enum Workload {
    /// The published measurement's.
    Published(Published),
    /// The seven-card farm's.
    Farm(Farm),
    /// Recorded shapes of real sessions.
    Recorded(Recorded),
    /// Two owners: every `every`-th client is the second one's.
    TwoOwners {
        /// What the first owner's clients do.
        first: Box<Workload>,
        /// What the second one's do.
        second: Box<Workload>,
        /// At least 1.
        every: u32,
    },
}

impl Workload {
    /// The session at a place.
    pub fn session(&self, seed: u64, place: Place) -> Session {
        let parts = [
            u64::from(place.level),
            u64::from(place.client),
            u64::from(place.number),
        ];
        let mut random = Random::at(seed, &parts);
        match self {
            Self::Published(workload) => workload.session(&mut random),
            Self::Farm(workload) => workload.session(&mut random),
            Self::Recorded(workload) => workload.session(&mut random),
            Self::TwoOwners {
                first,
                second,
                every,
            } => {
                let is_second = place.client % every == every - 1;
                let workload = if is_second { second } else { first };
                Session {
                    owner: u32::from(is_second),
                    ..workload.session(seed, place)
                }
            }
        }
    }
}

/// The tokens of a running session.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    tokens: Vec<u32>,
    shared_tokens: u32,
    stream: u32,
    appended: u32,
}

impl Conversation {
    pub(crate) fn new(session: &Session) -> Self {
        Self {
            tokens: (0..session.shared_tokens).collect(),
            shared_tokens: session.shared_tokens,
            stream: (session.id ^ (session.id >> 32)) as u32,
            appended: 0,
        }
    }

    /// The prompt of a turn.
    pub(crate) fn prompt(&mut self, turn: &Turn) -> Vec<u32> {
        let kept = turn.kept_tokens.max(self.shared_tokens) as usize;
        self.tokens.truncate(kept);
        for _ in 0..turn.new_tokens {
            let token = self.next_token();
            self.append(token);
        }
        self.tokens.clone()
    }

    /// The next token that the model says.
    pub(crate) fn next_token(&self) -> u32 {
        // Odd multiplier: neighbouring positions of all streams differ. The top bit keeps own
        // tokens apart from shared ones.
        self.stream
            .wrapping_add(self.appended.wrapping_mul(0x9E37_79B1))
            | 1 << 31
    }

    /// Appends a token of the model's.
    pub(crate) fn append(&mut self, token: u32) {
        self.tokens.push(token);
        self.appended += 1;
    }

    /// Everything sent and received so far.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// How many tokens that are.
    pub(crate) fn len(&self) -> u32 {
        self.tokens.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_places_get_equal_sessions_and_neighbours_share_only_the_shared_prefix() {
        let workload = Workload::Published(Published::default());
        let place = Place {
            level: 4,
            client: 1,
            number: 0,
        };
        let session = workload.session(1, place);
        assert_eq!(session, workload.session(1, place));
        let other = workload.session(1, Place { client: 2, ..place });
        let mut a = Conversation::new(&session);
        let mut b = Conversation::new(&other);
        let (a, b) = (a.prompt(&session.turns[0]), b.prompt(&other.turns[0]));
        let shared = session.shared_tokens as usize;
        assert_eq!(a[..shared], b[..shared]);
        assert!(a[shared..].iter().zip(&b[shared..]).all(|(a, b)| a != b));
    }

    #[test]
    fn a_turn_extends_the_last_one_or_keeps_a_part_of_it() {
        let session = Session {
            id: 9,
            shared_tokens: 2,
            owner: 0,
            turns: Vec::new(),
        };
        let turn = |kept_tokens, new_tokens| Turn {
            kept_tokens,
            new_tokens,
            output_tokens: 1,
            stops: false,
            think_us: 0,
        };
        let mut conversation = Conversation::new(&session);
        let first = conversation.prompt(&turn(u32::MAX, 3));
        let answer = conversation.next_token();
        conversation.append(answer);
        let second = conversation.prompt(&turn(u32::MAX, 1));
        assert_eq!(second[..6], [&first[..], &[answer]].concat());
        let cut = conversation.prompt(&turn(3, 4));
        assert_eq!(cut[..3], first[..3]);
        assert!(cut[3..].iter().all(|token| !second.contains(token)));
        assert_eq!(conversation.len(), 7);
    }
}
