//! What is served is what the `OpenAPI` document says, and errors have one shape.

use super::Fixture;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

#[tokio::test]
async fn exactly_the_documented_methods_are_served() {
    let fixture = Fixture::new();
    let document = fixture.get("/api/v1/openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 12);
    for (path, operations) in paths {
        let filled = path
            .replace("{name}", "demo")
            .replace("{replica}", "0")
            .replace("{id}", "0000000000000000");
        for method in METHODS {
            let documented = operations.get(method.to_lowercase()).is_some();
            if documented && path.ends_with("/events") {
                continue; // never ends; see `events`
            }
            let answer = fixture.ask(method, &filled, "{}").await;
            let refused = answer.status.as_u16() == 405;
            assert_eq!(!refused, documented, "{method} {path}: {}", answer.status);
            if refused {
                answer.error(405, "method_not_allowed");
            }
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found_in_json() {
    let fixture = Fixture::new();
    for path in [
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v2/models",
        "/api/v1/models/",
        "/nothing",
        "/models/a/b",
    ] {
        let message = fixture.ask("GET", path, "").await.error(404, "not_found");
        assert!(message.contains(path), "{message}");
    }
    fixture
        .ask("POST", "/", "")
        .await
        .error(405, "method_not_allowed");
}
