//! Keys at the operators' doors, and sessions of the pages.

use axum::body::Body;
use http::Request;
use serde_json::json;
use warden::{
    gateway::PeerAddress,
    keys::{KeyFile, Limits, NewKey},
};

use super::{Answer, Fixture};

const HOST: &str = "warden.example:8484";

/// A warden that requires keys, with one of each role.
struct Guarded {
    fixture: Fixture,
    admin: String,
    client: String,
}

impl Guarded {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile::of(directory.path());
        let key = |name: &str, role| {
            let new = NewKey {
                name: name.to_owned(),
                role,
                expires_s: None,
                limits: Limits::default(),
            };
            file.add(new).unwrap().1.reveal().to_owned()
        };
        let admin = key("boss", api::KeyRole::Admin);
        let client = key("dev", api::KeyRole::Client);
        Self {
            fixture: Fixture::guarded(directory),
            admin,
            client,
        }
    }

    async fn ask(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", HOST);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        let address = PeerAddress("192.0.2.7:1".parse().unwrap());
        request.extensions_mut().insert(address);
        self.fixture.send(request).await
    }

    async fn log_in(&self, key: &str) -> Answer {
        let body = json!({ "key": key }).to_string();
        self.ask("POST /api/v1/login", &[], &body).await
    }

    /// The cookie of a fresh session, as a browser sends it back.
    async fn cookie(&self) -> String {
        let answer = self.log_in(&self.admin).await;
        assert_eq!(answer.status, 204, "{:?}", answer.body);
        let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
        for word in ["HttpOnly", "SameSite=Strict", "Path=/api/v1"] {
            assert!(set.contains(word), "{set}");
        }
        assert!(!set.contains(&self.admin[13..]));
        set.split(';').next().unwrap().to_owned()
    }
}

#[tokio::test]
async fn only_an_admins_key_opens_the_operators_doors() {
    let warden = Guarded::new();
    let bearer = format!("Bearer {}", warden.admin);
    for path in [
        "/api/v1/models",
        "/api/v1/keys",
        "/metrics",
        "/api/v1/openapi.json",
    ] {
        let line = format!("GET {path}");
        let answer = warden.ask(&line, &[], "").await;
        answer.error(401, "unauthorized");
        assert!(answer.headers.contains_key("www-authenticate"));
        let client = [("x-api-key", warden.client.as_str())];
        warden.ask(&line, &client, "").await.error(403, "forbidden");
        let wrong = [("authorization", "Bearer lmw_00000001_none")];
        warden
            .ask(&line, &wrong, "")
            .await
            .error(401, "unauthorized");
        for admin in [
            ("x-api-key", warden.admin.as_str()),
            ("authorization", bearer.as_str()),
        ] {
            assert_eq!(warden.ask(&line, &[admin], "").await.status, 200, "{path}");
        }
    }
    let client = [("x-api-key", warden.client.as_str())];
    for line in [
        "GET /",
        "GET /stats",
        "PATCH /api/v1/models/demo/routing",
        "POST /api/v1/login",
    ] {
        warden
            .ask(line, &client, "{}")
            .await
            .error(403, "forbidden");
    }
    // Who has no key yet must be able to log in.
    assert_eq!(warden.ask("GET /", &[], "").await.status, 200);
    let answer = warden.ask("GET /api/v1/session", &[], "").await;
    assert_eq!(
        answer.json(),
        json!({"required": true, "name": null, "role": null})
    );
}

#[tokio::test]
async fn a_session_reads_and_changes_until_it_is_ended() {
    let warden = Guarded::new();
    let cookie = warden.cookie().await;
    let session = [("cookie", cookie.as_str())];
    let who = warden.ask("GET /api/v1/session", &session, "").await;
    assert_eq!(
        who.json(),
        json!({"required": true, "name": "boss", "role": "admin"})
    );
    assert_eq!(
        warden.ask("GET /api/v1/models", &session, "").await.status,
        200
    );
    let change = "PATCH /api/v1/models/demo/routing";
    let body = r#"{"affinity":false}"#;
    assert_eq!(warden.ask(change, &session, body).await.status, 200);

    let ended = warden.ask("POST /api/v1/logout", &session, "").await;
    assert_eq!(ended.status, 204);
    let cleared = ended.headers["set-cookie"].to_str().unwrap();
    assert!(cleared.contains("Max-Age=0"), "{cleared}");
    warden
        .ask("GET /api/v1/models", &session, "")
        .await
        .error(401, "unauthorized");
}

#[tokio::test]
async fn another_sites_page_cannot_use_a_session_nor_begin_or_end_one() {
    let warden = Guarded::new();
    let cookie = warden.cookie().await;
    let body = json!({ "key": warden.admin }).to_string();
    for stranger in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let headers = [("cookie", cookie.as_str()), stranger];
        for (line, body) in [
            ("PATCH /api/v1/models/demo/routing", r#"{"affinity":false}"#),
            ("POST /api/v1/models/demo/stop", ""),
            ("POST /api/v1/logout", ""),
            ("POST /api/v1/login", body.as_str()),
        ] {
            let answer = warden.ask(line, &headers, body).await;
            answer.error(403, "forbidden");
        }
    }
    let session = [
        ("cookie", cookie.as_str()),
        ("origin", "https://warden.example:8484"),
    ];
    let line = "PATCH /api/v1/models/demo/routing";
    assert_eq!(warden.ask(line, &session, "{}").await.status, 200);
}

#[tokio::test]
async fn wrong_keys_wait_and_so_does_a_right_one_after_them() {
    let warden = Guarded::new();
    for key in ["", "lmw_00000001_x", warden.client.as_str()] {
        let answer = warden.log_in(key).await;
        assert!([401, 403].contains(&answer.status.as_u16()), "{key}");
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    let answer = warden.log_in(&warden.admin).await;
    answer.error(429, "too_many_attempts");
    assert_eq!(answer.headers["retry-after"], "1");
    // A key in a header is not slowed down: agents behind the same address go on.
    let admin = [("x-api-key", warden.admin.as_str())];
    assert_eq!(
        warden.ask("GET /api/v1/models", &admin, "").await.status,
        200
    );
}

#[tokio::test]
async fn keys_are_listed_without_their_secrets() {
    let warden = Guarded::new();
    let admin = [("x-api-key", warden.admin.as_str())];
    let answer = warden.ask("GET /api/v1/keys", &admin, "").await;
    let json = answer.json();
    assert_eq!(json["required"], true);
    let names: Vec<_> = json["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| &key["name"])
        .collect();
    assert_eq!(names, ["boss", "dev"]);
    assert_eq!(json["keys"][1]["role"], "client");
    assert_eq!(json["keys"][1]["last_used"], json!(null));
    let metrics = warden.ask("GET /metrics", &admin, "").await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in [
        "lm_warden_key_requests_total{key=\"dev\"} 0\n",
        "lm_warden_key_in_flight{key=\"boss\"} 0\n",
        "lm_warden_key_prompt_tokens_total{key=\"dev\",source=\"cached\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    for text in [String::from_utf8(answer.body.to_vec()).unwrap(), metrics] {
        assert!(!text.contains(&warden.admin[13..]) && !text.contains("sha256"));
    }
}
