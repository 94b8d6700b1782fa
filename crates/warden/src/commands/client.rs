//! A running warden, as a command sees it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, de::DeserializeOwned};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{
    config::Secret,
    fetch::{Fetch, FetchError, roots, tls},
};

/// What the operators' API and the OpenAI shape of the clients' side have in common.
#[derive(Deserialize)]
struct Refusal {
    error: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer.
const BODY_BYTES_MAX: usize = 64 << 20;

/// A client of the operators' API.
#[derive(Debug, Clone)]
pub struct Client {
    /// `http://host:port` or `https://host:port`, without a trailing slash.
    url: String,
    key: Option<Secret>,
    issuers: Option<PathBuf>,
    fetch: Fetch,
}

/// Why a warden's answer cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL itself.
    #[error(
        "\"{url}\" is no URL of a warden: it must be like http://127.0.0.1:8484 or https://host:8484 (--url or LM_WARDEN_URL)"
    )]
    Url {
        /// What was given.
        url: String,
    },
    /// The issuers of certificates.
    #[error(
        "no issuer of certificates to trust: {reason}; LM_WARDEN_CA may name a PEM file with the one of the warden's certificate"
    )]
    Issuers {
        /// Why there is none.
        reason: String,
    },
    /// Nobody answers there.
    #[error(
        "no warden answers: {cause}; start one with `lm-warden serve`, or say where it is with --url or LM_WARDEN_URL"
    )]
    Unreachable {
        /// Why.
        cause: FetchError,
    },
    /// Somebody answers, but not as a warden would.
    #[error("{url} answers, but not as a warden does: {reason}")]
    NoWarden {
        /// Where.
        url: String,
        /// What is odd.
        reason: String,
    },
    /// The warden does not do it.
    #[error("{0}")]
    Refused(String),
    /// The model is not served.
    #[error("the warden serves no model \"{asked}\"; it serves: {known}")]
    UnknownModel {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// It wants another key.
    #[error("{0} (LM_WARDEN_KEY holds the key that is sent)")]
    Denied(String),
    /// It serves nothing.
    #[error("the warden serves no model; its configuration names what it serves")]
    NoModel,
}

/// TLS as [`Client`] speaks it, for a command that has a client of its own.
pub fn client_tls(url: &str, issuers: Option<&Path>) -> Result<ClientConfig, ClientError> {
    trusted(url, issuers).map(tls)
}

/// Nobody, where the URL speaks no TLS: reading all that a system trusts takes its time.
fn trusted(url: &str, issuers: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let is_plain = !url
        .get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    if is_plain {
        return Ok(RootCertStore::empty());
    }
    roots(issuers).map_err(|reason| ClientError::Issuers { reason })
}

impl Client {
    /// A client of the warden at this URL, with this key. Over TLS the certificate's issuer must be in
    /// the file `issuers`, or else among those that this system trusts.
    pub fn new(url: &str, key: Option<&str>, issuers: Option<&Path>) -> Result<Self, ClientError> {
        let bad = || ClientError::Url {
            url: url.to_owned(),
        };
        let trimmed = url.trim_end_matches('/');
        let uri: http::Uri = trimmed.parse().map_err(|_| bad())?;
        let plain = matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some()
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none();
        if !plain {
            return Err(bad());
        }
        let fetch = Fetch::trusting(trusted(url, issuers)?, TIMEOUT, BODY_BYTES_MAX, key);
        Ok(Self {
            url: trimmed.to_owned(),
            fetch,
            issuers: issuers.map(Path::to_owned),
            key: key.map(|key| Secret(key.to_owned())),
        })
    }

    /// Where the warden is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The key it shows, if any.
    pub(super) fn key(&self) -> Option<&str> {
        self.key.as_ref().map(|Secret(key)| key.as_str())
    }

    /// The file of issuers that it trusts, if any.
    pub(super) fn issuers(&self) -> Option<&Path> {
        self.issuers.as_deref()
    }

    /// All models, as the API gives them.
    pub async fn models(&self) -> Result<api::Models, ClientError> {
        let body = self.bytes("/api/v1/models").await?;
        self.parse(&body)
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ClientError> {
        serde_json::from_slice(body).map_err(|error| self.no_warden(&error))
    }

    /// A body as it came.
    pub(super) async fn bytes(&self, path: &str) -> Result<Bytes, ClientError> {
        let answer = self.fetch.get(&self.url, path).await;
        answer.map_err(|error| self.failed(error))
    }

    /// What a command is answered.
    pub(super) async fn post(&self, path: &str) -> Result<Bytes, ClientError> {
        let answer = self.fetch.post(&self.url, path).await;
        answer.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: FetchError) -> ClientError {
        match error {
            FetchError::Connect { .. }
            | FetchError::Scarcity { .. }
            | FetchError::Timeout { .. } => ClientError::Unreachable { cause: error },
            FetchError::Status {
                status, ref body, ..
            } => match serde_json::from_slice(body) {
                Ok(Refusal { error }) if status == StatusCode::UNAUTHORIZED => {
                    ClientError::Denied(error.message)
                }
                Ok(Refusal { error }) if status == StatusCode::FORBIDDEN => {
                    ClientError::Denied(error.message)
                }
                Ok(Refusal { error }) => ClientError::Refused(error.message),
                Err(_) => self.no_warden(&error),
            },
            FetchError::Broken { .. } => self.no_warden(&error),
        }
    }

    fn no_warden(&self, reason: &dyn std::error::Error) -> ClientError {
        ClientError::NoWarden {
            url: self.url.clone(),
            reason: reason.to_string(),
        }
    }
}
