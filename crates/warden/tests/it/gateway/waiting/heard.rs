//! What a client hears while it waits, and afterwards.

use api::RequestEnd;

use super::hall::{CHAT, COMPLETIONS, Hall, LAST_EVENTS, MESSAGES, RESPONSES, Reply};
use crate::support::{Client, Ended, MESSAGES_EVENTS};

const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

async fn chunk(client: &mut Client) -> String {
    let chunk = client.chunk().await.expect("the stream goes on");
    String::from_utf8(chunk).unwrap()
}

async fn begins_with_a_ping(client: &mut Client, ping: &str) {
    let head = client.head().await;
    assert!(head.line.contains(" 200 "), "{head:?}");
    let header = |name: &str| head.header(name).unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream; charset=utf-8");
    assert_eq!(header("x-lm-warden-route"), "queued");
    assert_eq!(header("x-lm-warden-replica"), "-");
    let queue_ms: u64 = header("x-lm-warden-queue-ms").parse().unwrap();
    assert!((10_000..=10_010).contains(&queue_ms), "{queue_ms}");
    assert_eq!(chunk(client).await, ping);
}

/// Silence for ten seconds, then a sign of life every ten, then the engine's own stream.
#[tokio::test]
async fn a_waiting_stream_begins_after_ten_seconds_and_hears_something_every_ten() {
    const COMMENT: &str = ": waiting for room on a replica\n\n";
    for (path, ping) in [
        (MESSAGES, PING),
        (CHAT, COMMENT),
        (COMPLETIONS, COMMENT),
        (RESPONSES, COMMENT),
    ] {
        let (hall, _holders) = Hall::full(1, 0.0).await;
        let steerable = &hall.warden.fleet.models[0].responses_steerable;
        steerable.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut client = hall.wait("other", path, true).await;
        hall.time.pass_s(9.99).await;
        hall.turn().await;
        assert!(client.is_silent());
        hall.time.pass_s(0.02).await;
        begins_with_a_ping(&mut client, ping).await;
        for _ in 0..3 {
            hall.time.pass_s(9.9).await;
            hall.turn().await;
            assert!(client.is_silent());
            hall.time.pass_s(0.11).await;
            assert_eq!(chunk(&mut client).await, ping);
        }
        // The holder's turn ends, and the next one's begins; nothing is said until its engine speaks.
        hall.tell(1);
        hall.served(3).await;
        hall.time.pass_s(25.0).await;
        hall.turn().await;
        assert!(client.is_silent());
        hall.tell(1);
        if path == MESSAGES {
            for event in MESSAGES_EVENTS {
                assert_eq!(chunk(&mut client).await, event);
            }
        } else {
            while !LAST_EVENTS.contains(&chunk(&mut client).await.as_str()) {}
        }
        assert_eq!(client.chunk().await, Some(Vec::new()), "it ends cleanly");
        let newest = hall.settled().await;
        assert_eq!(newest.end, Some(RequestEnd::Complete));
        assert_eq!(newest.replica, Some(0));
        let seconds = |ms: Option<f64>| ms.map(|ms| (ms / 1e3).round());
        assert_eq!(seconds(newest.queue_ms), Some(40.0));
        assert_eq!(seconds(newest.ttfb_ms), Some(65.0));
        assert!(newest.reason.unwrap().starts_with("waited 40.0 s for room"));
    }
}

#[tokio::test]
async fn a_short_wait_shows_in_the_headers_only() {
    for stream in [true, false] {
        let (hall, _holders) = Hall::full(1, 0.0).await;
        let mut client = hall.wait("other", MESSAGES, stream).await;
        hall.time.pass_s(4.0).await;
        hall.tell(2);
        let reply = client.reply().await;
        assert_eq!((reply.status, reply.ended), (200, Ended::Cleanly));
        assert_eq!(reply.header("x-lm-warden-route"), Some("new"));
        assert_eq!(reply.header("x-lm-warden-replica"), Some("0"));
        assert_eq!(reply.header("x-lm-warden-queue-ms"), Some("4000"));
        assert!(!reply.text().contains("ping"));
        hall.settled().await;
    }
}

#[tokio::test]
async fn who_takes_no_slot_does_not_wait() {
    let (hall, holders) = Hall::full(1, 0.0).await;
    let mut count = hall.ask("other", "/v1/messages/count_tokens", false).await;
    hall.served(3).await;
    assert_eq!(hall.leases().waiting, 0);
    drop(holders);
    hall.tell(2);
    assert_eq!(count.reply().await.status, 200);
    hall.settled().await;
}

#[tokio::test]
async fn a_plain_request_hears_nothing_until_its_reply() {
    let (hall, _holders) = Hall::full(1, 0.0).await;
    let mut client = hall.wait("other", MESSAGES, false).await;
    hall.time.pass_s(100.0).await;
    hall.turn().await;
    assert!(client.is_silent());
    hall.tell(2);
    assert_eq!(client.reply().await.status, 200);
    hall.settled().await;
}

#[tokio::test]
async fn an_engines_error_keeps_its_status_before_the_first_ping_and_is_an_event_after_it() {
    for path in [MESSAGES, CHAT] {
        for waited_s in [5.0, 15.0] {
            let (hall, _holders) = Hall::full(1, 0.0).await;
            let mut client = hall.wait("other", path, true).await;
            hall.time.pass_s(waited_s).await;
            hall.turn().await;
            hall.tell(1);
            hall.served(3).await;
            hall.will(Reply::Error(400));
            hall.tell(1);
            let reply = client.reply().await;
            assert_eq!(reply.ended, Ended::Cleanly);
            assert!(reply.text().contains("the prompt is too long"));
            let newest = hall.settled().await;
            assert_eq!(newest.end, Some(RequestEnd::EngineError));
            assert_eq!(newest.status, Some(400));
            if waited_s < 10.0 {
                assert_eq!(reply.status, 400);
                assert_eq!(reply.header("content-type"), Some("application/json"));
                continue;
            }
            assert_eq!(reply.status, 200);
            let last = reply.text().rsplit_terminator("\n\n").next().unwrap();
            let (_, data) = last.split_once("data: ").unwrap();
            let event: serde_json::Value = serde_json::from_str(data).unwrap();
            assert_eq!(event["error"]["message"], "the prompt is too long");
            assert_eq!(event["error"]["type"], "invalid_request_error");
            assert_eq!(last.starts_with("event: error\n"), path == MESSAGES);
        }
    }
}

#[tokio::test]
async fn too_long_a_predicted_wait_is_429_at_once_with_a_time_to_come_back() {
    let (hall, holders) = Hall::full(1, 30.0).await;
    let waiting = hall.wait("second", MESSAGES, true).await;
    let mut refused = hall.ask("third", MESSAGES, false).await;
    let reply = refused.reply().await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.json()["error"]["type"], "rate_limit_error");
    assert!(
        reply.text().contains("the machine is full"),
        "{}",
        reply.text()
    );
    let retry_after: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    assert_eq!(reply.header("x-should-retry"), None);
    assert_eq!(reply.header("x-lm-warden-route"), Some("-"));
    // A stream has twice the time.
    let third = hall.wait("third", MESSAGES, true).await;
    let refused = hall
        .warden
        .requests()
        .into_iter()
        .find(|r| r.status == Some(429));
    assert_eq!(refused.unwrap().end, Some(RequestEnd::Refused));
    drop((waiting, third, holders));
    hall.settled().await;
}
