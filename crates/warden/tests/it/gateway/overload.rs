//! Past its limits the gateway refuses and stays responsive, and a slow reader holds back only
//! itself.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;
use warden::gateway::Limits;

use crate::support::{
    Client, Conn, Ended, Engine, MESSAGE, MESSAGES_EVENTS, Setup, Warden, get, messages_body, post,
    until,
};

const EVENT_BYTES: usize = 64 << 10;
/// 128 MiB, far more than all buffers between an engine and its client.
const EVENTS: usize = 2048;
/// What may lie between them: two sockets, of which Linux lets each grow to 6 MiB and 4 MiB at its
/// two ends, and less than 1 MiB of our own.
const BETWEEN_BYTES_MAX: usize = 24 << 20;

/// Streams [`EVENTS`] to those who ask on the path with a query, and a short reply to all others;
/// counts what it could send.
async fn long_winded(sent: Arc<AtomicUsize>) -> Engine {
    Engine::start(move |mut conn: Conn| {
        let sent = Arc::clone(&sent);
        async move {
            while let Some(request) = conn.request().await {
                conn.begin_stream().await;
                if request.head.line.contains("?long") {
                    let filler = "x".repeat(EVENT_BYTES - 40);
                    let event = format!("event: ping\ndata: {{\"filler\":\"{filler}\"}}\n\n");
                    for _ in 0..EVENTS {
                        conn.event(&event).await;
                        sent.fetch_add(event.len(), Ordering::SeqCst);
                    }
                }
                for event in MESSAGES_EVENTS {
                    conn.event(event).await;
                }
                conn.end_stream().await;
            }
        }
    })
    .await
}

/// Waits until the count has stood still for a while, and returns it.
async fn at_rest(count: &AtomicUsize) -> usize {
    loop {
        let before = count.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
        if before > 0 && before == count.load(Ordering::SeqCst) {
            return before;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_holds_back_its_engine_and_nobody_else() {
    let sent = Arc::new(AtomicUsize::new(0));
    let engine = long_winded(Arc::clone(&sent)).await;
    let warden = Warden::before(&[&engine]).await;
    let mut slow = warden.client().await;
    slow.send(post("/v1/messages?long", "", messages_body(true)))
        .await;
    slow.head().await;

    let taken = at_rest(&sent).await;
    assert!(
        taken < BETWEEN_BYTES_MAX,
        "{taken} bytes were taken from the engine for a client that reads none"
    );
    assert!(warden.gateway.buffered_bytes() < 1 << 20);

    let other = warden
        .client()
        .await
        .ask(post("/v1/messages", "", messages_body(true)))
        .await;
    assert_eq!(other.text(), MESSAGES_EVENTS.concat());
    assert_eq!(sent.load(Ordering::SeqCst), taken, "still held back");

    let mut bytes = 0;
    loop {
        let chunk = slow.chunk().await.expect("no end before the last chunk");
        if chunk.is_empty() {
            break;
        }
        bytes += chunk.len();
    }
    assert_eq!(
        bytes,
        sent.load(Ordering::SeqCst) + MESSAGES_EVENTS.concat().len()
    );
    let request = warden.settled().await;
    assert_eq!(request.end, Some(api::RequestEnd::Complete));
}

/// A crowd whose bodies do not fit into the allowance together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_is_shed_with_503_and_the_rest_is_served() {
    const CLIENTS: usize = 48;
    let engine = Engine::start(|mut conn: Conn| async move {
        while conn.request().await.is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            conn.send(crate::support::json_reply(MESSAGE)).await;
        }
    })
    .await;
    let mut setup = Setup::before(&[&engine]);
    setup.limits = Limits {
        buffered_bytes_max: 4 << 20,
        ..Limits::default()
    };
    let warden = Warden::start(setup).await;
    let address = warden.address;
    let filler = " ".repeat(1 << 20);
    let body = messages_body(false) + &filler;
    let mut crowd = JoinSet::new();
    for _ in 0..CLIENTS {
        let body = body.clone();
        crowd.spawn(async move {
            let mut client = Client::connect(address).await;
            let reply = client.ask(post("/v1/messages", "", body)).await;
            assert_eq!(reply.ended, Ended::Cleanly);
            if reply.status == 503 {
                assert!(reply.header("retry-after").is_some());
            }
            reply.status
        });
    }
    let mut statuses = BTreeMap::<u16, usize>::new();
    while let Some(status) = crowd.join_next().await {
        *statuses.entry(status.unwrap()).or_default() += 1;
        assert!(warden.gateway.buffered_bytes() <= 4 << 20);
        let health = warden.client().await.ask(get("/health")).await;
        assert_eq!(health.status, 200, "responsive all the while");
    }
    assert_eq!(statuses.values().sum::<usize>(), CLIENTS);
    assert!(
        statuses.keys().all(|status| [200, 503].contains(status)),
        "{statuses:?}"
    );
    assert!(statuses[&200] > 0 && statuses[&503] > 0, "{statuses:?}");
    until("all bytes to be given back", || {
        warden.gateway.buffered_bytes() == 0
    })
    .await;
    warden.settled().await;
    let counted = warden.requests().len();
    assert_eq!(counted, CLIENTS, "each has one outcome");
}
