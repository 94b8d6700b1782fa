//! Holds the manifests against the table of ARCHITECTURE.md: which crate may know which, and which
//! are pure. A new edge is the most expensive change there is; it begins in that table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A row of the table.
struct Rule {
    pure: bool,
    may_use: BTreeSet<String>,
}

#[test]
fn crates_know_only_whom_the_architecture_lets_them_know() {
    let rules = rules();
    let manifests = manifests();
    let named: BTreeSet<_> = rules.keys().collect();
    assert_eq!(
        named,
        manifests.keys().collect(),
        "the table and crates/ differ"
    );
    for (name, manifest) in &manifests {
        let uses: BTreeSet<_> = uses(manifest, &manifests).collect();
        let extra: Vec<_> = uses.difference(&rules[name].may_use).collect();
        assert!(
            extra.is_empty(),
            "{name} uses {extra:?}: ARCHITECTURE.md does not let it"
        );
    }
}

#[test]
fn pure_crates_ban_clocks_and_cannot_reach_a_runtime() {
    let manifests = manifests();
    for name in rules()
        .into_iter()
        .filter_map(|(name, rule)| rule.pure.then_some(name))
    {
        let bans = fs::read_to_string(format!("{ROOT}/crates/{name}/clippy.toml"))
            .unwrap_or_else(|error| panic!("{name} is pure and has no clippy.toml: {error}"));
        for banned in [
            "std::time::Instant::now",
            "std::time::SystemTime::now",
            "std::env::var",
        ] {
            assert!(bans.contains(banned), "{name} does not ban {banned}");
        }
        for dependency in dependencies(&manifests[&name]) {
            let impure = ["tokio", "hyper", "axum", "socket2", "getrandom"];
            assert!(
                !impure.contains(&dependency.as_str()),
                "{name} is pure and uses {dependency}"
            );
        }
    }
}

/// The table: `| crate (pure) | may use | duty |`.
fn rules() -> BTreeMap<String, Rule> {
    let text = fs::read_to_string(format!("{ROOT}/ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let name = |cell: &str| cell.trim_matches(|c| c == '`' || c == ' ').to_owned();
    let names: BTreeSet<String> = rows
        .iter()
        .map(|row| name(row[1].trim_end_matches("(pure)")))
        .collect();
    let may_use = |cell: &str| -> BTreeSet<String> {
        if let Some(but) = cell.strip_prefix("all") {
            let except: Vec<String> = but
                .trim_start()
                .trim_start_matches("but ")
                .split(',')
                .map(name)
                .collect();
            return names
                .iter()
                .filter(|one| !except.contains(one))
                .cloned()
                .collect();
        }
        cell.split(',').map(name).filter(|one| one != "–").collect()
    };
    rows.iter()
        .map(|row| {
            let pure = row[1].ends_with("(pure)");
            let rule = Rule {
                pure,
                may_use: may_use(row[2]),
            };
            (name(row[1].trim_end_matches("(pure)")), rule)
        })
        .collect()
}

/// Each crate's manifest, by the folder's name.
fn manifests() -> BTreeMap<String, String> {
    let folders = fs::read_dir(PathBuf::from(ROOT).join("crates")).expect("crates/");
    folders
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
            (entry.file_name().into_string().expect("a name"), manifest)
        })
        .collect()
}

/// The names under `[dependencies]` and `[build-dependencies]`; tests may use what they like.
fn dependencies(manifest: &str) -> impl Iterator<Item = String> {
    let mut counts = false;
    let lines = manifest.lines().filter(move |line| {
        if line.starts_with('[') {
            counts = ["[dependencies]", "[build-dependencies]"].contains(&line.trim());
        }
        counts && line.contains('=')
    });
    lines.map(|line| {
        let end = line.find([' ', '.', '=']).unwrap_or(line.len());
        line[..end].to_owned()
    })
}

fn uses(manifest: &str, all: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    let own =
        dependencies(manifest).filter_map(|name| Some(name.strip_prefix("lm-warden-")?.to_owned()));
    own.filter(|name| all.contains_key(name))
}
