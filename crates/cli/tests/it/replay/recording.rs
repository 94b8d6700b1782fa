//! Recorded requests of real clients, read from the shared fixtures.
//!
//! The identity of a recording is worked out here a second time, from what each client is known to
//! send: a test that asked the code under test which conversation a request belongs to could not
//! find it wrong.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

/// One recorded request.
pub(crate) struct Recording {
    /// Client, scenario and number, for messages.
    pub(crate) name: String,
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Exactly the bytes that the client sent; empty for HEAD.
    pub(crate) body: String,
}

#[derive(Deserialize)]
struct File {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body_bytes: usize,
    body: Option<Box<RawValue>>,
}

/// The members of a body by which clients without a session header name their conversation.
#[derive(Deserialize)]
struct Body {
    model: String,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    user_id: Option<String>,
}

impl Recording {
    fn read(path: &Path, name: String) -> Self {
        let text = fs::read_to_string(path).expect("a readable recording");
        let request = serde_json::from_str::<File>(&text)
            .expect("a recording")
            .request;
        let body = request
            .body
            .map_or(String::new(), |body| body.get().to_owned());
        // The file holds the body as compact JSON: its text is the client's, byte for byte.
        assert_eq!(
            body.len(),
            request.body_bytes,
            "{name}: not the bytes that were sent"
        );
        Self {
            name,
            method: request.method,
            path: request.path,
            headers: request.headers,
            body,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn model(&self) -> Option<String> {
        serde_json::from_str::<Body>(&self.body)
            .ok()
            .map(|body| body.model)
    }

    /// Whether it is a turn, which is routed, and not a question about tokens or liveness.
    pub(crate) fn is_turn(&self) -> bool {
        self.method == "POST" && !self.path.contains("count_tokens")
    }

    /// The session and the agent in it, as its client marks them.
    pub(crate) fn conversation(&self) -> (String, String) {
        let agent = self
            .header("x-claude-code-agent-id")
            .or_else(|| self.header("thread-id"));
        let session = [
            "x-claude-code-session-id",
            "x-session-affinity",
            "session-id",
        ]
        .into_iter()
        .find_map(|name| self.header(name).map(str::to_owned))
        .or_else(|| self.session_of_metadata());
        let session = session.unwrap_or_else(|| panic!("{}: no session", self.name));
        (session, agent.unwrap_or_default().to_owned())
    }

    fn session_of_metadata(&self) -> Option<String> {
        let user_id = serde_json::from_str::<Body>(&self.body)
            .ok()?
            .metadata?
            .user_id?;
        let (_, session) = user_id.split_once("_session_")?;
        Some(session.to_owned())
    }
}

/// All recordings, scenario by scenario in the order in which they were sent. None where the machine
/// has none.
pub(crate) fn scenarios() -> Option<Vec<Vec<Recording>>> {
    let root = shared().join("fixtures/clients");
    if !root.is_dir() {
        eprintln!(
            "SKIPPED: no recordings of real clients at {}",
            root.display()
        );
        return None;
    }
    let folders = children(&root).into_iter().filter(|path| path.is_dir());
    let scenarios = folders
        .flat_map(|client| children(&client))
        .map(|scenario| {
            let files = children(&scenario).into_iter();
            let name = |file: &Path| {
                let from_root = file.strip_prefix(&root).expect("below the root");
                from_root.with_extension("").display().to_string()
            };
            files
                .map(|file| Recording::read(&file, name(&file)))
                .collect()
        });
    Some(scenarios.collect())
}

/// Where test data lives that is not part of the repository.
fn shared() -> PathBuf {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared"));
    std::env::var_os("LM_WARDEN_SHARED").map_or_else(beside, PathBuf::from)
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}
