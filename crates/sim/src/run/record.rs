//! What a stage leaves behind: one record per turn, one per poll, and the engines' counters.

use crate::scheduler::Counters;
use routing::LeaseCounters;

/// One turn, from the client's side and the engine's. Times are virtual microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRecord {
    /// Which client.
    pub client: u32,
    /// Number of the key that it uses.
    pub owner: u32,
    /// Which of its sessions, from 0.
    pub session: u32,
    /// Which turn of the session, from 0.
    pub turn: u32,
    /// Whether it was the session's last.
    pub is_last: bool,
    /// Where it ran.
    pub replica: usize,
    /// Whether its conversation stayed: at its home where the policy knows homes, else where its
    /// last turn ran. `None` for first turns.
    pub stayed: Option<bool>,
    /// The client sent the request.
    pub sent_us: u64,
    /// The client saw the first token.
    pub first_byte_us: u64,
    /// The client saw the end.
    pub end_us: u64,
    /// It waited so long at the policy, refusals included.
    pub queued_us: u64,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Of these, read from the cache.
    pub cached_tokens: u32,
    /// Tokens at the front of the prompt that all sessions share.
    pub shared_tokens: u32,
    /// Prompt tokens beyond the shared ones that this conversation had sent or received before.
    pub own_known_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

/// The fleet's gauges at one poll.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poll {
    /// Virtual microseconds.
    pub at_us: u64,
    /// Replicas with a running request.
    pub busy: usize,
    /// Highest `kv_cache_usage_perc` of a replica, 0..1.
    pub kv_cache_usage_max: f64,
}

/// Everything that happened in a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Start of the window.
    pub start_us: u64,
    /// End of the window; turns in flight then were drained.
    pub end_us: u64,
    /// All turns, in the order in which they ended.
    pub turns: Vec<TurnRecord>,
    /// One per second of the window.
    pub polls: Vec<Poll>,
    /// What the engines counted within the window.
    pub counters: Counters,
    /// Clients of a closed loop; `None` where sessions arrive on their own.
    pub clients: Option<u32>,
    /// Time within the window that the clients of a closed loop spent between turns.
    pub thinking_us: u64,
    /// Turns that the policy sent away for a while.
    pub refusals: u64,
    /// What leases did in this stage.
    pub leases: LeaseCounters,
    /// Steps that the engines took, drain included.
    pub steps: u64,
}

impl Outcome {
    /// What was measured on a real server from time 0 on: no more is known of it than this.
    pub fn measured(
        window_us: u64,
        turns: Vec<TurnRecord>,
        polls: Vec<Poll>,
        counters: Counters,
    ) -> Self {
        Self {
            start_us: 0,
            end_us: window_us,
            turns,
            polls,
            counters,
            clients: None,
            thinking_us: 0,
            refusals: 0,
            leases: LeaseCounters::default(),
            steps: 0,
        }
    }

    /// Length of the window, seconds.
    pub fn window_s(&self) -> f64 {
        (self.end_us - self.start_us) as f64 / 1e6
    }

    /// The part of `from..to` inside the window, microseconds.
    pub(crate) fn inside(&self, from_us: u64, to_us: u64) -> u64 {
        to_us
            .min(self.end_us)
            .saturating_sub(from_us.max(self.start_us))
    }

    /// The law of a closed loop: the time that all clients spent in turns (unfinished ones included)
    /// or thinking inside the window equals clients x window. A lost, doubled or overlapping turn
    /// breaks it.
    pub(crate) fn assert_time_is_conserved(&self) {
        let Some(clients) = self.clients else { return };
        let turns: u64 = self
            .turns
            .iter()
            .map(|t| self.inside(t.sent_us, t.end_us))
            .sum();
        let expected = u64::from(clients) * (self.end_us - self.start_us);
        assert_eq!(
            turns + self.thinking_us,
            expected,
            "{clients} clients: {turns} us in turns and {} us between them",
            self.thinking_us
        );
    }
}
