//! HTTP/2 as no library's client speaks it: frames by hand, against each bound of a connection.
//!
//! Whatever one connection does, the others are served, and nothing of it is left once it is gone.

use std::time::Duration;

use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{client::TlsStream, rustls::pki_types::CertificateDer};
use warden::gateway::Limits;

use super::tls::{certify, connect, start};
use crate::support::{Conn, Engine, MESSAGE, MESSAGES_EVENTS, Warden, messages_body, soon, until};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];
const CANCEL: [u8; 4] = [0, 0, 0, 8];
/// POST https, and a path and an authority as literals.
const POST_MESSAGES: &[u8] = b"\x83\x87\x04\x0c/v1/messages\x01\x09localhost";
/// GET https /health.
const GET_HEALTH: &[u8] = b"\x82\x87\x04\x07/health\x01\x09localhost";

/// A frame with its header.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A warden over TLS before one engine.
struct Scene {
    warden: Warden,
    cert: CertificateDer<'static>,
    engine: Engine,
    _directory: TempDir,
}

impl Scene {
    async fn before(engine: Engine, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (files, cert) = certify(directory.path());
        let (warden, _) = start(&engine, files, limits).await;
        Self {
            warden,
            cert,
            engine,
            _directory: directory,
        }
    }

    async fn connect(&self) -> Frames {
        Frames(connect(&self.warden, &self.cert, b"h2").await.unwrap())
    }

    /// A connection that has said its first words, with these settings.
    async fn greet(&self, settings: &[(u16, u32)]) -> Frames {
        let mut frames = self.connect().await;
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        sent.extend(frame(SETTINGS, 0, 0, &settings));
        sent.extend(frame(SETTINGS, ACK, 0, &[]));
        frames.send(&sent).await;
        frames
    }

    /// Another connection is served, and nothing is in flight in the end.
    async fn others_are_served(&self) {
        let stream = connect(&self.warden, &self.cert, b"h2").await.unwrap();
        let io = TokioIo::new(stream);
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("https://localhost/health").body(Empty::<bytes::Bytes>::new());
        let reply = soon("health", sender.send_request(request.unwrap()))
            .await
            .unwrap();
        assert_eq!(
            (reply.status().as_u16(), reply.version()),
            (200, Version::HTTP_2)
        );
        soon("its body", reply.into_body().collect()).await.unwrap();
    }

    async fn nothing_is_left(&self) {
        let gateway = &self.warden.gateway;
        until("nothing to be left", || {
            gateway.in_flight() == 0 && gateway.buffered_bytes() == 0
        })
        .await;
    }
}

/// The client's end.
struct Frames(TlsStream<TcpStream>);

impl Frames {
    async fn send(&mut self, bytes: &[u8]) {
        soon("room to send", self.0.write_all(bytes)).await.unwrap();
    }

    /// Sends until the warden takes no more; whether it took all.
    async fn flood(&mut self, bytes: &[u8]) -> bool {
        let written = self.0.write_all(bytes);
        matches!(
            tokio::time::timeout(Duration::from_millis(500), written).await,
            Ok(Ok(()))
        )
    }

    /// Type, stream and payload of the next frame; `None` at the end.
    async fn next(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        soon("a frame", self.0.read_exact(&mut head)).await.ok()?;
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0_u32, |sum, &byte| (sum << 8) | u32::from(byte))
        };
        let mut payload = vec![0; number(&head[..3]) as usize];
        soon("its payload", self.0.read_exact(&mut payload))
            .await
            .ok()?;
        Some((head[3], number(&head[5..]), payload))
    }

    /// The first frame of a kind.
    async fn first(&mut self, kind: u8) -> (u32, Vec<u8>) {
        loop {
            let (next, stream, payload) = self.next().await.expect("a frame, not the end");
            if next == kind && !(kind == DATA && payload.is_empty()) {
                return (stream, payload);
            }
        }
    }

    /// Reads on until the warden ends the connection; what its last GOAWAY gave as the reason.
    async fn reason_of_the_end(&mut self) -> Option<u32> {
        let mut reason = None;
        while let Some((kind, _, payload)) = self.next().await {
            if kind == GOAWAY {
                reason = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        reason
    }
}

/// The library's client keeps to the bound by itself; this one does not.
#[tokio::test]
async fn streams_past_the_bound_of_a_connection_are_refused_and_the_others_go_on() {
    let limits = Limits {
        streams_per_connection_max: 2,
        ..Limits::default()
    };
    let scene = Scene::before(Engine::answering_json(MESSAGE).await, limits).await;
    let mut frames = scene.greet(&[]).await;
    for number in [1, 3, 5] {
        let head = frame(HEADERS, END_HEADERS, number, POST_MESSAGES);
        frames.send(&head).await;
    }
    let refused = frames.first(RST_STREAM).await;
    assert_eq!(refused, (5, REFUSED_STREAM.to_vec()));

    let body = frame(DATA, END_STREAM, 1, messages_body(false).as_bytes());
    frames.send(&body).await;
    let (number, payload) = frames.first(DATA).await;
    assert_eq!((number, &*payload), (1, MESSAGE.as_bytes()));
    drop(frames);
    scene.nothing_is_left().await;
}

/// A header as a literal that no table takes up (RFC 7541, 6.2.2).
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut field = vec![0, name.len() as u8];
    field.extend(name);
    field.push(value.len() as u8);
    field.extend(value);
    field
}

