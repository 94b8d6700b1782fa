//! Replays recorded requests of real clients through the service, before replicas that record what
//! reaches them: bodies and headers arrive as they were sent, each conversation stays on its replica,
//! subagents are conversations of their own.

mod recording;
mod upstream;

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;

use self::recording::{Recording, scenarios};
use self::upstream::{Captured, Upstream, reply_of};
use crate::service::Service;

/// What a proxy must not pass on, by HTTP or by contract; lengths are the body's own.
const NOT_PASSED: [&str; 6] = [
    "connection",
    "keep-alive",
    "host",
    "x-api-key",
    "authorization",
    "content-length",
];
/// What the service or its HTTP client adds.
const ADDED: [&str; 2] = ["host", "content-length"];

async fn start() -> (Upstream, Service) {
    let upstream = Upstream::start(4).await;
    let urls: Vec<_> = upstream
        .addresses
        .iter()
        .map(|at| format!("\"http://{at}\""))
        .collect();
    let models = format!(
        "[[models]]\nname = \"lab-model\"\naliases = [\"lab-*\"]\n\
         [models.engine]\nkind = \"attached\"\nurls = [{}]\nmax_num_seqs = 32\n",
        urls.join(", ")
    );
    let service = Service::start(&models).await;
    (upstream, service)
}

async fn replay(service: &Service, recording: &Recording) -> Response<Bytes> {
    let mut request = Request::builder()
        .method(recording.method.as_str())
        .uri(&recording.path);
    for (name, value) in &recording.headers {
        // These three belong to the recorded connection, not to the request.
        if !["host", "connection", "content-length"].contains(&name.to_lowercase().as_str()) {
            request = request.header(name, value);
        }
    }
    let body = Full::from(recording.body.clone());
    service.send(request.body(body).expect("a request")).await
}

#[tokio::test]
async fn recorded_requests_arrive_as_sent_and_stay_on_their_replica() {
    let Some(scenarios) = scenarios() else { return };
    let mut turns = 0;
    let (upstream, service) = start().await;
    let mut homes: HashMap<(String, String), usize> = HashMap::new();
    for recording in scenarios.iter().flatten() {
        let reply = replay(&service, recording).await;
        assert_eq!(reply.status(), 200, "{}", recording.name);
        let captured = upstream.take();
        if recording.method == "HEAD" {
            assert!(
                captured.is_empty(),
                "{}: a HEAD reached an engine",
                recording.name
            );
            continue;
        }
        let [captured] = captured.as_slice() else {
            panic!(
                "{}: {} requests reached an engine",
                recording.name,
                captured.len()
            );
        };
        assert_as_sent(recording, captured);
        assert_eq!(
            reply.body(),
            reply_of(recording.path.trim_end_matches("?beta=true"))
        );
        if recording.is_turn() {
            turns += 1;
            assert_at_home(recording, captured, reply.headers(), &mut homes);
        } else {
            assert_eq!(route(reply.headers()), ("-", "-"), "{}", recording.name);
        }
    }
    assert!(turns > 100, "only {turns} turns in the recordings");
    let used: std::collections::HashSet<_> = homes.values().collect();
    assert_eq!(
        used.len(),
        4,
        "{} conversations on {} replicas",
        homes.len(),
        used.len()
    );
}

#[tokio::test]
async fn subagents_that_start_together_get_a_replica_each() {
    let Some(scenarios) = scenarios() else { return };
    let at_once: Vec<_> = scenarios
        .iter()
        .flatten()
        .filter(|it| it.name.contains("2.1.332/subagents/000") && it.is_turn())
        .take(4)
        .collect();
    let [parent, subagents @ ..] = at_once.as_slice() else {
        panic!("no such recording")
    };
    let (upstream, service) = start().await;
    replay(&service, parent).await;
    let home_of_parent = upstream.take()[0].replica;
    upstream.hold_until(subagents.len());
    let (first, second, third) = tokio::join!(
        replay(&service, subagents[0]),
        replay(&service, subagents[1]),
        replay(&service, subagents[2]),
    );
    for reply in [first, second, third] {
        assert_eq!(route(reply.headers()).1, "new");
    }
    let mut replicas: Vec<_> = upstream.take().iter().map(|it| it.replica).collect();
    replicas.sort_unstable();
    replicas.dedup();
    assert_eq!(replicas.len(), 3, "they share a replica");
    assert!(
        !replicas.contains(&home_of_parent),
        "one sits on its parent's replica"
    );
}

