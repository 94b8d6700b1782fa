//! Conversations: listed, moved, forgotten.

use serde_json::{Value, json};

use super::{Fixture, replica};

#[tokio::test]
async fn conversations_are_listed_moved_and_forgotten() {
    let fixture = Fixture::new();
    fixture.turn("Org/Other", "t", None);
    let home = replica(&fixture.turn("demo", "s", None));
    fixture.turn("demo", "s", None);
    let list = fixture.get("/api/v1/conversations").await;
    assert_eq!(list["total"], 2);
    let first = &list["conversations"][0];
    assert_eq!(
        (&first["model"], &first["replica"], &first["turns"]),
        (&json!("demo"), &json!(home), &json!(2))
    );
    assert_eq!(
        (&first["named_by"], &first["agent"]),
        (&json!("x-claude-code-session-id"), &Value::Null)
    );
    let only = fixture
        .get("/api/v1/conversations?model=demo&limit=1")
        .await;
    assert_eq!(only["total"], 1);

    let id = first["id"].as_str().unwrap();
    let path = format!("/api/v1/conversations/{id}");
    assert_eq!(&fixture.get(&path).await, first);
    let body = format!("{{\"replica\": {}}}", 1 - home);
    let moved = fixture
        .ask("POST", &format!("{path}/move"), &body)
        .await
        .json();
    assert_eq!(moved["replica"], 1 - home);
    let turn = fixture.turn("demo", "s", None);
    assert_eq!(replica(&turn), 1 - home);

    let answer = fixture.ask("DELETE", &path, "").await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
    fixture.ask("GET", &path, "").await.error(404, "not_found");
    assert_eq!(fixture.turn("demo", "s", None).route.as_str(), "new");
}

#[tokio::test]
async fn no_such_conversation_or_replica() {
    let fixture = Fixture::new();
    fixture.turn("demo", "s", None);
    let list = fixture.get("/api/v1/conversations").await;
    let id = list["conversations"][0]["id"].as_str().unwrap();
    let long = "0".repeat(300);
    for unknown in [
        "0000000000000000",
        "x",
        "+000000000000001",
        long.as_str(),
        "%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9",
    ] {
        for (method, path) in [("GET", ""), ("DELETE", ""), ("POST", "/move")] {
            let path = format!("/api/v1/conversations/{unknown}{path}");
            fixture
                .ask(method, &path, "{\"replica\": 0}")
                .await
                .error(404, "not_found");
        }
    }
    let path = format!("/api/v1/conversations/{id}/move");
    for (body, word) in [
        ("{}", "replica"),
        ("{\"replica\": 2}", "0 to 1"),
        ("x", "JSON"),
        ("{\"replica\": -1}", "replica"),
    ] {
        let message = fixture.ask("POST", &path, body).await.error(400, "invalid");
        assert!(message.contains(word), "{body}: {message}");
    }
}