/// What HTTP/1.1 would read as two requests, or as other headers, never gets there: the engine is not
/// asked, and the connection's other streams go on.
#[tokio::test]
async fn nothing_is_smuggled_on_the_way_from_http_2_to_http_1() {
    let scene = Scene::before(Engine::answering_json(MESSAGE).await, Limits::default()).await;
    let body = messages_body(false);
    let longer = (body.len() + 1).to_string();
    let path = |path: &[u8]| {
        [
            &b"\x83\x87"[..],
            &literal(b":path", path),
            b"\x01\x09localhost",
        ]
        .concat()
    };
    let with = |name: &[u8], value: &[u8]| [POST_MESSAGES, &literal(name, value)].concat();
    for fields in [
        with(b"content-length", b"1"),
        with(b"content-length", longer.as_bytes()),
        with(b"content-length", b"+1"),
        with(b"transfer-encoding", b"chunked"),
        with(b"connection", b"x-hop"),
        with(b"x-a", b"b\r\nx-evil: 1"),
        with(b"x-a", b"b\nx-evil: 1"),
        with(b"x-a", b"b\0"),
        with(b"x-a: b\r\nx-evil", b"1"),
        with(b"X-Upper", b"1"),
        with(b"x a", b"1"),
        path(b"/v1/messages HTTP/1.1\r\nx-evil: 1"),
        path(b"/v1/mess\nages"),
    ] {
        let mut frames = scene.greet(&[]).await;
        let head = frame(HEADERS, END_HEADERS, 1, &fields);
        let data = frame(DATA, END_STREAM, 1, body.as_bytes());
        // The warden may have ended the connection in between.
        frames.flood(&[head, data].concat()).await;
        let told = String::from_utf8_lossy(&fields).into_owned();
        let refused = loop {
            match frames.next().await {
                Some((RST_STREAM, 1, _) | (GOAWAY, ..)) | None => break true,
                Some((HEADERS, 1, block)) => break block[0] != 0x88,
                Some(_) => {}
            }
        };
        assert!(refused, "{told:?} was answered as if it were well");
        assert_eq!(scene.engine.received().len(), 0, "{told:?}");
    }
    // The same by hand, and nothing odd in it.
    for (asked, fields) in [(1, with(b"x-a", b"b")), (2, path(b"/v1/messages"))] {
        let mut frames = scene.greet(&[]).await;
        let head = frame(HEADERS, END_HEADERS, 1, &fields);
        let data = frame(DATA, END_STREAM, 1, body.as_bytes());
        frames.send(&[head, data].concat()).await;
        let (_, payload) = frames.first(DATA).await;
        assert_eq!(payload, MESSAGE.as_bytes());
        assert_eq!(scene.engine.received().len(), asked);
    }
    scene.others_are_served().await;
    scene.nothing_is_left().await;
}

/// Streams that are opened and cancelled at once, as fast as the wire takes them (CVE-2023-44487).
#[tokio::test]
async fn a_rapid_reset_ends_its_connection() {
    let scene = Scene::before(Engine::answering_json(MESSAGE).await, Limits::default()).await;
    let mut frames = scene.greet(&[]).await;
    let mut sent = Vec::new();
    for number in (1..20_000).step_by(2) {
        sent.extend(frame(HEADERS, END_HEADERS, number, POST_MESSAGES));
        sent.extend(frame(RST_STREAM, 0, number, &CANCEL));
    }
    frames.flood(&sent).await;
    assert_eq!(
        frames.reason_of_the_end().await,
        Some(11),
        "enhance your calm"
    );
    scene.others_are_served().await;
    scene.nothing_is_left().await;
    assert_eq!(scene.engine.received().len(), 0);
}

