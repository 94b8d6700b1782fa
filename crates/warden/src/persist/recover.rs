//! What a journal's bytes still tell, whatever happened to them.
//!
//! Damage costs the records that it touches and no other: behind a place that is no whole record
//! the reading goes on at the next byte where one begins, which its checksum tells. So neither a
//! flipped bit nor a lost sector forgets the homes that stand behind it.

use std::collections::HashMap;

use routing::Time;

use super::record::Record;

/// First bytes of the file: what it is, and the version of its records.
pub(super) const MAGIC: &[u8; 8] = b"LMWHOME1";

/// The outcome of a reading.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    /// The last record of each conversation that has a home, oldest activity first.
    pub(super) homes: Vec<Record>,
    /// Whole records, those of the same conversation each counted.
    pub(super) records: usize,
    /// Where the last whole one ends.
    pub(super) whole_bytes: usize,
    /// Bytes before that which belong to none.
    pub(super) damaged_bytes: usize,
}

impl Recovered {
    /// Reads the bytes of a journal, its first bytes included; those may be damaged too.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut recovered = Self::default();
        let mut last = HashMap::new();
        let mut at = if bytes.starts_with(MAGIC) {
            recovered.whole_bytes = MAGIC.len();
            MAGIC.len()
        } else {
            0
        };
        while at < bytes.len() {
            let mut rest = &bytes[at..];
            let Some(record) = Record::read(&mut rest) else {
                at += 1;
                continue;
            };
            recovered.damaged_bytes += at - recovered.whole_bytes;
            recovered.records += 1;
            last.insert(record.key(), record);
            at = bytes.len() - rest.len();
            recovered.whole_bytes = at;
        }
        recovered.homes = last
            .into_values()
            .filter(|record| matches!(record, Record::Set { .. }))
            .collect();
        recovered.homes.sort_by_key(|record| match record {
            Record::Set { home, .. } => (home.last_active, record.key()),
            Record::Forget(key) => (Time(0), *key),
        });
        recovered
    }
}

/// What holds of any bytes, for the fuzzer.
pub(crate) fn check(bytes: &[u8]) {
    let told = Recovered::of(bytes);
    assert!(told.whole_bytes <= bytes.len());
    assert!(told.damaged_bytes <= told.whole_bytes);
    assert!(told.homes.len() <= told.records);
    let mut anew = MAGIC.to_vec();
    for record in &told.homes {
        record.write(&mut anew);
    }
    let again = Recovered::of(&anew);
    assert_eq!(again.homes, told.homes);
    assert_eq!((again.whole_bytes, again.damaged_bytes), (anew.len(), 0));
}
