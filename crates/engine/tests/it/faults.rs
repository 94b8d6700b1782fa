use std::time::Duration;

use engine::{Config, Exit};
use http::Method;
use tokio::time::Instant;

use crate::{
    config,
    http::{ask, ask_stream, within},
    start,
};

const LONG: &str = "[[script: write 90000]]";

fn two_ranks() -> Config {
    Config {
        data_parallel_size: 2,
        ..config()
    }
}

const FIRST: &[(&str, &str)] = &[("x-data-parallel-rank", "0")];
const SECOND: &[(&str, &str)] = &[("x-data-parallel-rank", "1")];

#[tokio::test(start_paused = true)]
async fn a_wedged_rank_stands_still_and_looks_healthy() {
    let (_engine, client) = start(two_ranks()).await;
    client.fault("wedge:rank=0,seconds=30").await;
    let began = Instant::now();
    let mut stuck = client
        .open("/v1/messages", FIRST, &ask_stream("hello"))
        .await;
    let other = client
        .post_with("/v1/messages", SECOND, &ask("hello"))
        .await;
    assert_eq!(other.status, 200);
    assert_eq!(client.get("/health").await.status, 200);
    let gauges = client.metric("num_requests_running", "").await;
    assert_eq!(gauges[&0], 0.0, "its gauges are frozen");
    let first = stuck.next().await.unwrap().unwrap();
    assert_eq!(first.name, "message_start");
    assert!(began.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_rank_wedged_for_ever_goes_on_when_faults_are_cleared() {
    let (_engine, client) = start(config()).await;
    let mut stream = client.open("/v1/messages", &[], &ask_stream(LONG)).await;
    stream.next().await.unwrap().unwrap();
    client.fault("wedge").await;
    while let Ok(event) = tokio::time::timeout(Duration::from_secs(60), stream.next()).await {
        assert!(event.unwrap().is_some());
    }
    let running = client.metric("num_requests_running", "").await;
    assert_eq!(running[&0], 1.0);
    let cleared = client.send(Method::DELETE, "/sim/fault", &[], "").await;
    assert_eq!(cleared.status(), 204);
    assert!(stream.next().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reset_breaks_a_stream_after_so_many_events() {
    let (_engine, client) = start(config()).await;
    client.fault("reset:events=3").await;
    let stream = client.open("/v1/messages", &[], &ask_stream("hello")).await;
    let (events, clean) = stream.rest().await;
    assert_eq!(events.len(), 3);
    assert!(!clean);
    let (_, clean) = client
        .open("/v1/messages", &[], &ask_stream("hello"))
        .await
        .rest()
        .await;
    assert!(clean, "only one request was to meet it");
    client.until("num_requests_running", 0.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_reset_replaces_a_whole_reply() {
    let (engine, client) = start(config()).await;
    engine.inject("reset".parse().unwrap()).unwrap();
    let mut connection = tokio::net::TcpStream::connect(engine.address())
        .await
        .unwrap();
    let body = ask("hello").to_string();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    tokio::io::AsyncWriteExt::write_all(&mut connection, request.as_bytes())
        .await
        .unwrap();
    let mut reply = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut connection, &mut reply);
    let error = within(read).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(reply, b"");
    assert_eq!(client.post("/v1/messages", &ask("hello")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_stall_pauses_a_stream() {
    let (_engine, client) = start(config()).await;
    client.fault("stall:events=2,seconds=40").await;
    let mut stream = client.open("/v1/messages", &[], &ask_stream("hello")).await;
    for _ in 0..2 {
        stream.next().await.unwrap().unwrap();
    }
    let began = Instant::now();
    stream.next().await.unwrap().unwrap();
    assert!(began.elapsed() >= Duration::from_secs(39));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reply_comes_late() {
    let (_engine, client) = start(config()).await;
    client.fault("slow:seconds=20,count=2").await;
    for stream in [true, false] {
        let mut body = ask("hello");
        body["stream"] = stream.into();
        let began = Instant::now();
        client.post("/v1/messages", &body).await;
        assert!(began.elapsed() >= Duration::from_secs(20));
    }
}

#[tokio::test(start_paused = true)]
async fn errors_meet_the_next_requests_of_a_rank() {
    let (_engine, client) = start(two_ranks()).await;
    client.fault("error:status=503,rank=1,count=2").await;
    let mut statuses = Vec::new();
    for rank in [FIRST, SECOND, SECOND, SECOND] {
        let reply = client.post_with("/v1/messages", rank, &ask("hello")).await;
        statuses.push(reply.status);
    }
    assert_eq!(statuses, [200, 503, 503, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_breaks_its_streams() {
    let (mut engine, client) = start(config()).await;
    let stream = client.open("/v1/messages", &[], &ask_stream(LONG)).await;
    client.fault("die:seconds=2").await;
    let (ended, (events, clean)) = tokio::join!(engine.ended(), stream.rest());
    assert_eq!(ended, Exit::Died);
    assert!(!events.is_empty() && !clean);
    assert!(
        tokio::net::TcpStream::connect(engine.address())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn when_a_rank_dies_the_others_streams_look_complete() {
    let (mut engine, client) = start(two_ranks()).await;
    let dead = client.open("/v1/messages", FIRST, &ask_stream(LONG)).await;
    let mut survivor = client.open("/v1/messages", SECOND, &ask_stream(LONG)).await;
    survivor.next().await.unwrap().unwrap();
    let began = Instant::now();
    client.fault("rank-death:rank=0").await;
    let (events, clean) = survivor.rest().await;
    assert!(clean);
    let [.., delta, stop] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert!(
        delta.data.contains(r#""delta":{"stop_reason":null}"#),
        "{delta:?}"
    );
    assert_eq!(stop.name, "message_stop");
    assert_eq!(client.get("/health").await.status, 200);
    let (ended, (_, clean)) = tokio::join!(engine.ended(), dead.rest());
    assert_eq!(ended, Exit::Died);
    assert!(!clean);
    assert!(began.elapsed() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_bad_fault_is_refused_in_words() {
    let (_engine, client) = start(config()).await;
    for (spec, word) in [
        ("explode", "no fault"),
        ("wedge:rank=9", "no rank 9"),
        ("stall:for=3", "no parameter"),
    ] {
        let response = client.send(Method::POST, "/sim/fault", &[], spec).await;
        assert_eq!(response.status(), 400);
        let body = http_body_util::BodyExt::collect(response.into_body());
        let body = body.await.unwrap().to_bytes();
        let text = std::str::from_utf8(&body).unwrap();
        assert!(text.contains(word), "{text}");
    }
}
