//! Every damage of a small size at every place of a journal: it costs the records that it touches,
//! and no other.

use std::ops::Range;

use super::*;
use crate::persist::recover::{MAGIC, Recovered};

/// A journal in which conversations come again and are forgotten, and where each record stands.
fn journal() -> (Vec<u8>, Vec<(Range<usize>, Record)>) {
    // Keys without a byte that stands twice, so that bytes lost here are not those lost there.
    let home = |key: u128, at| home(key << 120 | 0x01_0203_0405_0607_0809_0a0b_0c0d_0e0f, at);
    let mut bytes = MAGIC.to_vec();
    let mut records = Vec::new();
    for record in [
        home(1, 10),
        home(2, 11),
        home(3, 12),
        home(1, 13),
        Record::Forget(home(2, 0).key()),
        home(4, 14),
    ] {
        let start = bytes.len();
        record.write(&mut bytes);
        records.push((start..bytes.len(), record));
    }
    (bytes, records)
}

/// The homes of a journal in which only the records outside the damage were ever written.
fn told_without(records: &[(Range<usize>, Record)], damage: &Range<usize>) -> Vec<Record> {
    let mut bytes = MAGIC.to_vec();
    for (place, record) in records {
        if place.end <= damage.start || damage.end <= place.start {
            record.write(&mut bytes);
        }
    }
    Recovered::of(&bytes).homes()
}

#[test]
fn a_flipped_bit_costs_one_record_wherever_it_is() {
    let (whole, records) = journal();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let told = Recovered::of(&bytes).homes();
            assert_eq!(
                told,
                told_without(&records, &(at..at + 1)),
                "bit {bit} of byte {at}"
            );
        }
    }
}

#[test]
fn lost_or_overwritten_bytes_cost_the_records_they_stood_in() {
    let (whole, records) = journal();
    for length in [1, 2, 3, 7, 64, 300] {
        for at in 0..=whole.len() - length {
            let damage = at..at + length;
            let expected = told_without(&records, &damage);
            let mut lost = whole.clone();
            lost.drain(damage.clone());
            assert_eq!(Recovered::of(&lost).homes(), expected, "{damage:?} lost");
            for filler in [0, 0xff, b'L'] {
                let mut bytes = whole.clone();
                bytes[damage.clone()].fill(filler);
                // What already stood there is no damage.
                if bytes != whole {
                    let changed = (at..at + length).filter(|&byte| bytes[byte] != whole[byte]);
                    let changed = changed.clone().min().unwrap()..changed.max().unwrap() + 1;
                    let expected = told_without(&records, &changed);
                    assert_eq!(
                        Recovered::of(&bytes).homes(),
                        expected,
                        "{damage:?} {filler}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_truncation_costs_what_stood_behind_it() {
    let (whole, records) = journal();
    for end in 0..whole.len() {
        let told = Recovered::of(&whole[..end]).homes();
        assert_eq!(told, told_without(&records, &(end..whole.len())), "{end}");
    }
}

/// The file itself: after any flip it opens, tells what it can, takes more, and is whole again.
#[test]
fn a_damaged_file_is_made_whole_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let (whole, records) = journal();
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let (mut journal, mut homes) = Journal::open(&path).unwrap();
        assert_eq!(homes, told_without(&records, &(at..at + 1)), "byte {at}");
        journal.append(&[home(9, 99)]).unwrap();
        drop(journal);
        homes.push(home(9, 99));
        let bytes = fs::read(&path).unwrap();
        let again = Recovered::of(&bytes);
        assert_eq!(
            (again.homes(), again.damaged_bytes),
            (homes, 0),
            "byte {at}"
        );
        assert_eq!(again.whole_bytes, bytes.len(), "byte {at}");
    }
    assert!(!path.with_extension("damaged").exists());
}
