//! Decisions as they show on the wire. The rules themselves are tested in `routing`.

use crate::support::{Engine, MESSAGE, Setup, Warden, messages_body, post};

fn turn(session: &str) -> Vec<u8> {
    let headers = format!("x-claude-code-session-id: {session}\r\n");
    post("/v1/messages", &headers, messages_body(false))
}

#[tokio::test]
async fn a_conversation_stays_on_its_replica() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(4);
    let warden = Warden::start(setup).await;
    let mut client = warden.client().await;
    for session in ["a", "b", "c", "d"] {
        let first = client.ask(turn(session)).await;
        assert_eq!(first.header("x-lm-warden-route"), Some("new"));
        let home = first.header("x-lm-warden-replica").unwrap().to_owned();
        for _ in 0..3 {
            let next = client.ask(turn(session)).await;
            assert_eq!(next.header("x-lm-warden-route"), Some("sticky"));
            assert_eq!(next.header("x-lm-warden-replica"), Some(&*home));
            let queue = next.header("x-lm-warden-queue-ms").unwrap();
            queue.parse::<u64>().unwrap();
        }
        let received = engine.received();
        let rank = received.last().unwrap().head.header("x-data-parallel-rank");
        assert_eq!(rank, Some(&*home));
    }
    assert_eq!(warden.conversations(), 4);
    let newest = warden.settled().await;
    assert_eq!(newest.route, Some(api::Route::Sticky));
    assert_eq!(newest.turn, Some(4));
}

#[tokio::test]
async fn with_affinity_off_no_rank_is_named() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(2);
    setup.routing = "affinity = false";
    let warden = Warden::start(setup).await;
    let reply = warden.client().await.ask(turn("a")).await;
    assert_eq!(reply.header("x-lm-warden-route"), Some("balanced"));
    assert_eq!(reply.header("x-lm-warden-replica"), Some("-"));
    assert_eq!(engine.only().head.header("x-data-parallel-rank"), None);
}

#[tokio::test]
async fn a_rank_that_is_no_integer_is_ignored_and_replaced() {
    let engine = Engine::answering_json(MESSAGE).await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(2);
    let warden = Warden::start(setup).await;
    let headers = "X-data-parallel-rank: 1.0\r\n";
    let request = post("/v1/messages", headers, messages_body(false));
    let reply = warden.client().await.ask(request).await;
    assert_eq!(reply.header("x-lm-warden-route"), Some("new"));
    let replica = reply.header("x-lm-warden-replica").unwrap();
    assert_eq!(
        engine.only().head.header("x-data-parallel-rank"),
        Some(replica)
    );
}

/// Counting tokens is no turn: no slot, no conversation, no decision.
#[tokio::test]
async fn calls_that_generate_nothing_leave_no_trace_in_routing() {
    let engine = Engine::answering_json("{\"input_tokens\":3}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.ranks = Some(2);
    let warden = Warden::start(setup).await;
    for path in [
        "/v1/messages/count_tokens",
        "/v1/embeddings",
        "/tokenize",
        "/detokenize",
    ] {
        let headers = "x-claude-code-session-id: a\r\nX-data-parallel-rank: 9\r\n";
        let request = post(path, headers, messages_body(false));
        let reply = warden.client().await.ask(request).await;
        assert_eq!(
            (reply.status, reply.text()),
            (200, "{\"input_tokens\":3}"),
            "{path}"
        );
        assert_eq!(reply.header("x-lm-warden-replica"), Some("-"));
        assert_eq!(reply.header("x-lm-warden-route"), Some("-"));
    }
    assert_eq!(warden.conversations(), 0);
    for received in engine.received() {
        assert_eq!(received.head.header("x-data-parallel-rank"), None);
        assert_eq!(received.head.header("x-claude-code-session-id"), Some("a"));
    }
    warden.settled().await;
}