/// Headers that never end (CVE-2024-27316).
#[tokio::test]
async fn a_flood_of_continuations_ends_its_connection() {
    let scene = Scene::before(Engine::answering_json(MESSAGE).await, Limits::default()).await;
    let mut frames = scene.greet(&[]).await;
    let mut sent = frame(HEADERS, 0, 1, POST_MESSAGES);
    let line = [&b"\x00\x01x\x7f\xe1\x7a"[..], &[b'a'; 15_000]].concat();
    for _ in 0..100 {
        sent.extend(frame(CONTINUATION, 0, 1, &line));
    }
    frames.flood(&sent).await;
    assert!(frames.reason_of_the_end().await.is_some());
    scene.others_are_served().await;
    scene.nothing_is_left().await;
}

/// Questions by the hundred thousand from a client that reads no answer: the warden stops reading.
#[tokio::test]
async fn floods_of_pings_and_settings_wait_for_their_own_answers() {
    let scene = Scene::before(Engine::answering_json(MESSAGE).await, Limits::default()).await;
    let ping = frame(PING, 0, 0, &[7; 8]);
    let settings = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]);
    for flood in [ping, settings] {
        let mut frames = scene.greet(&[]).await;
        // More than the buffers of both sockets.
        let took_all = frames.flood(&flood.repeat(2_000_000)).await;
        assert!(!took_all, "it was read on without an answer being taken");
        scene.others_are_served().await;
        drop(frames);
        scene.nothing_is_left().await;
    }
}

/// A table of 4 GiB is offered for the headers of replies; ours stays small, whatever is offered.
#[tokio::test]
async fn a_huge_header_table_is_not_filled() {
    let scene = Scene::before(Engine::answering_json(MESSAGE).await, Limits::default()).await;
    let mut frames = scene.greet(&[(1, u32::MAX)]).await;
    for number in (1..400).step_by(2) {
        let head = frame(HEADERS, END_HEADERS | END_STREAM, number, GET_HEALTH);
        frames.send(&head).await;
        let (stream, block) = frames.first(HEADERS).await;
        assert_eq!(stream, number);
        // A larger table would be announced at the head of a block (RFC 7541, 6.3): 001xxxxx.
        if block[0] & 0xe0 == 0x20 {
            let announced = hpack_integer(&block);
            assert!(announced <= 64 << 10, "a table of {announced} bytes");
        }
    }
    drop(frames);
    scene.nothing_is_left().await;
}

/// An integer with a prefix of five bits (RFC 7541, 5.1).
fn hpack_integer(bytes: &[u8]) -> u64 {
    let mut value = u64::from(bytes[0] & 0x1f);
    if value < 0x1f {
        return value;
    }
    for (shift, byte) in (0..).step_by(7).zip(&bytes[1..]) {
        value += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The socket stays quick, but the window is shut: the engine is left all the same.
#[tokio::test]
async fn a_reply_that_is_not_taken_is_given_up() {
    let engine = Engine::start(|mut conn: Conn| async move {
        if conn.request().await.is_some() {
            conn.begin_stream().await;
            loop {
                conn.event(MESSAGES_EVENTS[1]).await;
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    let limits = Limits {
        write_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let scene = Scene::before(engine, limits).await;
    let mut frames = scene.greet(&[(4, 0)]).await;
    for number in [1, 3] {
        let head = frame(HEADERS, END_HEADERS, number, POST_MESSAGES);
        let body = frame(DATA, END_STREAM, number, messages_body(true).as_bytes());
        frames.send(&[head, body].concat()).await;
    }
    frames.first(HEADERS).await;
    frames.first(HEADERS).await;
    let request = scene.warden.settled().await;
    assert_eq!(request.end, Some(api::RequestEnd::ClientGone));
    // The connection is not at fault for what one of its streams does.
    let health = frame(HEADERS, END_HEADERS | END_STREAM, 5, GET_HEALTH);
    frames.send(&health).await;
    while frames.first(HEADERS).await.0 != 5 {}
}
