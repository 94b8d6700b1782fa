//! Hundreds of requests that end in every way there is, at the same time: afterwards nothing is
//! counted in flight, held, or connected.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;

use crate::support::{
    Client, Conn, Engine, MESSAGE, MESSAGES_EVENTS, NULL_STOP_EVENT, Warden, json_reply,
    messages_body, post,
};

const CLIENTS: u64 = 12;
const TURNS: u64 = 25;

/// A sequence that looks random and is the same in every run (splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An engine that answers each request in another way.
async fn fickle() -> Engine {
    let count = Arc::new(AtomicU64::new(0));
    Engine::start(move |mut conn: Conn| {
        let count = Arc::clone(&count);
        async move {
            while conn.request().await.is_some() {
                match mixed(count.fetch_add(1, Ordering::Relaxed)) % 8 {
                    0 => return conn.reset(),
                    1 => {
                        conn.begin_stream().await;
                        return conn.reset();
                    }
                    2 => {
                        conn.begin_stream().await;
                        conn.event(MESSAGES_EVENTS[0]).await;
                        return conn.reset();
                    }
                    3 => {
                        conn.begin_stream().await;
                        conn.event(MESSAGES_EVENTS[0]).await;
                        conn.event(NULL_STOP_EVENT).await;
                        conn.end_stream().await;
                    }
                    4 => {
                        conn.send("HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n")
                            .await;
                    }
                    5 => conn.send(json_reply(MESSAGE)).await,
                    _ => {
                        conn.begin_stream().await;
                        for event in MESSAGES_EVENTS {
                            conn.event(event).await;
                        }
                        conn.end_stream().await;
                    }
                }
            }
        }
    })
    .await
}

/// A client that reads its replies, or leaves at some point.
async fn client(address: std::net::SocketAddr, number: u64) {
    for turn in 0..TURNS {
        let draw = mixed(number * TURNS + turn + 1_000_000);
        let mut client = Client::connect(address).await;
        let headers = format!("x-claude-code-session-id: s{number}\r\n");
        let request = post("/v1/messages", &headers, messages_body(true));
        match draw % 4 {
            0 => client.send(&request[..request.len() / 2]).await,
            1 => client.send(&request).await,
            2 => {
                client.send(&request).await;
                client.head().await;
            }
            _ => {
                client.ask(&request).await;
            }
        }
        if draw.is_multiple_of(3) {
            tokio::time::sleep(Duration::from_micros(draw % 997)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_leaks_however_requests_end() {
    let engines = [fickle().await, fickle().await, fickle().await];
    let warden = Warden::before(&[&engines[0], &engines[1], &engines[2]]).await;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(warden.address, number));
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    warden.settled().await;
    let snapshot = warden.fleet.models[0]
        .router
        .lock()
        .snapshot(warden::clock::now());
    assert!(snapshot.replicas.iter().all(|view| view.in_flight == 0));
    assert!(
        warden
            .requests()
            .iter()
            .all(|request| request.end.is_some()),
        "every request has an end"
    );
}
