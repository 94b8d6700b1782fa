//! What an engine tells of itself at `/version` and `/v1/models`.

use serde::Deserialize;

/// The version in a `/version` body.
pub(super) fn version(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let version = serde_json::from_slice::<Version>(body).ok()?.version;
    (!version.is_empty() && version.len() <= 64).then_some(version)
}

/// One entry of `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Served {
    pub(super) id: String,
    pub(super) max_model_len: Option<u64>,
}

/// The model to ask for: the one that has the configured name, else the first.
pub(super) fn served(body: &[u8], name: &str) -> Option<Served> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Served>,
    }
    let list = serde_json::from_slice::<List>(body).ok()?.data;
    let named = list.iter().find(|model| model.id == name);
    named.or(list.first()).cloned()
}
