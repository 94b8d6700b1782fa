//! The stream of what changed.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::Fixture;
use crate::support::soon;

/// Reads one event; comments are left out.
async fn event(body: &mut Body, rest: &mut String) -> (String, Value) {
    loop {
        if let Some((text, after)) = rest.split_once("\n\n") {
            let line = |name: &str| {
                text.lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::trim)
            };
            let found = line("event:")
                .zip(line("data:"))
                .map(|(event, data)| (event.to_owned(), serde_json::from_str(data).unwrap()));
            *rest = after.to_string();
            match found {
                Some(found) => return found,
                None => continue,
            }
        }
        let frame = soon("an event", body.frame()).await.unwrap().unwrap();
        rest.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
}

#[tokio::test]
async fn a_reader_is_greeted_then_told_what_changed_in_one_event() {
    let fixture = Fixture::new();
    let request = Request::get("/api/v1/events")
        .header("host", "localhost")
        .body(Body::empty());
    let response = fixture.respond(request.unwrap()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (mut body, mut rest) = (response.into_body(), String::new());
    let (name, hello) = event(&mut body, &mut rest).await;
    assert_eq!(
        (
            name.as_str(),
            hello["version"].is_string(),
            hello["started"].is_f64()
        ),
        ("hello", true, true)
    );

    for session in ["a", "b", "c"] {
        fixture.turn("demo", session, None);
    }
    fixture
        .ask("PATCH", "/api/v1/models/Org%2FOther/routing", "{}")
        .await
        .json();
    // Changes may fall on both sides of an event's end, so they are gathered until all have come.
    let mut told = (Vec::new(), Vec::new());
    while !(told.0.contains(&json!("Org/Other")) && told.1.contains(&json!("demo"))) {
        let (name, changed) = event(&mut body, &mut rest).await;
        assert_eq!(name, "changed");
        told.0
            .extend(changed["models"].as_array().unwrap().iter().cloned());
        told.1
            .extend(changed["requests"].as_array().unwrap().iter().cloned());
    }
    assert!(told.0.contains(&json!("demo")));
    assert!(
        !told.1.contains(&json!("Org/Other")),
        "only its settings changed"
    );
    assert!(
        told.1.len() <= 2,
        "eleven steps of requests are one event, or two: {told:?}"
    );
}
