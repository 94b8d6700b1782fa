//! The part of the panel that says who holds a place and who waits for one.

use routing::{HolderView, LeaseCounters, LeaseState, LeaseView, Settings, Time, WaiterView};

use crate::{clock::epoch_s, telemetry::words::conversation};

/// Conversations that hold a place and that are named; the rest are only counted.
pub(super) const HOLDERS_SHOWN: usize = 50;

pub(super) fn leases(
    view: &LeaseView,
    holders: &[HolderView],
    settings: &Settings,
    now: Time,
) -> api::Leases {
    let (state, since) = state(view.state);
    api::Leases {
        mode: match settings.leases.mode {
            routing::LeaseMode::Off => api::LeasesMode::Off,
            routing::LeaseMode::Auto => api::LeasesMode::Auto,
        },
        state,
        contended: since.is_some(),
        contended_since: since.map(epoch_s),
        turns: api::LeaseTurns {
            value: settings.leases.turns_effective(),
            set: settings.leases.turns.is_some(),
        },
        waiting: u32::try_from(view.waiting).unwrap_or(u32::MAX),
        holding: view.holding,
        oldest_wait_s: view.oldest.map(|oldest| now.since(oldest).as_secs_f64()),
        predicted_wait_s: view.predicted_wait.as_secs_f64(),
        miss_ratio: view.miss_ratio,
        replicas: (0..).zip(&view.replicas).map(share).collect(),
        waiters: view.waiters.iter().map(waiter).collect(),
        holders: holders.iter().map(holder).collect(),
        counters: counters(&view.counters),
    }
}

fn state(state: LeaseState) -> (api::LeasesState, Option<Time>) {
    let state = match state {
        LeaseState::Off => api::LeasesState::Off,
        LeaseState::AffinityOff => api::LeasesState::AffinityOff,
        LeaseState::KvTokensUnknown => api::LeasesState::KvTokensUnknown,
        LeaseState::UsageUnknown => api::LeasesState::UsageUnknown,
        LeaseState::Sticky => api::LeasesState::Sticky,
        LeaseState::Contended { since } => return (api::LeasesState::Contended, Some(since)),
    };
    (state, None)
}

fn share((replica, share): (u16, &routing::LeaseShare)) -> api::LeaseShare {
    api::LeaseShare {
        replica,
        holding: share.holding,
        leased_tokens: share.leased_tokens,
        capacity_tokens: share.capacity_tokens,
        theta: share.theta,
    }
}

fn waiter(waiter: &WaiterView) -> api::LeaseWaiter {
    api::LeaseWaiter {
        conversation: waiter.conversation.map(conversation),
        since: epoch_s(waiter.since),
        remaining_s: waiter.remaining.as_secs_f64(),
    }
}

fn holder(holder: &HolderView) -> api::LeaseHolder {
    api::LeaseHolder {
        conversation: conversation(holder.conversation),
        replica: holder.replica.0,
        tokens: u64::from(holder.tokens),
        turns: holder.turns,
        since: epoch_s(holder.since),
        held_until: holder.held_until.map(epoch_s),
    }
}

fn counters(counters: &LeaseCounters) -> api::LeaseCounters {
    api::LeaseCounters {
        contentions: counters.contentions,
        waits: counters.waits,
        refused: counters.refused,
        ended_room: counters.ended_room,
        ended_held: counters.ended_held,
        ended_age: counters.ended_age,
        ended_over: counters.ended_over,
        ended_nowhere: counters.ended_nowhere,
        ended_left: counters.ended_left,
        over_age: counters.over_age,
        grants: counters.grants,
        held_turns: counters.held_turns,
        released_silent: counters.released_silent,
        released_quantum: counters.released_quantum,
        released_overflow: counters.released_overflow,
        released_void: counters.released_void,
        missed_tokens: counters.missed_tokens,
        expected_tokens: counters.expected_tokens,
    }
}
