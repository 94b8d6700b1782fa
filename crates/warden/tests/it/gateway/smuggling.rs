//! Two requests out of one, or bytes that two readers would read differently: nothing of that ever
//! reaches an engine.
//!
//! Three locks: hyper refuses what is ambiguous, a body is read whole before anything is sent on, and
//! what is sent on is framed anew, with a length of our own.

use crate::support::{Client, Engine, Warden, chat_body, get};

const JSON: &str = "{\"object\":\"x\"}";

/// What comes back for these bytes until the connection ends, and that no engine was asked.
async fn refused(head: &str, body: &str) -> String {
    let engine = Engine::answering_json(JSON).await;
    let warden = Warden::before(&[&engine]).await;
    let mut client = Client::connect(warden.address).await;
    client.send(format!("{head}\r\n\r\n{body}")).await;
    client.half_close().await;
    let reply = String::from_utf8_lossy(&client.rest().await).into_owned();
    assert_eq!(engine.received().len(), 0, "{head:?}");
    let (_, told) = reply.split_once("\r\n\r\n").unwrap();
    assert!(told.starts_with("{\"error\":{\"message\":"), "{reply:?}");
    reply
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

#[tokio::test]
async fn ambiguous_framings_are_refused() {
    let post = "POST /v1/chat/completions HTTP/1.1\r\nhost: w";
    let body = &chat_body(false);
    let length = body.len();
    let chunks = &chunked(body);
    for (headers, body) in [
        // Lengths that differ, or are none.
        (
            format!("content-length: {length}\r\ncontent-length: 1"),
            body,
        ),
        (format!("content-length: {length}, 1"), body),
        (format!("content-length: +{length}"), body),
        (format!("content-length: -{length}"), body),
        (format!("content-length: 0x{length:x}"), body),
        ("content-length: 99999999999999999999".to_owned(), body),
        ("content-length:".to_owned(), body),
        // Codings that are not chunked at last.
        ("transfer-encoding: identity".to_owned(), body),
        ("transfer-encoding: gzip".to_owned(), chunks),
        ("transfer-encoding: chunked, gzip".to_owned(), chunks),
        ("transfer-encoding: xchunked".to_owned(), chunks),
        (
            "transfer-encoding: chunked\r\ntransfer-encoding: identity".to_owned(),
            chunks,
        ),
        // Names and lines that two parsers read differently.
        (format!("content-length : {length}"), body),
        (format!("x-fold: a\r\n content-length: {length}"), body),
        (
            format!("x-fold: a\r\n\tb\r\ncontent-length: {length}"),
            body,
        ),
        (format!("x-bare: a\rcontent-length: {length}"), body),
        (format!("x-nul: a\0b\r\ncontent-length: {length}"), body),
        (format!("x y: 1\r\ncontent-length: {length}"), body),
        (format!(": 1\r\ncontent-length: {length}"), body),
        (format!("no colon\r\ncontent-length: {length}"), body),
    ] {
        let reply = refused(&format!("{post}\r\n{headers}"), body).await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{headers:?}: {reply:?}");
        assert_eq!(
            reply.matches("HTTP/1.1 ").count(),
            1,
            "{headers:?}: {reply:?}"
        );
    }
    // HTTP/1.0 has no chunks.
    let old = "POST /v1/chat/completions HTTP/1.0\r\nhost: w\r\ntransfer-encoding: chunked";
    let reply = refused(old, chunks).await;
    assert!(
        reply.starts_with("HTTP/1.1 400 ") || reply.starts_with("HTTP/1.0 400 "),
        "{reply:?}"
    );
}

#[tokio::test]
async fn request_lines_that_are_none_are_refused() {
    for line in [
        "POST  /v1/chat/completions HTTP/1.1",
        "POST /v1/chat/completions\tHTTP/1.1",
        "POST /v1/chat/completions HTTP/1.1 x",
        "POST /v1/chat completions HTTP/1.1",
        "POST /v1/\rchat HTTP/1.1",
        "POST /v1/chat/completions HTTP/2.0",
        "POST /v1/chat/completions HTTP/1.2",
        "PO\0ST /v1/chat/completions HTTP/1.1",
        "/v1/chat/completions",
    ] {
        let reply = refused(&format!("{line}\r\nhost: w\r\ncontent-length: 0"), "").await;
        assert!(reply.starts_with("HTTP/1.1 400 "), "{line:?}: {reply:?}");
    }
}

#[tokio::test]
async fn odd_chunks_are_refused() {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked";
    let body = chat_body(false);
    let length = body.len();
    for chunks in [
        format!("-{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("+{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("0x{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("fffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
        // Longer and shorter than they say.
        format!("{:x}\r\n{body}\r\n0\r\n\r\n", length - 1),
        format!("{:x}\r\n{body}\r\n0\r\n\r\n", length + 1),
        // An extension that never ends.
        format!("{length:x};{}\r\n{body}\r\n0\r\n\r\n", "x".repeat(100_000)),
        // Trailers that never end.
        format!(
            "{length:x}\r\n{body}\r\n0\r\n{}\r\n",
            "x: y\r\n".repeat(20_000)
        ),
        // No end at all.
        format!("{length:x}\r\n{body}\r\n"),
    ] {
        let reply = refused(head, &chunks).await;
        assert!(
            reply.starts_with("HTTP/1.1 400 "),
            "{:?}: {reply:?}",
            &chunks[..20]
        );
    }
}

/// Of two ways to tell a body's length the chunks count (RFC 9112, 6.3), the engine gets neither,
/// and the connection, on which a proxy before us may count otherwise, carries no other request.
#[tokio::test]
async fn a_length_beside_chunks_smuggles_nothing() {
    let body = chat_body(false);
    let chunks = chunked(&body);
    let both = format!("{chunks}{}", get("/v1/models"));
    for headers in [
        "content-length: 4\r\ntransfer-encoding: chunked".to_owned(),
        "transfer-encoding: chunked\r\ncontent-length: 4".to_owned(),
        format!(
            "transfer-encoding: chunked\r\ncontent-length: {}",
            both.len()
        ),
    ] {
        let engine = Engine::answering_json(JSON).await;
        let warden = Warden::before(&[&engine]).await;
        let mut client = warden.client().await;
        let post = "POST /v1/chat/completions HTTP/1.1\r\nhost: w";
        client
            .send(format!("{post}\r\n{headers}\r\n\r\n{both}"))
            .await;
        let replies = String::from_utf8_lossy(&client.rest().await).into_owned();
        assert_eq!(replies.matches("HTTP/1.1 ").count(), 1, "{replies:?}");
        let received = engine.only();
        assert_eq!(received.head.header("transfer-encoding"), None);
        assert_eq!(
            received.head.header("content-length"),
            Some(&*body.len().to_string())
        );
        assert_eq!(received.body, body.as_bytes());
    }
}

/// What a client writes into headers and into the path stays what it is on the way to the engine.
#[tokio::test]
async fn nothing_is_injected_into_the_engines_head() {
    let engine = Engine::answering_json(JSON).await;
    let warden = Warden::before(&[&engine]).await;
    let body = chat_body(false);
    let mut client = warden.client().await;
    let request = format!(
        "POST /v1/chat/completions?a=%0d%0ax-evil:%201 HTTP/1.1\r\nhost: w\r\nx-a: b%0d%0ax-evil: 1\r\n\
         x-data-parallel-rank: 0\r\nconnection: x-b\r\nx-b: hop\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(client.ask(request).await.status, 200);
    let received = engine.only();
    assert_eq!(
        received.head.line,
        "POST /v1/chat/completions?a=%0d%0ax-evil:%201 HTTP/1.1"
    );
    for name in ["x-evil", "x-b", "connection"] {
        assert_eq!(received.head.header(name), None, "{name}");
    }
    assert_eq!(received.head.header("x-a"), Some("b%0d%0ax-evil: 1"));
}
