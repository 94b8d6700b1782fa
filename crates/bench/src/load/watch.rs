//! What is seen while a stage runs: replicas busy, once a second, and a line for whoever waits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sim::run::{Poll, TurnRecord, quantile};

use super::{stage::Running, warden::Warden};

/// As far apart as the simulator's polls.
const POLL_PAUSE: Duration = Duration::from_secs(1);
/// The TTFB that is shown is of so many turns.
const RECENT_TURNS: usize = 20;

/// A word on how it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Changes all the time; the next one replaces it.
    Live(String),
    /// Stands.
    Done(String),
}

/// Where a bench stands.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// Such as "affinity, 8 sessions".
    pub(super) stage: String,
    pub(super) stages_done: u32,
    pub(super) stages: u32,
}

/// Polls until it is dropped; `polls` has one entry per second of the window.
pub(super) async fn watch(
    running: Arc<Running>,
    warden: Option<Warden>,
    position: Position,
    (polls, progress): (&mut Vec<Poll>, &(dyn Fn(Progress) + Sync)),
) {
    let mut ticks = tokio::time::interval(POLL_PAUSE);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    ticks.tick().await; // the first one is at once, when nothing runs yet
    loop {
        ticks.tick().await;
        progress(Progress::Live(line(&running, &position)));
        let Some(warden) = &warden else { continue };
        let elapsed = running.began.elapsed();
        if elapsed > running.stage.window {
            continue;
        }
        // A poll that fails is left out; a warden that is gone shows in the turns.
        if let Ok(routing) = warden.routing().await {
            let busy = |replica: &&api::Replica| replica.running.is_some_and(|n| n > 0);
            let usage = routing.replicas.iter().filter_map(|r| r.kv_cache_usage);
            polls.push(Poll {
                at_us: elapsed.as_micros() as u64,
                busy: routing.replicas.iter().filter(busy).count(),
                kv_cache_usage_max: usage.fold(0.0, f64::max),
            });
        }
    }
}

fn line(running: &Running, position: &Position) -> String {
    let window = running.stage.window;
    let elapsed = running.began.elapsed();
    let left = match window.checked_sub(elapsed) {
        Some(left) => format!("{} left", minutes(left)),
        None => "draining".to_owned(),
    };
    let later = position.stages - position.stages_done - 1;
    let all = window.saturating_sub(elapsed) + window * later;
    let (recent, turns, failed, last_failure) = running.tally(|tally| {
        let recent = tally.turns.len().saturating_sub(RECENT_TURNS);
        let recent: Vec<f64> = tally.turns[recent..]
            .iter()
            .map(TurnRecord::ttfb_s)
            .collect();
        let failure = tally.last_failure.clone();
        (recent, tally.turns.len(), tally.failed, failure)
    });
    let failure = last_failure.map_or_else(String::new, |failure| format!(" ({failure})"));
    format!(
        "[{} of {}] {}: {left}, about {} in all; {turns} turns, TTFB {}; {failed} failed{failure}",
        position.stages_done + 1,
        position.stages,
        position.stage,
        minutes(all),
        median(recent),
    )
}

fn median(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5).map_or_else(|| "-".to_owned(), |median| format!("{median:.2} s"))
}

fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// The time since the Unix epoch and a monotonic one, taken together.
pub(super) fn now() -> (u64, Instant) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    (since.map_or(0, |since| since.as_secs()), Instant::now())
}
