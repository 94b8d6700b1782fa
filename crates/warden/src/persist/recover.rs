//! What a journal's bytes still tell, whatever happened to them.
//!
//! Damage costs the records that it touches and no other: behind a place that is no whole record
//! the reading goes on at the next byte where one begins, which its checksum tells. So neither a
//! flipped bit nor a lost sector forgets the homes that stand behind it.

use std::{collections::HashMap, ops::Range};

use routing::{ConversationKey, Time};

use super::record::Record;

/// First bytes of the file: what it is, and the version of its records.
pub(super) const MAGIC: &[u8; 8] = b"LMWHOME1";

/// The outcome of a reading. It points into the bytes that were read: a journal of a hundred thousand
/// homes is written anew often enough that their copies would be felt.
#[derive(Debug)]
pub(super) struct Recovered<'a> {
    bytes: &'a [u8],
    /// The last record of each conversation that has a home, oldest activity first.
    last: Vec<Place>,
    /// Whole records, those of the same conversation each counted.
    pub(super) records: usize,
    /// Where the last whole one ends.
    pub(super) whole_bytes: usize,
    /// Bytes before that which belong to none.
    pub(super) damaged_bytes: usize,
}

/// Where a record stands.
#[derive(Debug)]
struct Place {
    last_active: Time,
    key: ConversationKey,
    bytes: Range<usize>,
}

impl<'a> Recovered<'a> {
    /// Reads the bytes of a journal, its first bytes included; those may be damaged too.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let mut last = HashMap::new();
        let (mut records, mut damaged_bytes) = (0, 0);
        let mut at = if bytes.starts_with(MAGIC) {
            MAGIC.len()
        } else {
            0
        };
        let mut whole_bytes = at;
        while at < bytes.len() {
            let mut rest = &bytes[at..];
            let Some(record) = Record::read(&mut rest) else {
                at += 1;
                continue;
            };
            damaged_bytes += at - whole_bytes;
            records += 1;
            whole_bytes = bytes.len() - rest.len();
            if let Record::Set { home, .. } = &record {
                last.insert(record.key(), (home.last_active, at..whole_bytes));
            } else {
                last.remove(&record.key());
            }
            at = whole_bytes;
        }
        let places = last.into_iter().map(|(key, (last_active, bytes))| Place {
            last_active,
            key,
            bytes,
        });
        let mut last: Vec<Place> = places.collect();
        last.sort_unstable_by_key(|place| (place.last_active, place.key));
        Self {
            bytes,
            last,
            records,
            whole_bytes,
            damaged_bytes,
        }
    }

    /// Conversations that have a home.
    pub(super) fn len(&self) -> usize {
        self.last.len()
    }

    /// The last record of each of them, oldest activity first.
    pub(super) fn homes(&self) -> Vec<Record> {
        let places = self.last.iter();
        let read = |place: &Place| Record::read(&mut &self.bytes[place.bytes.clone()]);
        places.filter_map(read).collect()
    }

    /// The bytes of a journal that tells exactly these.
    pub(super) fn anew(&self) -> Vec<u8> {
        let records = self.last.iter().map(|place| place.bytes.len());
        let mut anew = Vec::with_capacity(MAGIC.len() + records.sum::<usize>());
        anew.extend(MAGIC);
        for place in &self.last {
            anew.extend(&self.bytes[place.bytes.clone()]);
        }
        anew
    }
}

/// What holds of any bytes, for the fuzzer.
pub(crate) fn check(bytes: &[u8]) {
    let told = Recovered::of(bytes);
    assert!(told.whole_bytes <= bytes.len());
    assert!(told.damaged_bytes <= told.whole_bytes);
    assert!(told.len() <= told.records);
    let homes = told.homes();
    assert_eq!(homes.len(), told.len());
    let mut written = MAGIC.to_vec();
    for record in &homes {
        record.write(&mut written);
    }
    for anew in [written, told.anew()] {
        let again = Recovered::of(&anew);
        assert_eq!(again.homes(), homes);
        assert_eq!((again.whole_bytes, again.damaged_bytes), (anew.len(), 0));
    }
}
