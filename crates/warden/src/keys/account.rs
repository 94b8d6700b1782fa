//! What one key may use, and what it has used since this process started.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use routing::Time;

use super::{bucket::Bucket, file::Limits};
use crate::clock;

/// After this long a client that has too much in flight may ask again.
const RETRY_CONCURRENT: Duration = Duration::from_secs(1);

/// What a prompt costs where the reply never said (its client left, the engine broke): vLLM's
/// tokenizers make a token of about this many bytes of English or code.
const PROMPT_BYTES_PER_TOKEN: u64 = 4;

/// What a key has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests that were let in.
    pub requests: u64,
    /// Requests that a limit turned away.
    pub limited: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Prompt tokens that the engine had cached.
    pub prompt_tokens_cached: u64,
    /// Prompt tokens that it read.
    pub prompt_tokens_computed: u64,
    /// Tokens that it generated.
    pub completion_tokens: u64,
    /// When it last asked for something that is limited.
    pub last_used: Option<Time>,
}

/// Which limit a request met, and when it may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// The setting's name in words.
    pub limit: &'static str,
    /// Its value.
    pub value: u32,
    /// Whole seconds, at least 1.
    pub retry_after_s: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Account(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    limits: Limits,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    usage: Usage,
}

impl Account {
    pub(super) fn new(limits: Limits, now: Time) -> Self {
        let account = Self::default();
        account.set_limits(limits, now);
        account
    }

    /// Other limits from now on. What is in flight goes on.
    pub(super) fn set_limits(&self, limits: Limits, now: Time) {
        let mut state = self.state();
        let State {
            requests, tokens, ..
        } = &mut *state;
        let buckets = [
            (requests, limits.requests_per_min),
            (tokens, limits.tokens_per_min),
        ];
        for (bucket, per_min) in buckets {
            *bucket = per_min.map(|per_min| {
                let mut bucket = bucket.unwrap_or_else(|| Bucket::full(per_min, now));
                bucket.set(per_min, now);
                bucket
            });
        }
        state.limits = limits;
    }

    /// Lets a request in, or says which limit it met. What is turned away costs nothing.
    pub fn admit(self: &Arc<Self>) -> Result<Admission, Limited> {
        let now = clock::now();
        let mut state = self.state();
        state.usage.last_used = Some(now);
        if let Some(limited) = state.limit_met(now) {
            state.usage.limited += 1;
            return Err(limited);
        }
        if let Some(bucket) = &mut state.requests {
            bucket.take(1.0, now);
        }
        state.usage.requests += 1;
        state.usage.in_flight += 1;
        Ok(Admission {
            account: Arc::clone(self),
            prompt_bytes: 0,
        })
    }

    /// What was used so far.
    pub fn usage(&self) -> Usage {
        self.state().usage
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn limit_met(&mut self, now: Time) -> Option<Limited> {
        let limits = self.limits;
        let met = |limit, value, wait: Duration| Limited {
            limit,
            value,
            retry_after_s: wait.as_secs_f64().ceil().max(1.0) as u32,
        };
        if let Some(max) = limits.concurrent_requests
            && self.usage.in_flight >= max
        {
            return Some(met("concurrent requests", max, RETRY_CONCURRENT));
        }
        let buckets = [
            (
                &mut self.requests,
                "requests per minute",
                limits.requests_per_min,
            ),
            (&mut self.tokens, "tokens per minute", limits.tokens_per_min),
        ];
        buckets.into_iter().find_map(|(bucket, name, value)| {
            let wait = bucket.as_mut()?.wait(1.0, now);
            (wait > Duration::ZERO).then(|| met(name, value.unwrap_or(0), wait))
        })
    }
}

/// A request that was let in: counted in flight until this is dropped.
#[derive(Debug)]
pub struct Admission {
    account: Arc<Account>,
    prompt_bytes: u64,
}

impl Admission {
    /// The size of its prompt, for the case that nobody ever tells its tokens.
    pub fn prompt_bytes(&mut self, bytes: u64) {
        self.prompt_bytes = bytes;
    }

    /// What the engine counted. Cached tokens cost the machine next to nothing, and so nothing
    /// here; what was not measured counts as computed. `worked`: whether an engine worked on it
    /// even where it never said how much.
    pub fn finish(self, usage: Option<vllm::Usage>, worked: bool) {
        let now = clock::now();
        let mut state = self.account.state();
        let Some(usage) = usage else {
            let estimate = self.prompt_bytes / PROMPT_BYTES_PER_TOKEN;
            if worked && let Some(bucket) = &mut state.tokens {
                bucket.take(estimate as f64, now);
            }
            return;
        };
        let (cached, computed) = usage.split();
        state.usage.prompt_tokens_cached += cached;
        state.usage.prompt_tokens_computed += computed;
        state.usage.completion_tokens += usage.completion_tokens;
        if let Some(bucket) = &mut state.tokens {
            bucket.take((computed + usage.completion_tokens) as f64, now);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.account.state().usage.in_flight -= 1;
    }
}
