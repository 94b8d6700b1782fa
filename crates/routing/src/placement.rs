//! Least loaded: the order among replicas where a conversation is placed or spilled.
//!
//! Requests in flight come first, since they are exact and current, unlike any gauge. The number of
//! sessions decides last: as the first criterion it turns the replica where nothing finishes into a
//! black hole. Ties go round, or all of a quiet morning's conversations would share one replica.

use std::cmp::Ordering;

use crate::{ReplicaIndex, Score};

/// The least loaded of the candidates; `first` is where the round of ties begins.
pub(crate) fn least_loaded(
    scores: &[Score],
    first: usize,
    is_candidate: impl Fn(&Score) -> bool,
) -> Option<ReplicaIndex> {
    let fits_any = scores.iter().any(|score| is_candidate(score) && score.fits);
    let (before, after) = scores.split_at(first.min(scores.len()));
    after
        .iter()
        .chain(before)
        .filter(|score| is_candidate(score) && (score.fits || !fits_any))
        .min_by(|a, b| compare(a, b))
        .map(|score| score.replica)
}

/// Fewer requests, then lower cache fill (an unknown one counts as empty), then fewer conversations.
fn compare(a: &Score, b: &Score) -> Ordering {
    let fill = |score: &Score| score.cache_fill.unwrap_or(0.0);
    a.running
        .cmp(&b.running)
        .then_with(|| fill(a).total_cmp(&fill(b)))
        .then_with(|| a.conversations.cmp(&b.conversations))
}
