//! A small HTTP client for the warden's own questions: probes, scrapes, and the commands that ask a
//! running warden. Bounded in time and in what it reads; the gateway's way to the engine is
//! `upstream`.

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::upstream::is_ours;

/// Below the 5 s after which vLLM closes idle connections.
const POOL_IDLE: Duration = Duration::from_secs(3);

/// The client.
#[derive(Debug, Clone)]
pub struct Fetch {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
    body_bytes_max: usize,
    authorization: Option<HeaderValue>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No connection: nobody listens, or the host is unknown.
    #[error("{url} cannot be reached ({reason})")]
    Connect {
        /// What was asked.
        url: String,
        /// Why.
        reason: String,
    },
    /// No connection, for want of something on this side.
    #[error("{url} could not be asked ({reason})")]
    Scarcity {
        /// What was asked.
        url: String,
        /// What there was none of.
        reason: String,
    },
    /// No answer in time.
    #[error("{url} did not answer within {} s", timeout.as_secs_f64())]
    Timeout {
        /// What was asked.
        url: String,
        /// How long it was given.
        timeout: Duration,
    },
    /// The answer broke off, or is larger than it may be.
    #[error("{url} broke off its answer ({reason})")]
    Broken {
        /// What was asked.
        url: String,
        /// Why.
        reason: String,
    },
    /// An answer that is no success.
    #[error("{url} answered {status}")]
    Status {
        /// What was asked.
        url: String,
        /// The status.
        status: StatusCode,
        /// The body.
        body: Bytes,
    },
}

impl Fetch {
    /// A client that waits and reads at most so much, with this key as bearer token. It trusts no
    /// certificate, so it reaches `http` alone.
    pub fn new(timeout: Duration, body_bytes_max: usize, key: Option<&str>) -> Self {
        Self::trusting(RootCertStore::empty(), timeout, body_bytes_max, key)
    }

    /// One that reaches `https` as well, where the certificate's issuer is among these.
    pub fn trusting(
        roots: RootCertStore,
        timeout: Duration,
        body_bytes_max: usize,
        key: Option<&str>,
    ) -> Self {
        let authorization = key.and_then(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(timeout));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(roots))
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Self {
            client: Client::builder(TokioExecutor::new())
                .pool_idle_timeout(POOL_IDLE)
                .pool_timer(hyper_util::rt::TokioTimer::new())
                .build(connector),
            timeout,
            body_bytes_max,
            authorization,
        }
    }

    /// The body of a successful `GET`.
    pub async fn get(&self, base_url: &str, path: &str) -> Result<Bytes, FetchError> {
        self.ask(Method::GET, base_url, path).await
    }

    /// The body of a successful `POST` that sends nothing.
    pub async fn post(&self, base_url: &str, path: &str) -> Result<Bytes, FetchError> {
        self.ask(Method::POST, base_url, path).await
    }

    async fn ask(&self, method: Method, base_url: &str, path: &str) -> Result<Bytes, FetchError> {
        let url = format!("{base_url}{path}");
        match tokio::time::timeout(self.timeout, self.ask_unbounded(method, &url)).await {
            Ok(answer) => answer,
            Err(_) => Err(FetchError::Timeout {
                url,
                timeout: self.timeout,
            }),
        }
    }

    async fn ask_unbounded(&self, method: Method, url: &str) -> Result<Bytes, FetchError> {
        let broken = |error: &dyn std::error::Error| FetchError::Broken {
            url: url.to_owned(),
            reason: deepest(error),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .body(Full::default())
            .map_err(|error| broken(&error))?;
        if let Some(authorization) = &self.authorization {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let response = self.client.request(request).await.map_err(|error| {
            if is_ours(&error) {
                FetchError::Scarcity {
                    url: url.to_owned(),
                    reason: deepest(&error),
                }
            } else if error.is_connect() {
                FetchError::Connect {
                    url: url.to_owned(),
                    reason: deepest(&error),
                }
            } else {
                broken(&error)
            }
        })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), self.body_bytes_max);
        let body = body
            .collect()
            .await
            .map_err(|error| broken(&*error))?
            .to_bytes();
        if !status.is_success() {
            return Err(FetchError::Status {
                url: url.to_owned(),
                status,
                body,
            });
        }
        Ok(body)
    }
}

/// TLS to whoever has a certificate of these issuers.
pub fn tls(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// The issuers in a PEM file, or those that this system trusts.
pub fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let certs = match file {
        Some(file) => CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| error.to_string())?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(certs);
    if taken == 0 {
        return Err("there is no certificate that could be used".to_owned());
    }
    Ok(roots)
}

/// The error at the bottom, which says what happened; those above it say only where.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// A name as one segment of a URL's path.
pub(crate) fn path_segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            write!(segment, "%{byte:02X}").expect("a string takes all that fits in memory");
        }
    }
    segment
}
