//! What the warden answers itself.

use bytes::Bytes;
use http_body_util::Full;
use warden::{fleet::ModelState, gateway::Fallback};

use crate::support::{Engine, Setup, Warden, get};

#[tokio::test]
async fn health_readiness_and_greetings() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    assert_eq!(client.ask(get("/health")).await.status, 200);
    assert_eq!(client.ask(get("/ready")).await.status, 200);
    for path in ["/", "/api/hello"] {
        let head = format!("HEAD {path} HTTP/1.1\r\nhost: w\r\n\r\n");
        assert_eq!(client.ask(head).await.status, 200, "{path}");
    }
    *warden.fleet.models[0].state.write().unwrap() = ModelState::Failed("x".to_owned());
    assert_eq!(client.ask(get("/health")).await.status, 200);
    assert_eq!(client.ask(get("/ready")).await.status, 503);
    assert_eq!(engine.received().len(), 0);
}

#[tokio::test]
async fn models_are_listed_for_both_dialects() {
    let engine = Engine::answering_json("{}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.model = "aliases = [\"claude-*\", \"other\"]";
    let warden = Warden::start(setup).await;
    *warden.fleet.models[0].max_model_len.write().unwrap() = Some(32_768);
    let mut client = warden.client().await;

    let list = client.ask(get("/v1/models?limit=1000")).await.json();
    assert_eq!(list["object"], "list");
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["id"])
        .collect();
    assert_eq!(ids, ["demo", "other"], "a glob is no name");
    let first = client.ask(get("/v1/models?limit=1")).await.json();
    assert_eq!(first["data"].as_array().unwrap().len(), 1);

    for id in ["demo", "other", "claude-sonnet-5"] {
        let model = client.ask(get(&format!("/v1/models/{id}"))).await.json();
        assert_eq!(model["id"], id);
        assert_eq!(model["object"], "model");
        assert_eq!(model["type"], "model");
        assert_eq!(model["max_model_len"], 32_768);
    }
    assert_eq!(client.ask(get("/v1/models/unknown")).await.status, 404);
}

#[tokio::test]
async fn versions() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    *warden.fleet.models[0].engine_version.write().unwrap() = Some("0.26.0".to_owned());
    let version = warden.client().await.ask(get("/version")).await.json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(version["engines"]["demo"], "0.26.0");
}

#[tokio::test]
async fn everything_else_is_the_fallbacks() {
    let engine = Engine::answering_json("{}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.fallback = Fallback::new(tower::service_fn(
        |request: http::Request<hyper::body::Incoming>| async move {
            let said = format!("{} {}", request.method(), request.uri());
            Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(said))))
        },
    ));
    let warden = Warden::start(setup).await;
    let mut client = warden.client().await;
    for path in ["/", "/metrics", "/api/v1/models?x=1"] {
        let reply = client.ask(get(path)).await;
        assert_eq!(reply.text(), format!("GET {path}"));
    }
}
