//! Brings back how each conversation was served last before this process, so that its first turn here
//! can say why it is cold: homes tell which conversations are still known, the history where and when
//! their last turns were. A history that cannot be read costs that reason and nothing else.

use std::time::Duration;

use routing::{ConversationKey, Time};

use crate::{
    fleet::Fleet,
    history::History,
    telemetry::{RecalledTurn, Telemetry, words},
};

/// Conversations looked up, those that spoke last: as many as telemetry keeps.
const CONVERSATIONS_MAX: usize = 20_000;
/// A turn may have arrived so long before its conversation was last active.
const TURN_MAX: Duration = Duration::from_secs(3600);

pub(super) async fn recall(fleet: &Fleet, history: &History, telemetry: &Telemetry, now: Time) {
    let homes = homes(fleet, now);
    let Some(since) = homes.iter().map(|home| home.last_active).min() else {
        return;
    };
    let since = Time(since.0.saturating_sub(TURN_MAX.as_micros() as u64));
    let turns = match history.last_turns(since).await {
        Ok(turns) => turns,
        Err(error) => {
            tracing::warn!(%error, "first turns cannot say why they are cold");
            return;
        }
    };
    telemetry.recall(homes.into_iter().filter_map(|home| {
        let served = *turns.get(&(home.model, words::conversation(home.key)))?;
        let lineage = home.lineage;
        Some((home.key, RecalledTurn { lineage, served }))
    }));
}

/// A conversation that is still known.
struct Home {
    model: String,
    key: ConversationKey,
    lineage: u64,
    last_active: Time,
}

fn homes(fleet: &Fleet, now: Time) -> Vec<Home> {
    let of_model = |model: &std::sync::Arc<crate::fleet::Model>| {
        let views = model.router.lock().conversations(now, CONVERSATIONS_MAX);
        let name = model.name.clone();
        views.into_iter().map(move |view| Home {
            model: name.clone(),
            key: view.record.identity.conversation,
            lineage: view.record.lineage,
            last_active: view.record.last_active,
        })
    };
    fleet.models.iter().flat_map(of_model).collect()
}
