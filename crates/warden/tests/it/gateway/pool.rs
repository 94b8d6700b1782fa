//! Connections to engines lie idle for less time than vLLM keeps them.

use std::{sync::Arc, time::Duration};

use http::Request;
use warden::upstream::{Link, Payload, Pool, PoolSettings, Target};

use crate::support::{Engine, soon, until};

/// vLLM's server closes idle connections after this long.
const VLLM_KEEPS: Duration = Duration::from_secs(5);

/// Sends a request and reads the reply to its end, which gives the connection back.
async fn carry(link: Box<Link>, target: &Arc<Target>) {
    let mut request = Request::new(Payload::default());
    let host = target.authority().clone();
    request.headers_mut().insert(http::header::HOST, host);
    let reply = soon("a reply", link.send(target, request)).await;
    let mut body = reply.unwrap().into_body();
    while !body.is_end() {
        let next = std::future::poll_fn(|cx| body.poll_data(cx));
        soon("the reply's body", next).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_used_again_while_it_is_young() {
    let engine = Engine::answering_json("{}").await;
    let pool = Pool::new(PoolSettings::default());
    let target = pool.target(&engine.url()).unwrap();
    assert!(target.reuse().is_none());
    let link = target.connect().await.unwrap();
    assert!(!link.reused());
    carry(link, &target).await;
    let link = target.reuse().expect("it was given back");
    assert!(link.reused());
    carry(link, &target).await;
    assert_eq!(engine.connections(), 1);
}

#[tokio::test]
async fn an_old_one_is_closed_before_the_engine_does_it() {
    assert!(PoolSettings::default().idle_max < VLLM_KEEPS);
    let engine = Engine::answering_json("{}").await;
    let pool = Pool::new(PoolSettings {
        idle_max: Duration::ZERO,
        ..PoolSettings::default()
    });
    let target = pool.target(&engine.url()).unwrap();
    carry(target.connect().await.unwrap(), &target).await;
    assert!(target.reuse().is_none(), "older than the bound");
    carry(target.connect().await.unwrap(), &target).await;
    until("the sweep to close it", || engine.open_connections() == 0).await;
}

#[tokio::test]
async fn no_more_lie_idle_than_the_bound() {
    let engine = Engine::answering_json("{}").await;
    let pool = Pool::new(PoolSettings {
        idle_per_target_max: 1,
        ..PoolSettings::default()
    });
    let target = pool.target(&engine.url()).unwrap();
    let links = [
        target.connect().await.unwrap(),
        target.connect().await.unwrap(),
    ];
    for link in links {
        carry(link, &target).await;
    }
    assert!(target.reuse().is_some());
    assert!(target.reuse().is_none());
}
