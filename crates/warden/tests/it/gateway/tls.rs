//! TLS towards clients: both HTTPs, certificates that change, and clients that do not speak it.

use std::{fs, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName},
    },
};
use warden::{
    config::TlsFiles,
    gateway::{Limits, Tls},
};

use crate::support::{
    Conn, Engine, MESSAGE, MESSAGES_EVENTS, Setup, Warden, messages_body, soon, until,
};

/// A certificate for localhost with its key, written into this directory.
pub(super) fn certify(directory: &Path) -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        cert: directory.join("cert.pem"),
        key: directory.join("key.pem"),
    };
    fs::write(&files.cert, made.cert.pem()).unwrap();
    fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.der().clone())
}

pub(super) async fn start(engine: &Engine, files: TlsFiles, limits: Limits) -> (Warden, Arc<Tls>) {
    let tls = Arc::new(Tls::load(files).unwrap());
    let mut setup = Setup::before(&[engine]);
    setup.tls = Some(Arc::clone(&tls));
    setup.limits = limits;
    (Warden::start(setup).await, tls)
}

pub(super) async fn connect(
    warden: &Warden,
    trusted: &CertificateDer<'static>,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(warden.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    soon("a handshake", connecting).await
}

fn request(uri: &str, stream: bool) -> Request<Full<Bytes>> {
    Request::post(uri)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::from(messages_body(stream)))
        .unwrap()
}

#[tokio::test]
async fn http_1_passes_as_it_does_without() {
    let directory = tempfile::tempdir().unwrap();
    let (files, cert) = certify(directory.path());
    let engine = Engine::answering_json(MESSAGE).await;
    let (warden, _) = start(&engine, files, Limits::default()).await;
    let stream = connect(&warden, &cert, b"http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let reply = sender.send_request(request("/v1/messages", false));
        let reply = soon("a reply", reply).await.unwrap();
        assert_eq!(reply.status(), 200);
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, MESSAGE.as_bytes());
    }
    assert_eq!(engine.received()[0].head.line, "POST /v1/messages HTTP/1.1");
    warden.settled().await;
}

#[tokio::test]
async fn http_2_is_negotiated_and_carries_many_streams() {
    let directory = tempfile::tempdir().unwrap();
    let (files, cert) = certify(directory.path());
    let engine = Engine::streaming().await;
    let (warden, _) = start(&engine, files, Limits::default()).await;
    let stream = connect(&warden, &cert, b"h2").await.unwrap();
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let uri = "https://localhost/v1/messages?beta=true";
    let replies = (0..20).map(|_| {
        let mut sender = sender.clone();
        tokio::spawn(async move {
            let reply = sender.send_request(request(uri, true)).await.unwrap();
            assert_eq!(
                (reply.status(), reply.version()),
                (http::StatusCode::OK, Version::HTTP_2)
            );
            assert_eq!(reply.headers()["x-lm-warden-replica"], "0");
            reply.into_body().collect().await.unwrap().to_bytes()
        })
    });
    for reply in replies.collect::<Vec<_>>() {
        let body = soon("a reply", reply).await.unwrap();
        assert_eq!(body, MESSAGES_EVENTS.concat().as_bytes());
    }
    for received in engine.received() {
        assert_eq!(received.head.line, "POST /v1/messages?beta=true HTTP/1.1");
        assert_eq!(received.body, messages_body(true).as_bytes());
    }
    warden.settled().await;
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_broken_over_http_2_too() {
    let directory = tempfile::tempdir().unwrap();
    let (files, cert) = certify(directory.path());
    let engine = Engine::start(|mut conn: Conn| async move {
        if conn.request().await.is_some() {
            conn.begin_stream().await;
            conn.event(MESSAGES_EVENTS[0]).await;
        }
    })
    .await;
    let (warden, _) = start(&engine, files, Limits::default()).await;
    let stream = connect(&warden, &cert, b"h2").await.unwrap();
    let io = TokioIo::new(stream);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let reply = sender.send_request(request("https://localhost/v1/messages", true));
    let reply = soon("a head", reply).await.unwrap();
    assert_eq!(reply.status(), 200);
    soon("the end", reply.into_body().collect())
        .await
        .unwrap_err();
    assert_eq!(warden.settled().await.end, Some(api::RequestEnd::Cut));
}

#[tokio::test]
async fn a_new_certificate_is_taken_without_a_restart_and_a_bad_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (files, first) = certify(directory.path());
    let engine = Engine::answering_json(MESSAGE).await;
    let (warden, tls) = start(&engine, files.clone(), Limits::default()).await;
    let watching = tokio::spawn(Arc::clone(&tls).watch());
    let open = connect(&warden, &first, b"http/1.1").await.unwrap();

    fs::write(&files.cert, "-----BEGIN CERTIFICATE-----\nnonsense").unwrap();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    connect(&warden, &first, b"http/1.1").await.unwrap();

    let (_, second) = certify(directory.path());
    let taken = async {
        while connect(&warden, &second, b"http/1.1").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("the new certificate", taken).await;
    connect(&warden, &first, b"http/1.1").await.unwrap_err();
    watching.abort();

    // Who is connected stays so.
    let (mut sender, connection) = http1::handshake(TokioIo::new(open)).await.unwrap();
    tokio::spawn(connection);
    let reply = sender.send_request(request("/v1/messages", false));
    assert_eq!(soon("a reply", reply).await.unwrap().status(), 200);
}

#[tokio::test]
async fn who_speaks_plain_http_is_told_and_who_says_nothing_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let (files, _) = certify(directory.path());
    let engine = Engine::answering_json(MESSAGE).await;
    let limits = Limits {
        handshake_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let (warden, _) = start(&engine, files, limits).await;
    let mut plain = TcpStream::connect(warden.address).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut told = vec![0; 16];
    soon("an answer", plain.read_exact(&mut told))
        .await
        .unwrap();
    assert_eq!(told, b"HTTP/1.1 400 Bad");

    for begun in [&b""[..], &[0x16, 3, 1, 2, 0]] {
        let mut silent = TcpStream::connect(warden.address).await.unwrap();
        silent.write_all(begun).await.unwrap();
        let mut rest = Vec::new();
        let _ = soon("the end", silent.read_to_end(&mut rest)).await;
    }
    assert!(engine.received().is_empty());
    until("no connection to be left", || {
        warden.gateway.in_flight() == 0
    })
    .await;
}

#[test]
fn files_of_no_use_are_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let (files, _) = certify(directory.path());
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    let (others, _) = certify(&other);
    let missing = directory.path().join("missing.pem");
    let (cert, key) = (&files.cert, &files.key);
    for (cert, key, words) in [
        (
            &missing,
            key,
            ["server.tls.cert", "missing.pem", "can read"],
        ),
        (
            cert,
            &missing,
            ["server.tls.key", "missing.pem", "can read"],
        ),
        (
            key,
            key,
            ["server.tls.cert", "no certificate", "the certificate first"],
        ),
        (
            cert,
            cert,
            ["server.tls.key", "cert.pem", "without a passphrase"],
        ),
        (
            cert,
            &others.key,
            ["server.tls.cert", "do not work together", "made for"],
        ),
    ] {
        let files = TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
        };
        let error = Tls::load(files).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
