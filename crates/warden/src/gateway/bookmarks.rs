//! Where the scans of recent conversations may go on: a bounded table of the scanner's bookmarks.
//!
//! A slot holds the bookmark of one conversation, found by what stays the same from turn to turn and
//! is known before the body is read: its owner, the ids in the headers, and samples of the body's
//! beginning. Two conversations in one slot take turns and are then scanned whole; a bookmark
//! checks itself against the bytes, so nothing else can come of it.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Mutex, PoisonError},
};

use routing::OwnerId;
use vllm::{BodyError, BodyFacts, Bookmark, Dialect, Digests, HeaderIds};

/// Conversations remembered; at most 3 KiB each.
const SLOTS: usize = 8192;

/// Where a body is sampled, to tell conversations apart that share a client's long system prompt.
const SAMPLES: [usize; 5] = [0, 2048, 8192, 16_384, 24_576];
const SAMPLE_BYTES: usize = 128;

/// See the module.
#[derive(Debug)]
pub(super) struct Bookmarks {
    slots: Box<[Mutex<Option<Box<Bookmark>>>]>,
    keys: RandomState,
    /// Another one in each process, so that nobody can make up bytes that are taken for others.
    seed: u64,
}

impl Bookmarks {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            keys: RandomState::new(),
            seed: RandomState::new().hash_one(()),
        }
    }

    /// The facts of a body, scanned from where the conversation's last one was left.
    pub(super) fn scan<'a>(
        &self,
        dialect: Dialect,
        (owner, ids): (OwnerId, &HeaderIds<'_>),
        body: &'a [u8],
    ) -> Result<BodyFacts<'a>, BodyError> {
        if body.len() < Bookmark::BYTES_MIN {
            return vllm::scan(dialect, Digests::Prompt, body);
        }
        let slot = &self.slots[self.slot(owner, ids, body)];
        let before = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (facts, after) = vllm::scan_on(dialect, body, before.as_deref(), self.seed)?;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = after.or(before);
        Ok(facts)
    }

    fn slot(&self, owner: OwnerId, ids: &HeaderIds<'_>, body: &[u8]) -> usize {
        let mut hasher = self.keys.build_hasher();
        (owner, ids).hash(&mut hasher);
        for begin in SAMPLES {
            let sample = body.get(begin..begin + SAMPLE_BYTES);
            hasher.write(sample.unwrap_or_default());
        }
        hasher.finish() as usize % SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(messages: usize) -> Vec<u8> {
        let text = "a\\n".repeat(600);
        let message = |number| format!(r#"{{"role":"user","content":"{number} {text}"}}"#);
        let messages: Vec<_> = (0..messages).map(message).collect();
        format!(r#"{{"model":"demo","messages":[{}]}}"#, messages.join(",")).into_bytes()
    }

    fn kept(bookmarks: &Bookmarks) -> usize {
        let slots = bookmarks.slots.iter();
        slots.filter(|slot| slot.lock().unwrap().is_some()).count()
    }

    #[test]
    fn a_conversation_keeps_one_and_its_facts_stay_those_of_a_whole_scan() {
        let bookmarks = Bookmarks::new();
        let ids = HeaderIds {
            claude_code_session_id: Some(b"3f2a"),
            ..HeaderIds::default()
        };
        for messages in [30, 31, 35, 30] {
            let body = body(messages);
            let who = (OwnerId(1), &ids);
            let facts = bookmarks.scan(Dialect::Messages, who, &body).unwrap();
            let whole = vllm::scan(Dialect::Messages, Digests::Prompt, &body).unwrap();
            assert_eq!(facts, whole);
            assert_eq!(kept(&bookmarks), 1);
        }
    }

    #[test]
    fn other_owners_and_sessions_have_their_own() {
        let bookmarks = Bookmarks::new();
        let body = body(30);
        let ids = HeaderIds::default();
        for owner in 1..=50 {
            let who = (OwnerId(owner), &ids);
            bookmarks.scan(Dialect::Messages, who, &body).unwrap();
        }
        // Two of them share a slot once in a while.
        assert!(kept(&bookmarks) >= 45);
    }

    #[test]
    fn a_broken_body_leaves_none() {
        let bookmarks = Bookmarks::new();
        let mut body = body(30);
        body.pop();
        let who = (OwnerId(1), &HeaderIds::default());
        assert!(bookmarks.scan(Dialect::Messages, who, &body).is_err());
        assert_eq!(kept(&bookmarks), 0);
    }
}
