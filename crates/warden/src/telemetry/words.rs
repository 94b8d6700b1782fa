//! Decisions and ids as people and programs read them.

use routing::{ConversationKey, Decision, Reason, ReplicaIndex, Route, Score, Wait};

use super::End;

/// The 16 hex digits that stand for a conversation.
pub(crate) fn conversation(key: ConversationKey) -> String {
    hash(key.shown())
}

pub(crate) fn hash(hash: u64) -> String {
    format!("{hash:016x}")
}

pub(crate) fn route(route: Route) -> api::Route {
    match route {
        Route::Pinned => api::Route::Pinned,
        Route::Balanced => api::Route::Balanced,
        Route::New => api::Route::New,
        Route::Sticky => api::Route::Sticky,
        Route::Spilled => api::Route::Spilled,
        Route::Moved => api::Route::Moved,
    }
}

pub(super) fn end(end: End) -> api::RequestEnd {
    match end {
        End::Complete => api::RequestEnd::Complete,
        End::Refused => api::RequestEnd::Refused,
        End::EngineError => api::RequestEnd::EngineError,
        End::Cut => api::RequestEnd::Cut,
        End::Lost => api::RequestEnd::Lost,
        End::ClientGone => api::RequestEnd::ClientGone,
        End::Timeout => api::RequestEnd::Timeout,
        End::Shutdown => api::RequestEnd::Shutdown,
        End::Internal => api::RequestEnd::Internal,
    }
}

pub(super) fn score(score: &Score) -> api::Score {
    api::Score {
        replica: score.replica.0,
        available: score.available,
        fits: score.fits,
        in_flight: score.in_flight,
        running: score.running,
        cache_fill: score.cache_fill.map(f64::from),
        conversations: score.conversations,
    }
}

/// One sentence on why a request went where it went.
pub(super) fn reason(decision: &Decision) -> String {
    let here = decision.replica;
    let chosen = here.map_or_else(String::new, |replica| {
        format!("replica {} has {}", replica.0, running(decision, replica))
    });
    match &decision.reason {
        Reason::ClientPin => "the client named the replica".to_owned(),
        Reason::AffinityOff => "affinity is off".to_owned(),
        Reason::NotSteerable => "the engine cannot be told a replica on this API".to_owned(),
        Reason::LeastLoaded if decision.turn == 0 => {
            format!("no conversation named; least loaded: {chosen}")
        }
        Reason::LeastLoaded => format!("first turn; least loaded: {chosen}"),
        Reason::Home => "stays where its cache is".to_owned(),
        Reason::HomeNoBetter => {
            "stays: over the threshold, but no other replica is free enough".to_owned()
        }
        Reason::HomeOverThreshold {
            home,
            in_flight,
            threshold,
        } => format!(
            "home {} has {in_flight} in flight, over {threshold}; {chosen}",
            home.0
        ),
        Reason::HomeWedged { home } => {
            format!("home {} makes no progress; {chosen}", home.0)
        }
        Reason::HomeOut { home } => format!("home {} is out; {chosen}", home.0),
        Reason::SpilledTwice { home } => {
            format!(
                "spilled from {} twice in a row, so it moves; {chosen}",
                home.0
            )
        }
        Reason::MovedByOperator => "moved by an operator".to_owned(),
        Reason::Retry { failed } => {
            format!(
                "replica {} failed before the first byte; {chosen}",
                failed.0
            )
        }
        Reason::LeaseHeld => "keeps its place, while others wait".to_owned(),
        Reason::LeaseGranted { waited } if waited.is_zero() => {
            format!("there is room in the cache; {chosen}")
        }
        Reason::LeaseGranted { waited } => {
            format!("waited {:.1} s for room; {chosen}", waited.as_secs_f64())
        }
        Reason::WaitedTooLong { waited } => {
            format!(
                "waited {:.0} s, too long to wait for room; {chosen}",
                waited.as_secs_f64()
            )
        }
        Reason::Reserved => format!("room is kept for requests without a conversation; {chosen}"),
    }
}

/// One sentence on a request that waits for room, or that ended before there was any.
pub(super) fn waits(wait: Wait, end: Option<End>) -> String {
    let ahead = match wait.ahead {
        0 => "nobody before it".to_owned(),
        ahead => format!("{ahead} before it"),
    };
    let predicted_s = wait.predicted.as_secs_f64();
    match end {
        None => format!("waits for room, about {predicted_s:.0} s in all; {ahead} when it came"),
        Some(_) => format!("ended while it waited for room; {ahead} when it came"),
    }
}

fn running(decision: &Decision, replica: ReplicaIndex) -> String {
    let score = decision
        .scores
        .iter()
        .find(|score| score.replica == replica);
    score.map_or_else(
        || "unknown figures".to_owned(),
        |score| format!("{} running", score.running),
    )
}
