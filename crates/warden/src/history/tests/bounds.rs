//! Age, size and version of the file.

use super::*;

const DAY_S: u64 = 86_400;

#[test]
fn what_is_too_old_goes_in_small_steps() {
    let old = (0..1_200).map(|n| request(n, n));
    let young = (1_200..1_210).map(|n| request(n, 40 * DAY_S * 1000 + n));
    let mut file = File::with(old.chain(young));
    let now_s = START_S + 41 * DAY_S;
    let mut steps = 0;
    while file.store.tidy(now_s, ROOM).unwrap() {
        steps += 1;
        let left = file.count("requests");
        assert!(left >= 1_210 - steps * 500, "{left} after {steps} steps");
    }
    assert_eq!(file.count("requests"), 10);
    assert!(steps >= 2, "{steps}");
    let oldest = file.store.measure().unwrap().1.unwrap();
    assert!(oldest > (START_S + 40 * DAY_S) as f64, "{oldest}");
    let hours = "rollups WHERE step_s = 3600";
    assert_eq!(file.count(hours), 1, "the old hour went with its requests");
}

#[test]
fn fine_roll_ups_go_before_coarse_ones() {
    let mut file = File::with([request(1, 0)]);
    let steps = |file: &File| -> Vec<i64> {
        let connection = file.reader();
        let mut statement = connection.prepare("SELECT step_s FROM rollups").unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    for (age_s, left) in [
        (60, vec![10, 60, 3600]),
        (3 * 3600, vec![60, 3600]),
        (9 * DAY_S, vec![3600]),
    ] {
        while file.store.tidy(START_S + age_s, ROOM).unwrap() {}
        assert_eq!(steps(&file), left, "after {age_s} s");
    }
    assert_eq!(file.count("requests"), 1);
}

#[test]
fn what_is_too_large_loses_its_oldest_and_gives_the_disk_back() {
    let mut file = File::with((0..5_000).map(|n| request(n, n)));
    let (before, _) = file.store.measure().unwrap();
    let bounds = Bounds {
        bytes_max: 512 << 10,
        ..ROOM
    };
    let mut steps = 0;
    while file.store.tidy(START_S + 60, bounds).unwrap() {
        steps += 1;
        assert!(steps < 200, "no end");
    }
    let left = file.count("requests");
    assert!((1..2_500).contains(&left), "{left} left");
    let youngest = "requests WHERE arrived_us = (1800000000000 + 4999) * 1000";
    assert_eq!(file.count(youngest), 1);
    let main = std::fs::metadata(&file.path).unwrap().len();
    file.reader()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let after = std::fs::metadata(&file.path).unwrap().len();
    assert!(
        after <= 600 << 10,
        "{before} bytes became {after} (main file {main})"
    );
}

/// A file of each older version, with a request in it as that version wrote them.
#[test]
fn a_file_of_any_older_version_is_brought_up_to_date_with_what_is_in_it() {
    let rows = [
        "",
        "INSERT INTO requests (id, arrived_us, ended_us, api, scores, model, route, ending)
         VALUES (zeroblob(16), 1800000000000000, 1800000000100000, 'messages', '[]', 'demo',
            'sticky', 'complete')",
        "INSERT INTO requests (id, arrived_us, ended_us, api, scores, model, route, ending, cold, side)
         VALUES (zeroblob(16), 1800000000000000, 1800000000100000, 'messages', '[]', 'demo',
            'sticky', 'complete', 'of no version', 1)",
        "INSERT INTO requests (id, arrived_us, ended_us, api, scores, model, route, ending, cold, side)
         VALUES (zeroblob(16), 1800000000000000, 1800000000100000, 'messages', '[]', 'demo',
            'spilled', 'cut', 'of no version', 1)",
    ];
    assert_eq!(rows.len(), schema::VERSION + 1, "a row for each version");
    for (version, row) in rows.into_iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.sqlite");
        let mut connection = Connection::open(&path).unwrap();
        schema::create(&mut connection, version);
        connection.execute_batch(row).unwrap();
        drop(connection);
        let mut store = Store::open(&path).unwrap();
        store.write(&batch([request(7, 500)])).unwrap();
        drop(store);
        let connection = Connection::open(&path).unwrap();
        let query = RequestsQuery {
            limit: 10,
            ..RequestsQuery::default()
        };
        let found = query.page(Vec::new(), 0, query.ask(&connection, 0, 10).unwrap());
        assert_eq!(
            found.requests.len(),
            1 + usize::from(version > 0),
            "version {version}"
        );
        assert_eq!(found.requests[0], request(7, 500));
        let versions = count(&connection, "schema_versions") as usize;
        assert_eq!(versions, schema::VERSION);
    }
}
