//! What a run leaves on disk: the history and the homes, and what may be wrong with the disk.
//!
//! Threads in real time write both, while clients and engines live in virtual time; what they wrote
//! is looked at once all is over, as the next warden would.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use ::routing::Time;
use rusqlite::Connection;
use tempfile::TempDir;
use warden::{
    clock, config,
    fleet::Fleet,
    history::{History, RequestsQuery, StatsQuery},
    persist::{DataDir, HomesWriter},
};

use super::{dice::Dice, fleet};

/// What is wrong with the history's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Another program has locked it, until the service ends.
    Locked,
    /// There are other bytes in it.
    Damaged,
}

/// A data directory that is gone with this value.
pub(super) struct Disk {
    directory: TempDir,
    fault: Fault,
    lock: Option<Connection>,
    homes: HomesWriter,
    pub(super) history: Arc<History>,
}

/// What is left once the service has ended.
pub(super) struct Kept(TempDir);

/// Homes by conversation, in the API's words.
type Homes = BTreeMap<String, u16>;

impl Disk {
    /// Begins to write, whatever is wrong with it.
    pub(super) fn new(dice: &mut Dice, fleet: &Fleet) -> Self {
        let directory = directory();
        let fault = match dice.below(6) {
            0 => Fault::Locked,
            1 => Fault::Damaged,
            _ => Fault::None,
        };
        let path = directory.path().join("history.sqlite");
        let mut lock = None;
        match fault {
            Fault::None => {}
            Fault::Damaged => fs::write(&path, [0x5a; 5_000]).unwrap(),
            Fault::Locked => {
                let other = Connection::open(&path).unwrap();
                other.execute_batch("BEGIN EXCLUSIVE").unwrap();
                lock = Some(other);
            }
        }
        let data_dir = DataDir::open(directory.path()).unwrap();
        let homes = HomesWriter::start(&data_dir, fleet, clock::now()).unwrap();
        Self {
            history: Arc::new(history(path)),
            directory,
            fault,
            lock,
            homes,
        }
    }

    /// Ends the service's threads.
    pub(super) fn stop(self) -> Kept {
        drop(self.lock);
        self.history.stop();
        self.homes.stop();
        let state = self.history.state();
        let aside = usize::from(self.fault == Fault::Damaged);
        assert_eq!(
            (state.dropped, state.waiting, state.set_aside_files as usize),
            (0, 0, aside),
            "{:?}: {state:?}",
            self.fault
        );
        Kept(self.directory)
    }
}

impl Kept {
    /// What the next warden finds is what this one told until `now`, and figures count what lists
    /// hold.
    pub(super) async fn agrees(&self, requests: &[api::Request], now: Time) {
        let history = history(self.0.path().join("history.sqlite"));
        let all = RequestsQuery {
            limit: 100_000,
            ..RequestsQuery::default()
        };
        let found = history.requests(all, Vec::new).await.unwrap();
        assert_eq!(by_id(&found.requests), by_id(requests), "rows and requests");
        let hours = StatsQuery {
            now,
            range_s: 100 * 3_600,
            step_s: 3_600,
            model: None,
        };
        let stats = history.stats(hours).await.unwrap();
        assert_eq!(
            stats.summary.requests,
            requests.len() as u64,
            "figures and requests"
        );
    }

    /// Every home is there after a restart.
    pub(super) fn homes_survive(&self, before: &Fleet) {
        let (now, replicas) = (clock::now(), before.models[0].replica_ids.len());
        let (after, data_dir) = (fleet(replicas), DataDir::open(self.0.path()).unwrap());
        let homes = HomesWriter::start(&data_dir, &after, now).unwrap();
        homes.stop();
        assert_eq!(homes_of(&after), homes_of(before));
    }
}

/// In memory where the machine has such a place: what is tried is not how fast a disk syncs.
fn directory() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    tempfile::tempdir_in(memory).unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn history(path: PathBuf) -> History {
    History::start(path, config::History::default()).unwrap()
}

fn by_id(requests: &[api::Request]) -> BTreeMap<&str, String> {
    let told = |request: &api::Request| {
        let how = (request.status, request.end, request.route, request.replica);
        format!("{how:?} of {:?}", request.conversation)
    };
    let pairs = requests
        .iter()
        .map(|request| (request.id.as_str(), told(request)));
    pairs.collect()
}

fn homes_of(fleet: &Fleet) -> Homes {
    let router = fleet.models[0].router.lock();
    let views = router.conversations(clock::now(), usize::MAX).into_iter();
    views
        .map(|view| (format!("{:?}", view.record.identity), view.record.home.0))
        .collect()
}
