//! A file that cannot be written or makes no sense: told, survived, mended.

use std::{fs, sync::Arc};

use super::*;

#[test]
fn a_damaged_file_is_put_aside_under_a_name_and_a_new_one_begun() {
    let mut by_hand = ByHand::new();
    by_hand.hand_over(1);
    by_hand.write();
    assert_eq!(by_hand.written(), 1);
    // As after a crash of the disk: the writer is gone, the file is garbage.
    let garbage = vec![0x5a; 40_000];
    by_hand.writer.forget_store();
    for file in by_hand.files() {
        fs::write(by_hand.directory.path().join(file), &garbage).unwrap();
    }
    by_hand.hand_over(2);
    by_hand.write();
    assert_eq!(by_hand.written(), 1, "what came since is in the new file");
    let state = by_hand.health.view();
    assert!(state.writable);
    assert_eq!(
        (state.dropped, state.waiting, state.set_aside_files),
        (0, 0, 1)
    );
    let aside = state.set_aside.unwrap();
    assert_eq!(
        fs::read(by_hand.directory.path().join(&aside)).unwrap(),
        garbage
    );
}

#[test]
fn damage_that_a_reader_finds_is_mended_by_the_writer_and_only_the_last_files_are_kept() {
    let mut by_hand = ByHand::new();
    for number in 0..5 {
        by_hand.hand_over(number);
        by_hand.write();
        by_hand.health.saw_damage(by_hand.health.generation());
        by_hand.write();
    }
    by_hand.health.saw_damage(by_hand.health.generation() - 1);
    by_hand.write();
    let state = by_hand.health.view();
    assert_eq!(
        state.set_aside_files, 5,
        "an old connection's finding counts for nothing"
    );
    let files = by_hand.files();
    let aside = files
        .iter()
        .filter(|name| name.contains("damaged") && name.ends_with(".sqlite"));
    assert_eq!(aside.count(), 2, "{files:?}");
    by_hand.hand_over(9);
    by_hand.write();
    assert_eq!(by_hand.written(), 1);
}

