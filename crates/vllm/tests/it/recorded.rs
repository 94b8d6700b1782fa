//! Recorded requests of real clients, read from outside the repository at run time.
//!
//! They lie in `../shared/fixtures/clients` beside the repository, or under `LM_WARDEN_SHARED`.

#![expect(clippy::disallowed_methods, reason = "tests read their fixtures")]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde_json::Value;
use vllm::{BodyFacts, Dialect, Digests, HeaderIds, scan};

/// One recorded request, its body as the client sent it.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// `<client>/<scenario>/<seq>.json`
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Its length when it was recorded.
    pub(crate) body_bytes: u64,
}

impl Recorded {
    pub(crate) fn dialect(&self) -> Option<Dialect> {
        let path = self.path.split('?').next()?;
        Some(match path {
            "/v1/messages" | "/v1/messages/count_tokens" => Dialect::Messages,
            "/v1/chat/completions" => Dialect::ChatCompletions,
            "/v1/responses" => Dialect::Responses,
            _ => return None,
        })
    }

    pub(crate) fn is_count_tokens(&self) -> bool {
        self.path.contains("count_tokens")
    }

    pub(crate) fn facts(&self) -> BodyFacts<'_> {
        let dialect = self.dialect().expect("a request with a prompt");
        scan(dialect, Digests::Prompt, &self.body)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub(crate) fn ids(&self) -> HeaderIds<'_> {
        HeaderIds::from_headers(
            self.headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes())),
        )
    }

    fn read(root: &Path, file: &Path) -> Self {
        let record: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let request = &record["request"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            name: file.strip_prefix(root).unwrap().display().to_string(),
            path: text(&request["path"]),
            headers: request["headers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|line| (text(&line[0]), text(&line[1])))
                .collect(),
            body: match &request["body"] {
                Value::Null => Vec::new(),
                body => serde_json::to_vec(body).unwrap(),
            },
            body_bytes: request["body_bytes"].as_u64().unwrap(),
        }
    }
}

/// All recorded requests with a prompt, in the order of their names (per scenario, as sent);
/// `None`, said aloud, where there are no recordings.
pub(crate) fn prompts() -> Option<&'static [Recorded]> {
    static ALL: LazyLock<Option<Vec<Recorded>>> = LazyLock::new(read_all);
    ALL.as_deref()
}

fn read_all() -> Option<Vec<Recorded>> {
    let root = std::env::var_os("LM_WARDEN_SHARED")
        .map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
            PathBuf::from,
        )
        .join("fixtures/clients");
    if !root.is_dir() {
        // Past the test harness, which swallows what passing tests print.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: tests on recorded requests; there are none at {} (set LM_WARDEN_SHARED)",
            root.display()
        );
        return None;
    }
    let mut files = Vec::new();
    for client in folders(&root) {
        for scenario in folders(&client) {
            files.extend(
                fs::read_dir(scenario)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    files.sort();
    let mut all: Vec<_> = files
        .iter()
        .map(|file| Recorded::read(&root, file))
        .collect();
    all.retain(|request| request.dialect().is_some() && !request.body.is_empty());
    assert!(
        all.len() > 100,
        "the recordings are incomplete: {}",
        all.len()
    );
    Some(all)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}
