//! Other sites' pages are kept out.

use axum::body::Body;
use http::Request;

use super::Fixture;

async fn status(fixture: &Fixture, method: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = Request::builder().method(method);
    request = match method {
        "PATCH" => request.uri("/api/v1/models/demo/routing"),
        _ => request.uri("/api/v1/models"),
    };
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = fixture.send(request.body(Body::from("{}")).unwrap()).await;
    if answer.status.as_u16() == 403 {
        answer.error(403, "forbidden");
    }
    answer.status.as_u16()
}

#[tokio::test]
async fn a_strangers_name_for_this_machine_reads_and_changes_nothing() {
    let fixture = Fixture::new();
    for host in ["evil.example:8484", "rebound.example", "10.0.0.1:8484"] {
        assert_eq!(
            status(&fixture, "GET", &[("host", host)]).await,
            403,
            "{host}"
        );
        assert_eq!(
            status(&fixture, "PATCH", &[("host", host)]).await,
            403,
            "{host}"
        );
    }
    assert_eq!(status(&fixture, "GET", &[]).await, 403, "no host at all");
    for host in ["localhost:8484", "127.0.0.1:8484", "[::1]:8484"] {
        assert_eq!(
            status(&fixture, "GET", &[("host", host)]).await,
            200,
            "{host}"
        );
        assert_eq!(
            status(&fixture, "PATCH", &[("host", host)]).await,
            200,
            "{host}"
        );
    }
}

#[tokio::test]
async fn two_names_at_once_are_none() {
    let fixture = Fixture::new();
    let (here, stranger) = (("host", "localhost"), ("host", "evil.example"));
    for hosts in [[here, stranger], [stranger, here], [here, here]] {
        assert_eq!(status(&fixture, "GET", &hosts).await, 403, "{hosts:?}");
    }
    for (url, expected) in [
        ("http://evil.example/api/v1/models", 403),
        ("http://localhost/api/v1/models", 200),
    ] {
        let request = Request::get(url).header("host", "localhost");
        let answer = fixture.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), expected, "{url}");
    }
}

#[tokio::test]
async fn another_sites_page_may_not_change_anything() {
    let fixture = Fixture::new();
    let host = ("host", "localhost:8484");
    for stranger in [
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        assert_eq!(
            status(&fixture, "PATCH", &[host, stranger]).await,
            403,
            "{stranger:?}"
        );
    }
    for own in [
        ("origin", "http://localhost:8484"),
        ("sec-fetch-site", "same-origin"),
    ] {
        assert_eq!(
            status(&fixture, "PATCH", &[host, own]).await,
            200,
            "{own:?}"
        );
    }
}
