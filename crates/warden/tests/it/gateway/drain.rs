//! A shutdown lets finish what is in flight, within its bound.

use std::{sync::Arc, time::Duration};

use api::RequestEnd;
use bytes::Bytes;
use http_body_util::StreamBody;
use tokio::{net::TcpStream, sync::Notify};
use tokio_stream::StreamExt;
use warden::gateway::{Drained, Fallback};

use crate::support::{
    Client, Conn, Ended, Engine, MESSAGES_EVENTS, Setup, Warden, get, messages_body, post, soon,
};

/// An engine that sends its first event at once and the others when told.
async fn paused() -> (Engine, Arc<Notify>) {
    let go_on = Arc::new(Notify::new());
    let told = Arc::clone(&go_on);
    let engine = Engine::start(move |mut conn: Conn| {
        let told = Arc::clone(&told);
        async move {
            while conn.request().await.is_some() {
                conn.begin_stream().await;
                conn.event(MESSAGES_EVENTS[0]).await;
                told.notified().await;
                for event in &MESSAGES_EVENTS[1..] {
                    conn.event(event).await;
                }
                conn.end_stream().await;
            }
        }
    })
    .await;
    (engine, go_on)
}

async fn begin(warden: &Warden) -> Client {
    let mut client = warden.client().await;
    client
        .send(post("/v1/messages", "", messages_body(true)))
        .await;
    client.head().await;
    client.chunk().await.unwrap();
    client
}

async fn rest(client: &mut Client) -> Ended {
    loop {
        match client.chunk().await {
            Some(chunk) if chunk.is_empty() => return Ended::Cleanly,
            Some(_) => {}
            None => return Ended::Broken,
        }
    }
}

async fn refuses(warden: &Warden) {
    let refused = async {
        while TcpStream::connect(warden.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon("new connections to be refused", refused).await;
}

#[tokio::test]
async fn what_is_in_flight_finishes() {
    let (engine, go_on) = paused().await;
    let mut warden = Warden::before(&[&engine]).await;
    let mut idle = warden.client().await;
    assert_eq!(idle.ask(get("/health")).await.status, 200);
    let mut client = begin(&warden).await;
    warden.handle.drain();
    refuses(&warden).await;
    idle.closed().await;
    go_on.notify_one();
    assert_eq!(rest(&mut client).await, Ended::Cleanly);
    assert_eq!(warden.ended().await, Drained { cut_off: 0 });
    assert_eq!(warden.settled().await.end, Some(RequestEnd::Complete));
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_cut_off() {
    let (engine, _go_on) = paused().await;
    let mut setup = Setup::before(&[&engine]);
    setup.limits.drain_timeout = Duration::from_millis(100);
    let mut warden = Warden::start(setup).await;
    let mut client = begin(&warden).await;
    warden.handle.drain();
    assert_eq!(rest(&mut client).await, Ended::Broken);
    assert_eq!(warden.ended().await, Drained { cut_off: 1 });
    assert_eq!(warden.settled().await.end, Some(RequestEnd::Shutdown));
}

#[tokio::test]
async fn a_second_word_ends_it_at_once() {
    let (engine, _go_on) = paused().await;
    let mut warden = Warden::before(&[&engine]).await;
    let mut client = begin(&warden).await;
    warden.handle.drain();
    refuses(&warden).await;
    warden.handle.abort();
    assert_eq!(rest(&mut client).await, Ended::Broken);
    assert_eq!(warden.ended().await, Drained { cut_off: 1 });
    assert_eq!(warden.settled().await.end, Some(RequestEnd::Shutdown));
}

/// A page that listens to events never ends by itself.
#[tokio::test]
async fn an_open_page_does_not_hold_it_up() {
    let engine = Engine::answering_json("{}").await;
    let mut setup = Setup::before(&[&engine]);
    setup.fallback = Fallback::new(tower::service_fn(|_| async {
        let first = http_body::Frame::data(Bytes::from_static(b"data: 1\n\n"));
        let events = tokio_stream::once(Ok::<_, std::convert::Infallible>(first))
            .chain(tokio_stream::pending());
        Ok(http::Response::new(StreamBody::new(events)))
    }));
    let mut warden = Warden::start(setup).await;
    let mut page = warden.client().await;
    page.send(get("/api/v1/events")).await;
    page.head().await;
    page.chunk().await.unwrap();
    warden.handle.drain();
    assert_eq!(warden.ended().await, Drained { cut_off: 0 });
}
