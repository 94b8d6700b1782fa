//! Heads that no HTTP parser takes: told in the shape of the API that was called, and nothing else on
//! a connection is ever taken for them.

use super::bad_input::{Shape, assert_error};
use crate::support::{Client, Engine, Warden, chat_body, get, post};

const NO_COLON: &str = "HTTP/1.1\r\nhost: w\r\nno colon\r\n\r\n";
const SAYS: &str = "break the rules of HTTP";

#[tokio::test]
async fn a_bad_head_is_told_in_the_called_apis_shape() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let filler = "x-filler: 0123456789\r\n".repeat(200);
    let long = format!("x-long: {}\r\n", "x".repeat(64 << 10));
    let over = |lines| format!("HTTP/1.1\r\nhost: w\r\n{lines}\r\n");
    for (path, shape) in [
        ("/v1/messages", Shape::Messages),
        ("/v1/messages/count_tokens?beta=true", Shape::Messages),
        ("/v1/chat/completions", Shape::OpenAi),
        ("/nowhere", Shape::OpenAi),
    ] {
        for (rest, status, says) in [
            (NO_COLON.to_owned(), 400, SAYS),
            (over(&filler), 431, "65536 bytes or more than 100 lines"),
            (over(&long), 431, "65536 bytes or more than 100 lines"),
        ] {
            let mut client = warden.client().await;
            let reply = client.ask(format!("POST {path} {rest}")).await;
            assert_error(&reply, status, shape, says);
            assert_eq!(reply.header("connection"), Some("close"));
            assert_eq!(reply.header("x-should-retry"), Some("false"));
            assert!(reply.header("date").is_some());
            client.closed().await;
        }
    }
    assert_eq!(engine.received().len(), 0);
}

#[tokio::test]
async fn a_later_request_of_a_connection_is_told_as_well() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    let body = chat_body(false);
    for request in [
        get("/health").into_bytes(),
        post("/v1/chat/completions", "", &body),
        get("/v1/models").into_bytes(),
    ] {
        assert_eq!(client.ask(request).await.status, 200);
    }
    let reply = client.ask(format!("POST /v1/messages {NO_COLON}")).await;
    assert_error(&reply, 400, Shape::Messages, SAYS);
    client.closed().await;
}

/// Whoever reads the answer only after it has sent everything finds it, not a reset.
#[tokio::test]
async fn what_is_still_on_its_way_does_not_cost_the_answer() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    let body = "x".repeat(512 << 10);
    let reply = client
        .ask(format!("POST /v1/chat/completions {NO_COLON}{body}"))
        .await;
    assert_error(&reply, 400, Shape::OpenAi, SAYS);
}

/// Behind a request whose reply has not left, the connection ends with an answer of some kind; that
/// reply is what it would have been.
#[tokio::test]
async fn garbage_behind_a_request_leaves_its_reply_alone() {
    let engine = Engine::answering_json("{\"object\":\"x\"}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    let mut bytes = post("/v1/chat/completions", "", chat_body(false));
    bytes.extend_from_slice(b"nonsense\r\n\r\n");
    let reply = client.ask(bytes).await;
    assert_eq!((reply.status, reply.text()), (200, "{\"object\":\"x\"}"));
    let rest = String::from_utf8(client.rest().await).unwrap();
    assert!(rest.starts_with("HTTP/1.1 400 "), "{rest}");
    assert_eq!(rest.matches("HTTP/1.1 ").count(), 1, "{rest}");
}

/// A reply that looks like the parser's own answer is still a reply.
#[tokio::test]
async fn a_reply_that_imitates_it_passes_byte_for_byte() {
    let fake = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\
                date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n";
    let engine = Engine::answering_json(fake).await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = warden.client().await;
    for _ in 0..3 {
        let request = post("/v1/embeddings", "", r#"{"model":"demo","input":"x"}"#);
        let reply = client.ask(request).await;
        assert_eq!((reply.status, reply.text()), (200, fake));
    }
}

#[tokio::test]
async fn head_gets_no_body() {
    let engine = Engine::answering_json("{}").await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = Client::connect(warden.address).await;
    client.send(format!("HEAD / {NO_COLON}")).await;
    let text = String::from_utf8(client.rest().await).unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert!(text.ends_with("\r\n\r\n"), "{text}");
}
