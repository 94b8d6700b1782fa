//! The committed document is what the types say.

use std::{fs, path::Path};

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let current = api::openapi_json();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        fs::write(&path, &current).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "crates/api/openapi.json is stale: run `UPDATE_OPENAPI=1 cargo test -p lm-warden-api`"
    );
}
