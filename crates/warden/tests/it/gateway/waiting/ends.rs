//! Every way in which a wait ends but by room.

use api::RequestEnd;
use routing::{Event, LeaseMode, ReplicaIndex};

use super::hall::{Hall, MESSAGES, Reply};
use crate::support::{Client, Ended};

/// Lets a waiting stream begin, so that it can only be told by events.
async fn begun(hall: &Hall, session: &str) -> Client {
    let client = hall.wait(session, MESSAGES, true).await;
    hall.time.pass_s(10.01).await;
    hall.turn().await;
    assert!(!client.is_silent());
    client
}

async fn is_told_as_event(client: &mut Client, kind: &str, part: &str) {
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.ended), (200, Ended::Cleanly));
    let last = reply.text().rsplit_terminator("\n\n").next().unwrap();
    let (_, data) = last.split_once("event: error\ndata: ").expect(last);
    let event: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(event["error"]["type"], kind);
    let message = event["error"]["message"].as_str().unwrap();
    assert!(message.contains(part), "{message}");
}

async fn is_503(client: &mut Client, part: &str) {
    let reply = client.reply().await;
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains(part), "{}", reply.text());
    assert!(reply.header("retry-after").is_some());
}

#[tokio::test]
async fn a_plain_request_goes_over_capacity_at_an_age_of_200_seconds_and_a_stream_at_400() {
    let (hall, _holders) = Hall::full(1, 0.0).await;
    let mut stream = hall.wait("stream", MESSAGES, true).await;
    let mut plain = hall.wait("plain", MESSAGES, false).await;
    hall.time.pass_s(199.9).await;
    hall.turn().await;
    assert_eq!(hall.reached(), 2);
    hall.time.pass_s(0.2).await;
    hall.served(3).await;
    hall.time.pass_s(199.7).await;
    hall.turn().await;
    assert_eq!(hall.reached(), 3);
    hall.time.pass_s(0.3).await;
    hall.served(4).await;
    assert_eq!(hall.leases().counters.over_age, 2);
    hall.tell(3);
    let reply = plain.reply().await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-lm-warden-queue-ms"), Some("200100"));
    assert_eq!(stream.reply().await.ended, Ended::Cleanly);
    hall.settled().await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_is_removed_at_once() {
    let (hall, _holders) = Hall::full(1, 0.0).await;
    let silent = hall.wait("silent", MESSAGES, false).await;
    let streaming = begun(&hall, "streaming").await;
    assert_eq!(hall.leases().waiting, 2);
    drop(silent);
    hall.until(|| hall.leases().waiting == 1).await;
    drop(streaming);
    hall.until(|| hall.leases().waiting == 0).await;
    assert_eq!(hall.reached(), 2);
    let left = hall.warden.requests();
    let left = left
        .iter()
        .filter(|r| r.end == Some(RequestEnd::ClientGone));
    for request in left.inspect(|r| assert_eq!(r.status, Some(499))) {
        assert!(
            request
                .reason
                .as_ref()
                .unwrap()
                .starts_with("ended while it waited")
        );
    }
    hall.settled().await;
}

/// Its retry carries no mark, but its age is kept, so that it goes before who came later.
#[tokio::test]
async fn who_left_keeps_its_place_for_a_while() {
    let (hall, _holders) = Hall::full(1, 0.0).await;
    let first = hall.wait("early", MESSAGES, false).await;
    hall.time.pass_s(5.0).await;
    drop(first);
    hall.until(|| hall.leases().waiting == 0).await;
    let late = hall.wait("late", MESSAGES, false).await;
    hall.time.pass_s(170.0).await;
    let mut early = hall.wait("early", MESSAGES, false).await;
    hall.tell(2);
    assert_eq!(early.reply().await.status, 200);
    assert!(late.is_silent());
    drop(late);
    hall.settled().await;
}

#[tokio::test]
async fn where_the_last_replica_dies_whoever_waits_is_told() {
    let (hall, _holders) = Hall::full(1, 0.0).await;
    let mut streaming = begun(&hall, "streaming").await;
    let mut plain = hall.wait("plain", MESSAGES, false).await;
    hall.observe(Event::ConnectFailed(ReplicaIndex(0)));
    is_503(&mut plain, "no replica is available").await;
    is_told_as_event(
        &mut streaming,
        "overloaded_error",
        "no replica is available",
    )
    .await;
    assert_eq!(hall.leases().waiting, 0);
    hall.settled().await;
}

#[tokio::test]
async fn a_dead_replicas_unanswered_requests_go_before_whoever_waits() {
    let (hall, holders) = Hall::full(2, 0.0).await;
    let later = hall.wait("later", MESSAGES, false).await;
    hall.time.pass_s(1.0).await;
    let mut holders = holders.into_iter();
    let (mut first, second) = (holders.next().unwrap(), holders.next().unwrap());
    let (dead, alive) = (hall.replica_of("holder 0"), hall.replica_of("holder 1"));
    hall.observe(Event::ConnectFailed(ReplicaIndex(dead as u16)));
    hall.will(Reply::Reset);
    // Once more on a fresh connection where the first one was reused.
    hall.tell_one(dead, 2);
    hall.until(|| hall.leases().waiting == 2).await;
    hall.will(Reply::Well);
    let reached = hall.reached();
    drop(second);
    hall.served(reached + 1).await;
    hall.tell_one(alive, 2);
    let reply = first.reply().await;
    assert_eq!((reply.status, reply.ended), (200, Ended::Cleanly));
    assert!(later.is_silent());
    drop(later);
    hall.settled().await;
}

#[tokio::test]
async fn a_shutdown_refuses_whoever_waits_and_serves_who_does_not() {
    let (mut hall, holders) = Hall::full(1, 0.0).await;
    let mut streaming = begun(&hall, "streaming").await;
    let mut plain = hall.wait("plain", MESSAGES, false).await;
    hall.warden.handle.drain();
    is_503(&mut plain, "lm-warden is stopping").await;
    is_told_as_event(&mut streaming, "overloaded_error", "lm-warden is stopping").await;
    hall.tell(1);
    for mut holder in holders {
        assert_eq!(holder.reply().await.ended, Ended::Cleanly);
    }
    hall.time.end();
    assert_eq!(hall.warden.ended().await.cut_off, 0);
}

#[tokio::test]
async fn where_leases_or_affinity_are_switched_off_all_go_at_once() {
    for affinity in [true, false] {
        let (hall, _holders) = Hall::full(1, 0.0).await;
        let _streaming = begun(&hall, "streaming").await;
        let _plain = hall.wait("plain", MESSAGES, false).await;
        {
            let mut router = hall.warden.fleet.models[0].router.lock();
            let mut settings = router.settings().clone();
            settings.affinity = affinity;
            settings.leases.mode = if affinity {
                LeaseMode::Off
            } else {
                LeaseMode::Auto
            };
            router.configure(settings);
        }
        hall.served(4).await;
        assert_eq!(hall.leases().waiting, 0);
        hall.settled().await;
    }
}
