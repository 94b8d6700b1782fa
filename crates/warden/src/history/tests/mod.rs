//! The file, from what is handed over to what is asked: figures, lists, bounds, and every kind of
//! trouble that a file can be in.

mod bounds;
mod figures;
mod lists;
mod trouble;

use std::{
    path::PathBuf,
    sync::Arc,
    sync::mpsc::{SyncSender, sync_channel},
};

use api::{RequestEnd, Route};
use routing::Time;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    health::Health,
    store::{Batch, Bounds, Ended, Store},
    writer::{Message, SharedBounds, Writer},
    *,
};

/// A full hour, in epoch seconds.
const START_S: u64 = 1_800_000_000;

const ROOM: Bounds = Bounds {
    days_max: 30,
    bytes_max: 1 << 40,
};

/// A request that arrives so many milliseconds after the start, has its first byte 40 ms later and
/// ends after 100 ms.
fn request(number: u64, ms: u64) -> api::Request {
    api::Request {
        id: format!("{number:032x}"),
        t: START_S as f64 + ms as f64 / 1e3,
        model: Some("demo".to_owned()),
        conversation: Some("abcd000000000000".to_owned()),
        session: Some("0000000000000007".to_owned()),
        agent: None,
        api: "messages".to_owned(),
        route: Some(Route::Sticky),
        reason: Some("stays where its cache is".to_owned()),
        scores: vec![api::Score {
            replica: 1,
            available: true,
            fits: true,
            in_flight: 1,
            running: 2,
            cache_fill: Some(0.25),
            conversations: 3,
        }],
        replica: Some(1),
        turn: Some(2),
        queue_ms: Some(1.5),
        ttfb_ms: Some(40.0),
        total_ms: Some(100.0),
        prompt_tokens: Some(100),
        cached_tokens: Some(75),
        computed_tokens: Some(25),
        gap_ms: Some(2_500.0),
        side: false,
        completion_tokens: Some(5),
        status: Some(200),
        end: Some(RequestEnd::Complete),
        cold: Some(api::Cold {
            why: api::ColdCause::Spilled,
            tokens_read_again: 25,
            measured: true,
            part: None,
            sentence: "spilled: 25 tokens read again".to_owned(),
        }),
    }
}

fn batch(requests: impl IntoIterator<Item = api::Request>) -> Batch {
    let ended = (1..).zip(requests).map(|(number, request)| Ended {
        number,
        request,
        key_name: None,
    });
    Batch {
        ended: ended.collect(),
        marks: Vec::new(),
    }
}

/// A file with these requests.
struct File {
    store: Store,
    path: PathBuf,
    _directory: TempDir,
}

impl File {
    fn with(requests: impl IntoIterator<Item = api::Request>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.sqlite");
        let mut store = Store::open(&path).unwrap();
        store.write(&batch(requests)).unwrap();
        Self {
            store,
            path,
            _directory: directory,
        }
    }

    fn reader(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    fn count(&self, table: &str) -> i64 {
        count(&self.reader(), table)
    }
}

fn count(connection: &Connection, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    connection.query_row(&count, [], |row| row.get(0)).unwrap()
}

/// A writer that is driven by hand instead of by its thread.
struct ByHand {
    writer: Writer,
    queue: SyncSender<Message>,
    health: Arc<Health>,
    path: PathBuf,
    directory: TempDir,
    now: Time,
}

impl ByHand {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.sqlite");
        let (queue, messages) = sync_channel(100_000);
        let health = Arc::new(Health::default());
        let bounds = Arc::new(SharedBounds {
            days_max: ROOM.days_max.into(),
            bytes_max: ROOM.bytes_max.into(),
        });
        Self {
            writer: Writer::new(path.clone(), messages, Arc::clone(&health), bounds),
            queue,
            health,
            path,
            directory,
            now: Time(START_S * 1_000_000),
        }
    }

    fn hand_over(&self, number: u64) {
        self.health.handed_over();
        let ended = Message::Ended {
            number,
            request: Arc::new(request(number, number)),
            key_name: None,
        };
        self.queue.send(ended).unwrap();
    }

    /// Takes what was handed over and tries to write, two seconds after the last time.
    fn write(&mut self) {
        self.now = self.now.plus(Duration::from_secs(2));
        self.writer.take_and_write(self.now);
    }

    fn written(&self) -> i64 {
        count(&Connection::open(&self.path).unwrap(), "requests")
    }

    /// Names of files in the directory.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}
