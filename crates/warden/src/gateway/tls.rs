//! TLS towards clients: the certificate and its key, followed while the service runs.
//!
//! Whoever renews a certificate replaces files and tells nobody, so the files are looked at once a
//! second; a pair that cannot be used leaves the one in force, and is logged once. HTTP/2 is offered
//! in the handshake; plain connections never come through here.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{
    net::TcpStream,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
    server::TlsStream,
};

use super::stall::StallGuard;
use crate::{config::TlsFiles, file_mark::FileMark};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What every TLS connection begins with: the record type "handshake".
const HANDSHAKE_RECORD: u8 = 0x16;

/// Said to whoever speaks plain HTTP here.
const NOT_TLS: &str =
    r#"{"error":{"code":"not_tls","message":"this port speaks TLS; use https:// instead"}}"#;

/// Why a certificate cannot be used. The operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{setting} cannot be read: {}: {cause}; name a PEM file that the user that runs lm-warden can read", path.display())]
    Read {
        /// The setting's key.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It is no PEM, or holds something else.
    #[error("{setting} is of no use: {}: {reason}; it must be a PEM file with {wants}", path.display())]
    Content {
        /// The setting's key.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What it must hold.
        wants: &'static str,
    },
    /// Each is readable, but they do not belong together.
    #[error("server.tls.cert and server.tls.key do not work together: {reason}; the key must be the one that the first certificate in {} was made for", cert.display())]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// What the library says.
        reason: String,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    acceptor: Acceptor,
}

struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

/// The pair in force.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pair = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&pair))
    }
}

/// The pair of files that was looked at; `None` where one could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark([Option<FileMark>; 2]);

impl Tls {
    /// Reads the pair. Blocks on the disk.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let current = Arc::new(Current(RwLock::new(Arc::new(pair(&files)?))));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS 1.2 and 1.3")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as _);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            files,
            current,
            acceptor: Acceptor(TlsAcceptor::from(Arc::new(config))),
        })
    }

    /// The handshake, within its bound. A client that speaks plain HTTP is told so.
    pub(super) async fn accept(
        &self,
        io: StallGuard,
        bound: Duration,
    ) -> io::Result<TlsStream<StallGuard>> {
        let handshake = async {
            if speaks_plainly(io.stream()).await? {
                // Best effort: whoever sends something else than TLS may also not listen.
                let _ = io.stream().try_write(not_tls().as_bytes());
                return Err(io::Error::new(io::ErrorKind::InvalidData, "no TLS"));
            }
            self.acceptor.0.accept(io).await
        };
        let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
        timeout(bound, handshake).await.unwrap_or_else(late)
    }

    /// Follows the files. Never returns.
    pub async fn watch(self: Arc<Self>) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = None;
        loop {
            ticks.tick().await;
            self.look(&mut seen);
        }
    }

    /// Reads the files where they are not those that were `seen`. They are small, and stat is quick:
    /// no thread of its own.
    pub(super) fn look(&self, seen: &mut Option<Mark>) {
        let mark = Mark([mark(&self.files.cert), mark(&self.files.key)]);
        if *seen == Some(mark) {
            return;
        }
        let is_first = seen.replace(mark).is_none();
        self.take(is_first);
    }

    /// Reads the files now, whatever they look like from outside: who asks has reason to.
    pub fn read_again(&self) {
        self.take(false);
    }

    fn take(&self, is_first: bool) {
        match pair(&self.files) {
            Ok(pair) => {
                let mut current = self
                    .current
                    .0
                    .write()
                    .unwrap_or_else(PoisonError::into_inner);
                if current.cert != pair.cert {
                    tracing::info!(cert = %self.files.cert.display(), "a new certificate is in force");
                } else if is_first {
                    return;
                }
                *current = Arc::new(pair);
            }
            Err(error) => tracing::error!("{error}; the certificate in force stays"),
        }
    }
}

fn mark(path: &Path) -> Option<FileMark> {
    fs::metadata(path).ok().map(FileMark::from)
}

async fn speaks_plainly(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let bytes = stream.peek(&mut first).await?;
    Ok(bytes > 0 && first[0] != HANDSHAKE_RECORD)
}

fn not_tls() -> String {
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{NOT_TLS}",
        NOT_TLS.len()
    )
}

fn pair(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let (cert, key) = (
        read("server.tls.cert", &files.cert)?,
        read("server.tls.key", &files.key)?,
    );
    let certs: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&cert).collect();
    let certs = certs.map_err(|error| error.to_string());
    let certs = certs.and_then(|certs| {
        let none = "there is no certificate in it";
        (!certs.is_empty())
            .then_some(certs)
            .ok_or_else(|| none.to_owned())
    });
    let certs = certs.map_err(|reason| TlsError::Content {
        setting: "server.tls.cert",
        path: files.cert.clone(),
        reason,
        wants: "the certificate first and its issuers' after it",
    })?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| TlsError::Content {
        setting: "server.tls.key",
        path: files.key.clone(),
        reason: error.to_string(),
        wants: "one private key without a passphrase",
    })?;
    CertifiedKey::from_der(certs, key, &ring::default_provider()).map_err(|error: rustls::Error| {
        TlsError::Pair {
            cert: files.cert.clone(),
            reason: error.to_string(),
        }
    })
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|cause| TlsError::Read {
        setting,
        path: path.to_owned(),
        cause,
    })
}

/// Whether the handshake settled on HTTP/2.
pub(super) fn speaks_http2(stream: &TlsStream<StallGuard>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}