#[test]
fn a_lock_is_told_and_what_came_meanwhile_is_written_after_it() {
    let mut by_hand = ByHand::new();
    by_hand.write();
    let other = Connection::open(&by_hand.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    by_hand.hand_over(1);
    by_hand.write();
    let state = by_hand.health.view();
    assert!(!state.writable);
    assert_eq!((state.waiting, state.dropped), (1, 0));
    assert!(state.failure.unwrap().contains("end it"));
    let since = state.failing_since;
    by_hand.write();
    assert_eq!(by_hand.health.view().failing_since, since, "it began once");
    other.execute_batch("COMMIT").unwrap();
    by_hand.hand_over(2);
    by_hand.write();
    assert_eq!(by_hand.written(), 2);
    let state = by_hand.health.view();
    assert_eq!((state.writable, state.waiting, state.written), (true, 0, 2));
    assert_eq!(by_hand.health.committed_up_to(), 2);
}

#[test]
fn a_full_disk_is_told_with_what_to_do_and_ends_with_it() {
    let mut by_hand = ByHand::new();
    by_hand.write();
    by_hand.writer.fill_disk(true);
    for number in 0..500 {
        by_hand.hand_over(number);
    }
    by_hand.write();
    let state = by_hand.health.view();
    assert_eq!((state.writable, state.waiting), (false, 500));
    let failure = state.failure.unwrap();
    assert!(
        failure.contains("full") && failure.contains("make room"),
        "{failure}"
    );
    by_hand.writer.fill_disk(false);
    by_hand.write();
    assert_eq!(by_hand.written(), 500);
    assert!(by_hand.health.view().writable);
}

#[test]
fn a_directory_that_appears_later_is_used_then() {
    let mut by_hand = ByHand::new();
    let moved = by_hand.directory.path().with_extension("elsewhere");
    fs::rename(by_hand.directory.path(), &moved).unwrap();
    by_hand.hand_over(1);
    by_hand.write();
    assert!(!by_hand.health.view().writable);
    fs::rename(&moved, by_hand.directory.path()).unwrap();
    by_hand.write();
    assert_eq!(by_hand.written(), 1);
}

#[test]
fn a_file_that_was_removed_is_begun_anew() {
    let mut by_hand = ByHand::new();
    by_hand.hand_over(1);
    by_hand.write();
    for file in by_hand.files() {
        fs::remove_file(by_hand.directory.path().join(file)).unwrap();
    }
    by_hand.hand_over(2);
    by_hand.write();
    assert_eq!(by_hand.written(), 1);
}

#[test]
fn past_what_memory_keeps_the_loss_is_counted_and_nothing_else_is_lost() {
    let mut by_hand = ByHand::new();
    by_hand.write();
    let other = Connection::open(&by_hand.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 0..20_010 {
        by_hand.hand_over(number);
    }
    by_hand.write();
    by_hand.write();
    let state = by_hand.health.view();
    assert_eq!((state.dropped, state.waiting), (10, 20_000));
    assert!(state.dropped_since.is_some());
    other.execute_batch("COMMIT").unwrap();
    by_hand.write();
    assert_eq!(by_hand.written(), 20_000);
    let state = by_hand.health.view();
    assert_eq!(
        (state.dropped, state.waiting, state.written),
        (10, 0, 20_000)
    );
}

#[test]
fn a_file_of_a_later_version_is_left_alone() {
    let mut by_hand = ByHand::new();
    by_hand.write();
    by_hand.writer.forget_store();
    schema::note_version(
        &Connection::open(&by_hand.path).unwrap(),
        schema::VERSION + 1,
    );
    by_hand.hand_over(1);
    by_hand.write();
    let state = by_hand.health.view();
    assert!(!state.writable);
    let failure = state.failure.unwrap();
    assert!(failure.contains("run that version again"), "{failure}");
    assert_eq!(by_hand.written(), 0);
    assert_eq!(state.set_aside, None);
}

#[tokio::test]
async fn a_question_without_end_is_broken_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let history = History::start(path, config::History::default()).unwrap();
    history.flush().await;
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let asked = history
        .readers
        .ask(move |connection| connection.query_row(endless, [], |row| row.get::<_, i64>(0)));
    assert_eq!(asked.await, Err(HistoryError::TooSlow));
    let query = RequestsQuery {
        limit: 1,
        ..RequestsQuery::default()
    };
    let page = history.requests(query, Vec::new).await.unwrap();
    assert!(page.requests.is_empty(), "the next question is answered");
}

#[tokio::test]
async fn what_was_handed_over_is_in_the_next_answer_and_survives_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let start = || History::start(path.clone(), config::History::default()).unwrap();
    let query = || RequestsQuery {
        limit: 10,
        ..RequestsQuery::default()
    };
    let history = start();
    history.push(Arc::new(request(1, 0)), Some("ci".into()));
    let page = history.requests(query(), Vec::new).await.unwrap();
    assert_eq!(page.requests, [request(1, 0)]);
    history.push(Arc::new(request(2, 1)), None);
    history.stop();
    drop(history);
    let history = start();
    let page = history.requests(query(), Vec::new).await.unwrap();
    assert_eq!(page.requests, [request(2, 1), request(1, 0)]);
    let keys = "requests WHERE key_name = 'ci'";
    assert_eq!(count(&Connection::open(&path).unwrap(), keys), 1);
}

#[tokio::test]
async fn a_question_waits_for_a_file_that_is_being_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let readers = Arc::new(Readers::new(path.clone(), Arc::default()));
    let count = |connection: &rusqlite::Connection| {
        connection.query_row("SELECT count(*) FROM requests", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    let asking = tokio::spawn(async move { readers.ask(count).await });
    // Time for the question to come first; the test holds whether it does or not.
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    Store::open(&path).unwrap();
    assert_eq!(asking.await.unwrap(), Ok(0));
}
