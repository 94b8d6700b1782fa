//! Homes over restarts, crashes, damage and a full disk.

mod damage;

use std::{fs, path::Path, sync::Arc};

use proptest::prelude::*;
use routing::{
    Candidates, ConversationKey, HomeRecord, Identity, IdentitySource, OwnerId, ReplicaIndex,
    Request, RequestClass, Time,
};

use super::{homes::Table, journal::Journal, record::Record, *};
use crate::{
    config::{Config, Overrides},
    fleet::Model,
};

fn home(key: u128, at: u64) -> Record {
    let home = HomeRecord {
        identity: Identity {
            conversation: ConversationKey(key),
            session: 7,
            agent: Some(8),
            source: IdentitySource::PrefixHash,
        },
        owner: OwnerId(3),
        home: ReplicaIndex(0),
        last_active: Time(at),
        context_tokens: 100,
        own_tokens: 60,
        turns: 4,
        lineage: 9,
    };
    Record::Set {
        home,
        replica: "rank:0".to_owned(),
    }
}

fn read(path: &Path) -> Vec<Record> {
    Journal::open(path).unwrap().1
}

#[test]
fn the_last_record_of_each_conversation_counts_oldest_activity_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let (mut journal, homes) = Journal::open(&path).unwrap();
    assert_eq!(homes, []);
    journal
        .append(&[home(1, 10), home(2, 5), home(3, 1)])
        .unwrap();
    journal
        .append(&[home(1, 20), Record::Forget(ConversationKey(3))])
        .unwrap();
    assert_eq!(read(&path), [home(2, 5), home(1, 20)]);
}

#[test]
fn a_torn_tail_is_cut_off_and_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let (mut journal, _) = Journal::open(&path).unwrap();
    journal.append(&[home(1, 1)]).unwrap();
    let whole = fs::metadata(&path).unwrap().len();
    journal.append(&[home(2, 2)]).unwrap();
    let all = fs::read(&path).unwrap();
    for end in whole as usize + 1..all.len() {
        fs::write(&path, &all[..end]).unwrap();
        assert_eq!(read(&path), [home(1, 1)], "cut at {end}");
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.append(&[home(3, 3)]).unwrap();
        assert_eq!(read(&path), [home(1, 1), home(3, 3)]);
    }
}

#[test]
fn a_file_that_is_no_journal_is_set_aside_and_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    fs::write(&path, "a letter").unwrap();
    let (mut journal, homes) = Journal::open(&path).unwrap();
    assert_eq!(homes, []);
    journal.append(&[home(1, 1)]).unwrap();
    assert_eq!(read(&path), [home(1, 1)]);
    let aside = path.with_extension("damaged");
    assert_eq!(fs::read(aside).unwrap(), b"a letter");
}

#[test]
fn a_start_that_was_cut_short_is_made_good() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    for length in 0..8 {
        fs::write(&path, &b"LMWHOME1"[..length]).unwrap();
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.append(&[home(1, 1)]).unwrap();
        assert_eq!(read(&path), [home(1, 1)], "after {length} bytes");
    }
    assert!(!path.with_extension("damaged").exists());
}

#[test]
fn the_file_is_written_anew_before_it_outgrows_its_conversations() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let (mut journal, _) = Journal::open(&path).unwrap();
    for round in 0..300_u64 {
        let changes: Vec<Record> = (0..100)
            .map(|key| home(key, round * 100 + key as u64))
            .collect();
        journal.append(&changes).unwrap();
    }
    assert!(fs::metadata(&path).unwrap().len() < 2_000_000);
    let homes = read(&path);
    assert_eq!((homes.len(), homes.last()), (100, Some(&home(99, 29_999))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_no_records_but_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut rest = &bytes[..];
        while Record::read(&mut rest).is_some() {}
    }
}

fn model(engine: &str) -> Arc<Model> {
    let text = format!("[[models]]\nname = \"m\"\n[models.engine]\n{engine}\n");
    let config = Config::parse(&text, &Overrides::default()).unwrap();
    Arc::new(Model::new(&config.models[0], Time(0)))
}

fn attached(urls: &str) -> Arc<Model> {
    model(&format!(
        "kind = \"attached\"\nurls = [{urls}]\nmax_num_seqs = 8"
    ))
}

