//! Whether a server serves: it answers `/health`, and lists the model under its name.
//!
//! `/health` alone is not enough: another program may have taken the port, and would be routed to.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::mpsc;

use super::machine::Event;
use crate::fetch::Fetch;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 1 << 20;
/// A server that answered, and then answers nothing for this long, is as good as dead. vLLM's API
/// servers stand still for seconds while they tokenise long prompts, never for minutes.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Tells, for as long as it is polled, that the server serves, or that it does so no longer.
pub(super) async fn watch(
    url: String,
    name: String,
    key: Option<String>,
    (generation, events): (u64, mpsc::Sender<(u64, Event)>),
) {
    let fetch = Fetch::new(TIMEOUT, BODY_BYTES_MAX, key.as_deref());
    let mut answered: Option<Instant> = None;
    loop {
        let serves = serves(&fetch, &url, &name).await;
        let event = if serves {
            answered = Some(Instant::now());
            Some(Event::Healthy)
        } else {
            let silent = answered.is_some_and(|at| at.elapsed() >= SILENCE_MAX);
            silent.then_some(Event::Unresponsive)
        };
        if let Some(event) = event
            && events.send((generation, event)).await.is_err()
        {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn serves(fetch: &Fetch, url: &str, name: &str) -> bool {
    if fetch.get(url, "/health").await.is_err() {
        return false;
    }
    let models = fetch.get(url, "/v1/models").await;
    models.is_ok_and(|body| lists(&body, name))
}

fn lists(body: &[u8], name: &str) -> bool {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Served>,
    }
    #[derive(Deserialize)]
    struct Served {
        id: String,
    }
    serde_json::from_slice::<List>(body)
        .is_ok_and(|list| list.data.iter().any(|served| served.id == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_program_on_the_port_does_not_serve_the_model() {
        assert!(lists(
            br#"{"object":"list","data":[{"id":"a"},{"id":"m","x":1}]}"#,
            "m"
        ));
        assert!(!lists(br#"{"data":[{"id":"a"}]}"#, "m"));
        assert!(!lists(b"<html>", "m"));
    }
}
