//! Since when a conversation has been asking, across refusals and disconnections: a client's retry
//! carries no mark, so its age is kept here for a while under the conversation's key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{ConversationKey, Time};

/// How long an age is kept after a refusal or after the client left.
const KEPT: Duration = Duration::from_secs(180);

/// Most ages that are kept; past it the one that was to go first goes.
const AGES_MAX: usize = 10_000;

/// First arrivals of conversations that were sent away unserved.
#[derive(Debug, Default)]
pub(super) struct Ages {
    first: BTreeMap<ConversationKey, (Time, Time)>,
    ends: BTreeSet<(Time, ConversationKey)>,
}

impl Ages {
    /// Conversations that were sent away lately.
    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// The conversation was sent away; it first asked then.
    pub(super) fn keep(&mut self, now: Time, key: ConversationKey, first_arrival: Time) {
        self.take(now, key);
        if self.first.len() >= AGES_MAX
            && let Some((_, oldest)) = self.ends.pop_first()
        {
            self.first.remove(&oldest);
        }
        let end = now.plus(KEPT);
        self.first.insert(key, (first_arrival, end));
        self.ends.insert((end, key));
    }

    /// When the conversation first asked, if it was sent away lately; that is used up by this.
    pub(super) fn take(&mut self, now: Time, key: ConversationKey) -> Option<Time> {
        while let Some(&(end, gone)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            self.first.remove(&gone);
        }
        let (first_arrival, end) = self.first.remove(&key)?;
        self.ends.remove(&(end, key));
        Some(first_arrival)
    }
}