/// Against replicas whose caches work as vLLM's do.
#[tokio::test]
async fn no_real_client_is_told_that_its_prompt_changed_where_it_did_not() {
    let Some(scenarios) = scenarios() else { return };
    let service = Service::start(
        "[[models]]\nname = \"demo\"\naliases = [\"*\"]\n[models.engine]\nkind = \"simulated\"\n\
         data_parallel_size = 4\nmax_num_seqs = 32\nspeed = 1000.0\n",
    )
    .await;
    let mut names = HashMap::new();
    for recording in scenarios.iter().flatten().filter(|one| one.is_turn()) {
        let reply = replay(&service, recording).await;
        let id = &reply.headers()["x-lm-warden-request-id"];
        names.insert(id.to_str().expect("text").to_owned(), &recording.name);
    }

    let list = service.get("/api/v1/requests?limit=1000").await;
    let requests = list["requests"].as_array().expect("a list");
    assert_eq!(requests.len(), names.len());
    for request in requests {
        let name = names[request["id"].as_str().expect("an id")];
        // Compaction is meant to begin the prompt anew. This engine cannot be told where a request on
        // Responses goes.
        let is_meant = name.ends_with("compact-clear/0022") || name.ends_with("compact-clear/0027");
        let cold = &request["cold"];
        let is_balanced = name.starts_with("codex") && cold["why"] == "balanced";
        assert!(cold.is_null() || is_meant || is_balanced, "{name}: {cold}");
    }
    assert!(
        requests
            .iter()
            .filter(|one| one["gap_ms"].is_number())
            .count()
            > 60
    );

    let list = service.get("/api/v1/conversations?limit=1000").await;
    let conversations = list["conversations"].as_array().expect("a list");
    let alarmed = conversations.iter().filter(|one| !one["alarm"].is_null());
    let alarmed: std::collections::HashSet<_> = alarmed.map(|one| one["id"].as_str()).collect();
    let changing = requests.iter().filter(|request| {
        let name = names[request["id"].as_str().expect("an id")];
        name.contains("2.1.177")
    });
    let changing: std::collections::HashSet<_> =
        changing.map(|one| one["conversation"].as_str()).collect();
    assert_eq!(alarmed, changing, "only 2.1.177 changes its billing block");
}

fn assert_as_sent(recording: &Recording, captured: &Captured) {
    let name = &recording.name;
    assert_eq!(captured.path, recording.path, "{name}");
    // The alias replaces the value of `model`, and nothing else changes.
    let model = recording
        .model()
        .unwrap_or_else(|| panic!("{name}: no model"));
    let sent = recording.body.replacen(
        &format!("\"model\":\"{model}\""),
        "\"model\":\"lab-model\"",
        1,
    );
    assert!(
        captured.body == sent.as_bytes(),
        "{name}: the body was changed"
    );

    for (header, value) in &recording.headers {
        if !NOT_PASSED.contains(&header.to_lowercase().as_str()) {
            let arrived = captured
                .headers
                .get(header)
                .map(http::HeaderValue::as_bytes);
            assert_eq!(arrived, Some(value.as_bytes()), "{name}: {header}");
        }
    }
    for header in captured.headers.keys() {
        let sent = recording.header(header.as_str()).is_some();
        let key = ["x-api-key", "authorization"].contains(&header.as_str());
        let expected = (sent && !key) || ADDED.contains(&header.as_str());
        assert!(expected, "{name}: {header} reached the engine");
    }
}

fn assert_at_home(
    recording: &Recording,
    captured: &Captured,
    reply: &HeaderMap,
    homes: &mut HashMap<(String, String), usize>,
) {
    let (replica, route) = route(reply);
    assert_eq!(replica, captured.replica.to_string(), "{}", recording.name);
    let known = homes.insert(recording.conversation(), captured.replica);
    match known {
        None => assert_eq!(route, "new", "{}", recording.name),
        Some(home) => {
            assert_eq!(
                (captured.replica, route),
                (home, "sticky"),
                "{}",
                recording.name
            );
        }
    }
}

/// Replica and route, as the reply names them.
fn route(headers: &HeaderMap) -> (&str, &str) {
    let text = |name| {
        headers
            .get(name)
            .map_or("absent", |value| value.to_str().expect("text"))
    };
    (text("x-lm-warden-replica"), text("x-lm-warden-route"))
}
