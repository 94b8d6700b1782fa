//! A client that leaves takes its engine's request with it, at once.

use std::sync::Arc;

use api::RequestEnd;
use tokio::sync::Notify;

use crate::support::{Conn, Engine, MESSAGES_EVENTS, Warden, messages_body, post, soon};

/// An engine that says so many events, then says when the warden has closed its connection.
async fn waiting(events: usize, head: bool) -> (Engine, Arc<Notify>, Arc<Notify>) {
    let (asked, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell_asked, tell_closed) = (Arc::clone(&asked), Arc::clone(&closed));
    let engine = Engine::start(move |mut conn: Conn| {
        let (asked, closed) = (Arc::clone(&tell_asked), Arc::clone(&tell_closed));
        async move {
            if conn.request().await.is_some() {
                if head {
                    conn.begin_stream().await;
                }
                for event in &MESSAGES_EVENTS[..events] {
                    conn.event(event).await;
                }
                asked.notify_one();
                conn.closed().await;
                closed.notify_one();
            }
        }
    })
    .await;
    (engine, asked, closed)
}

async fn assert_left(warden: &Warden) {
    let request = warden.settled().await;
    assert_eq!(request.status, Some(499));
    assert_eq!(request.end, Some(RequestEnd::ClientGone));
}

#[tokio::test]
async fn before_the_head_and_before_the_first_byte() {
    for head in [false, true] {
        let (engine, asked, closed) = waiting(0, head).await;
        let warden = Warden::before(&[&engine]).await;
        let mut client = warden.client().await;
        client
            .send(post("/v1/messages", "", messages_body(true)))
            .await;
        soon("the engine to be asked", asked.notified()).await;
        drop(client);
        soon("the engine to be left", closed.notified()).await;
        assert_left(&warden).await;
    }
}

#[tokio::test]
async fn after_the_first_byte() {
    let (engine, _, closed) = waiting(2, true).await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    client
        .send(post("/v1/messages", "", messages_body(true)))
        .await;
    client.head().await;
    client.chunk().await.unwrap();
    drop(client);
    soon("the engine to be left", closed.notified()).await;
    assert_left(&warden).await;
}

#[tokio::test]
async fn while_a_whole_reply_is_awaited() {
    let (engine, asked, closed) = waiting(0, false).await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    client
        .send(post("/v1/messages", "", messages_body(false)))
        .await;
    soon("the engine to be asked", asked.notified()).await;
    client.half_close().await;
    soon("the engine to be left", closed.notified()).await;
    assert_left(&warden).await;
}

#[tokio::test]
async fn while_the_body_is_sent() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    client
        .send("POST /v1/messages HTTP/1.1\r\nhost: w\r\ncontent-length: 1000\r\n\r\n{\"model\":")
        .await;
    crate::support::until("the body to arrive", || warden.gateway.buffered_bytes() > 0).await;
    drop(client);
    assert_left(&warden).await;
    assert_eq!(engine.received().len(), 0);
}
