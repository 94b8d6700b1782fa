//! The simulated engine over real sockets, one module per behaviour that clients and gateways see.
//!
//! Time is virtual (tokio's paused clock moves when nothing else can happen), so steps, faults and
//! time-outs take their full length without anybody waiting for it.

// Clippy takes only the test functions themselves for tests; metrics are whole numbers in floats.
#![allow(clippy::unwrap_used, clippy::float_cmp)]

mod cache;
mod chat;
mod completions;
mod connections;
mod errors;
mod faults;
mod http;
mod messages;
mod metrics;
mod operations;
mod ranks;
mod responses;

use engine::{Config, Engine};
use sim::profile::Profile;

/// Settings of most tests: one rank, an API server in front, the demo's card.
fn config() -> Config {
    Config {
        api_server_count: Some(1),
        ..Config::new(Profile::named("demo").unwrap())
    }
}

async fn start(config: Config) -> (Engine, http::Client) {
    let engine = Engine::start(config).await.unwrap();
    let client = http::Client::new(&engine);
    (engine, client)
}
