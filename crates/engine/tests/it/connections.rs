use std::time::Duration;

use engine::Engine;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use crate::{
    config,
    http::{ask, ask_stream, within},
    start,
};

/// Sends a request on a connection of its own.
async fn raw(engine: &Engine, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(engine.address()).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

const LONG: &str = "[[script: write 90000]]";

#[tokio::test(start_paused = true)]
async fn headers_come_at_once_and_events_with_the_first_token() {
    let mut one = config();
    one.max_num_seqs = Some(1);
    let (_engine, client) = start(one).await;
    let running = client.open("/v1/messages", &[], &ask_stream(LONG)).await;
    client.until("num_requests_running", 1.0).await;
    // Its headers are there (or this would not return), though it waits.
    let mut queued = client.open("/v1/messages", &[], &ask_stream("hello")).await;
    client.until("num_requests_waiting", 1.0).await;
    let early = tokio::time::timeout(Duration::from_secs(1), queued.next()).await;
    assert!(early.is_err(), "an event of a request that waits");
    drop(running);
    let first = queued.next().await.unwrap().unwrap();
    assert_eq!(first.name, "message_start");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_aborts_its_request_within_milliseconds() {
    for stream in [true, false] {
        let (engine, client) = start(config()).await;
        let mut body = ask(LONG);
        body["stream"] = stream.into();
        let connection = raw(&engine, &body.to_string()).await;
        client.until("num_requests_running", 1.0).await;
        let left = Instant::now();
        drop(connection);
        client.until("num_requests_running", 0.0).await;
        assert!(left.elapsed() < Duration::from_millis(100));
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_request_is_aborted_too() {
    let mut one = config();
    one.max_num_seqs = Some(1);
    let (engine, client) = start(one).await;
    let _running = client.open("/v1/messages", &[], &ask_stream(LONG)).await;
    client.until("num_requests_running", 1.0).await;
    let queued = raw(&engine, &ask_stream("hello").to_string()).await;
    client.until("num_requests_waiting", 1.0).await;
    drop(queued);
    client.until("num_requests_waiting", 0.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_half_closed_connection_counts_as_left() {
    let (engine, client) = start(config()).await;
    let mut connection = raw(&engine, &ask_stream(LONG).to_string()).await;
    client.until("num_requests_running", 1.0).await;
    connection.shutdown().await.unwrap();
    client.until("num_requests_running", 0.0).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_five_seconds() {
    let (engine, _client) = start(config()).await;
    let mut body = ask("hello");
    body["max_tokens"] = 1.into();
    let mut connection = raw(&engine, &body.to_string()).await;
    let mut reply = Vec::new();
    while !reply.ends_with(b"}") {
        let mut piece = [0; 4096];
        let count = within(connection.read(&mut piece)).await.unwrap();
        assert!(count > 0, "closed before the reply");
        reply.extend_from_slice(&piece[..count]);
    }
    let idle = Instant::now();
    let mut rest = Vec::new();
    within(connection.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"", "closed without a word");
    let closed = idle.elapsed();
    assert!(
        (4900..5500).contains(&closed.as_millis()),
        "closed after {closed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn steps_take_the_time_that_profile_and_speed_say() {
    let mut took = Vec::new();
    for speed in [1.0, 10.0, 0.0] {
        let mut config = config();
        config.speed = speed;
        let (_engine, client) = start(config).await;
        let began = Instant::now();
        client
            .post("/v1/messages", &ask("[[script: write 999]]"))
            .await;
        took.push(began.elapsed().as_secs_f64());
    }
    // 1,000 steps of 2 ms overhead and 10 ms to read the weights.
    assert!((11.9..13.0).contains(&took[0]), "{took:?}");
    assert!((1.19..1.3).contains(&took[1]), "{took:?}");
    assert!(took[2] < 0.1, "{took:?}");
}
