//! `GET /events`: what changed, a few times a second at most.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse,
        sse::{Event, KeepAlive, Sse},
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Operators;
use crate::{clock::epoch_s, telemetry::Telemetry};

/// Least time from one event to the next: everything in between is one event.
const PAUSE: Duration = Duration::from_millis(250);
/// A comment this often keeps connections from being taken for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn stream(State(operators): State<Arc<Operators>>) -> impl IntoResponse {
    let (events, receiver) = mpsc::channel(1);
    tokio::spawn(follow(Arc::clone(&operators.telemetry), events));
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Sse::new(ReceiverStream::new(receiver)).keep_alive(keep_alive)
}

/// Tells one reader what changed until it leaves. A slow reader is told less often, not later.
async fn follow(telemetry: Arc<Telemetry>, events: mpsc::Sender<Result<Event, Infallible>>) {
    let mut watcher = telemetry.changes().watch();
    let hello = api::Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: epoch_s(telemetry.started()),
    };
    let mut event = named("hello", &hello);
    loop {
        if events.send(Ok(event)).await.is_err() {
            return;
        }
        event = loop {
            tokio::select! {
                () = events.closed() => return,
                () = watcher.changed() => {}
            }
            let changed = watcher.look(telemetry.changes());
            if changed != api::Changed::default() {
                break named("changed", &changed);
            }
        };
        tokio::time::sleep(PAUSE).await;
    }
}

fn named(name: &str, data: &impl serde::Serialize) -> Event {
    let json = serde_json::to_string(data).expect("the API's types are plain JSON");
    Event::default().event(name).data(json)
}