/// Routes one turn of a session; gives back its conversation and where it went.
fn turn(model: &Model, session: &str, at: u64) -> (ConversationKey, String) {
    let candidates = Candidates {
        x_session_id: Some(session.as_bytes()),
        ..Candidates::default()
    };
    let seed = routing::Seed([1; 16]);
    let identity = Identity::of(&seed, OwnerId(0), "m", &candidates);
    let request = Request {
        owner: OwnerId(0),
        identity,
        pin: None,
        steerable: true,
        prompt_bytes: 100,
        shared_bytes: 10,
        lineage: 1,
        front: 0,
        streams: false,
        class: RequestClass::Turn,
    };
    let mut router = model.router.lock();
    let decision = router.route(Time(at), &request).unwrap();
    router.observe(Time(at), routing::Event::Finished(decision.ticket, None));
    let replica = decision.replica.unwrap().0;
    (
        identity.unwrap().conversation,
        model.replica_ids[usize::from(replica)].clone(),
    )
}

#[test]
fn homes_come_back_under_their_replicas_names_not_their_positions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let before = attached("\"http://a:1\", \"http://b:1\"");
    let mut table = Table::open(&path, &before, Time(0)).unwrap();
    let homes: Vec<String> = ["s", "t", "u", "v"]
        .iter()
        .map(|session| turn(&before, session, 1).1)
        .collect();
    assert!(
        homes.contains(&"http://a:1:80".replace(":80", ""))
            && homes.iter().any(|home| home == "http://b:1")
    );
    table.write(Time(3), false);
    drop(table); // as a kill would: nothing more is written

    let after = attached("\"http://c:1\", \"http://b:1\", \"http://a:1\"");
    let _table = Table::open(&path, &after, Time(2)).unwrap();
    let again: Vec<String> = ["s", "t", "u", "v"]
        .iter()
        .map(|session| turn(&after, session, 3).1)
        .collect();
    assert_eq!(again, homes);
}

#[test]
fn a_full_disk_stops_nothing_and_heals_with_all_homes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let model = attached("\"http://a:1\", \"http://b:1\"");
    let mut table = Table::open(&path, &model, Time(0)).unwrap();
    table.fail_next_write();
    let (first, _) = turn(&model, "s", 1);
    table.write(Time(3), false);
    let (second, _) = turn(&model, "t", 2);
    // Only every tenth round tries again.
    for _ in 0..10 {
        table.write(Time(3), false);
    }
    let keys: Vec<ConversationKey> = read(&path).iter().map(Record::key).collect();
    assert!(keys.contains(&first) && keys.contains(&second), "{keys:?}");
}

#[test]
fn the_seed_stays_and_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    let seed = DataDir::open(&path).unwrap().seed();
    assert!(DataDir::open(&path).unwrap().seed() == seed);
    for file in ["seed", "seed.copy"] {
        let mode = fs::metadata(path.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    // A version that kept no copy left this.
    fs::remove_file(path.join("seed.copy")).unwrap();
    assert!(DataDir::open(&path).unwrap().seed() == seed);
    assert!(path.join("seed.copy").exists());
}

#[test]
fn damage_to_either_file_of_the_seed_is_mended_and_to_both_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let open = || DataDir::open(directory.path()).unwrap().seed();
    let seed = open();
    let (first, copy) = (
        directory.path().join("seed"),
        directory.path().join("seed.copy"),
    );
    for path in [&first, &copy] {
        let whole = fs::read(path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for damaged in [&flipped[..], &whole[..at]] {
                fs::write(path, damaged).unwrap();
                assert!(open() == seed, "byte {at} of {}", path.display());
                assert_eq!(fs::read(path).unwrap(), whole, "mended");
            }
        }
    }
    fs::write(&first, "short").unwrap();
    fs::write(&copy, "short").unwrap();
    let anew = open();
    assert!(anew != seed && open() == anew);
}

#[test]
fn one_data_directory_serves_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let first = DataDir::open(directory.path()).unwrap();
    let error = DataDir::open(directory.path()).unwrap_err();
    assert!(matches!(error, DataDirError::InUse { .. }), "{error}");
    drop(first);
    DataDir::open(directory.path()).unwrap();
}
