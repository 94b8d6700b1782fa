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
async fn a_list_is_filtered_ordered_and_paged() {
    let fixture = Fixture::new();
    for session in ["a", "b", "c"] {
        fixture.turn("demo", session, None);
    }
    fixture.turn("demo", "b", None);
    fixture.turn("Org/Other", "t", None);
    let list = fixture
        .get("/api/v1/conversations?sort=-turns&limit=1")
        .await;
    assert_eq!(list["conversations"][0]["turns"], 2);
    assert_eq!((&list["matching"], &list["total"]), (&json!(4), &json!(4)));
    let id = list["conversations"][0]["id"].as_str().unwrap();
    let upper = id.to_uppercase();
    for (query, matching) in [
        (format!("q={}", &upper[2..14]), 1),
        ("q=org/".to_owned(), 1),
        ("q=nobody".to_owned(), 0),
        ("model=demo&replica=7".to_owned(), 0),
        ("model=demo&sort=id&offset=2".to_owned(), 3),
    ] {
        let list = fixture.get(&format!("/api/v1/conversations?{query}")).await;
        assert_eq!(list["matching"], matching, "{query}");
    }
    let path = "/api/v1/conversations?model=demo&sort=id&offset=2";
    let third = fixture.get(path).await;
    let all = fixture
        .get("/api/v1/conversations?model=demo&sort=-id")
        .await;
    assert_eq!(third["conversations"].as_array().unwrap().len(), 1);
    assert_eq!(third["conversations"][0], all["conversations"][0]);
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
