//! The pages as files.

use axum::body::Body;
use http::Request;

use super::{Answer, Fixture};

async fn get(fixture: &Fixture, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::get(path).header("host", "localhost:8484");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    fixture.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn every_page_comes_with_a_policy_that_names_no_other_host() {
    let fixture = Fixture::new();
    for page in [
        "/",
        "/models/demo",
        "/models/Org%2FOther",
        "/stats",
        "/requests",
        "/conversations",
    ] {
        let answer = get(&fixture, page, &[]).await;
        assert_eq!(answer.status.as_u16(), 200, "{page}");
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{policy}"
        );
        assert!(
            !policy.contains("http") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn what_the_browser_has_is_not_sent_again() {
    let fixture = Fixture::new();
    let first = get(&fixture, "/", &[]).await;
    let etag = first.headers["etag"].to_str().unwrap();
    for known in [etag.to_owned(), format!("\"x\", W/{etag}")] {
        let again = get(&fixture, "/", &[("if-none-match", &known)]).await;
        assert_eq!(
            (again.status.as_u16(), again.body.len()),
            (304, 0),
            "{known}"
        );
        assert_eq!(again.headers["etag"], etag);
    }
    let other = get(&fixture, "/", &[("if-none-match", "\"x\"")]).await;
    assert_eq!(other.body, first.body);
}

#[tokio::test]
async fn pages_are_compressed_where_that_is_taken() {
    let fixture = Fixture::new();
    let plain = get(&fixture, "/", &[]).await;
    let zipped = get(&fixture, "/", &[("accept-encoding", "br, gzip;q=0.8")]).await;
    if assets::get("/").unwrap().gzip.is_some() {
        assert_eq!(zipped.headers["content-encoding"], "gzip");
        assert!(zipped.body.starts_with(&[0x1f, 0x8b]));
    } else {
        assert_eq!(zipped.body, plain.body);
    }
    assert!(plain.headers.get("content-encoding").is_none());
    assert_eq!(plain.headers["vary"], "accept-encoding");
}

#[tokio::test]
async fn what_is_no_page_is_told_in_the_shape_that_clients_read() {
    let fixture = Fixture::new();
    let nowhere = get(&fixture, "/chat/completions", &[]).await;
    let error = &nowhere.json()["error"];
    assert_eq!(nowhere.status.as_u16(), 404);
    assert_eq!(nowhere.headers["x-should-retry"], "false");
    assert_eq!(error["type"], "invalid_request_error", "{error}");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("/chat/completions"),
        "{error}"
    );
    assert_eq!(error.as_object().unwrap().len(), 4, "{error}");
    let unknown = get(&fixture, "/api/v1/nothing", &[]).await;
    unknown.error(404, "not_found");
}
