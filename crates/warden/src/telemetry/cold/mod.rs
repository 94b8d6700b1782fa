//! The last turn of each conversation, by which the next one is judged: how long the silence was,
//! whether it is cold and why, and whether the client changes its billing block.
//!
//! A table of its own, bounded to the conversations that spoke last, each at most 2 KB. What makes a
//! turn cold is `routing`'s to say, and where a prompt changed is `vllm`'s; here the two are brought
//! together. Side requests are not noted: they neither are cold nor make the next turn so.
//!
//! The table ends with the process. What the history tells of the turns before it (where and when, not
//! the prompt) is put in at the start, and serves each conversation's first turn here.

mod words;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use routing::{Cold, ConversationKey, MainLineage, Prefix, ReplicaIndex, ServedTurn, why_cold};
use vllm::{PromptChain, PromptChange, PromptSection};

/// Conversations remembered; those that spoke longest ago go first.
const CONVERSATIONS_MAX: usize = 20_000;

/// What a request's prompt is compared by, from its arrival to its end.
#[derive(Debug, Clone)]
pub struct PromptNote {
    /// What the router was asked.
    pub request: routing::Request,
    /// The prompt's parts.
    pub chain: Box<PromptChain>,
}

/// A conversation's last turn under an earlier process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecalledTurn {
    /// Its main lineage.
    pub lineage: u64,
    /// How it was served.
    pub served: ServedTurn,
}

/// What a turn shows, held against the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finding {
    /// Between the end of the reply before and its arrival.
    pub(super) gap: Duration,
    pub(super) cold: Option<ColdTurn>,
}

/// A cold turn and what is known about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ColdTurn {
    cold: Cold,
    /// Where the turn before was served.
    from: Option<ReplicaIndex>,
    to: Option<ReplicaIndex>,
    change: Option<PromptChange>,
}

/// The outcome for one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Note {
    /// A side request.
    Side,
    /// The first turn that is known of its conversation.
    First,
    /// A later one.
    Turn(Finding),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LastTurns {
    entries: HashMap<ConversationKey, Box<Entry>>,
    /// Oldest use first.
    uses: BTreeMap<u64, ConversationKey>,
    next_use: u64,
    /// What an earlier process served last, until the conversation speaks.
    recalled: HashMap<ConversationKey, RecalledTurn>,
    /// Conversations with an alarm, by model.
    alarms: BTreeMap<Arc<str>, u32>,
}

#[derive(Debug)]
struct Entry {
    model: Arc<str>,
    main: MainLineage,
    chain: Box<PromptChain>,
    last: ServedTurn,
    used: u64,
    turns: u32,
    billing_changes: u32,
}

impl LastTurns {
    /// Takes note of a request that ended well. `cache_since` is when its replica's cache last began
    /// empty.
    pub(super) fn note(
        &mut self,
        model: &Arc<str>,
        prompt: PromptNote,
        served: ServedTurn,
        cache_since: routing::Time,
    ) -> Option<Note> {
        let request = prompt.request;
        let key = request.identity?.conversation;
        let note = self.note_prompt(model, key, prompt, (served, cache_since));
        if note == Note::First
            && let Some(recalled) = self.recalled.get(&key).copied()
            && recalled.is_continued_by(&request)
        {
            self.recalled.remove(&key);
            return Some(recalled.judge(served, cache_since));
        }
        Some(note)
    }

    /// Takes note of what an earlier process served last; at the start, so that no turn is older.
    pub(super) fn recall(
        &mut self,
        turns: impl IntoIterator<Item = (ConversationKey, RecalledTurn)>,
    ) {
        let room = CONVERSATIONS_MAX.saturating_sub(self.recalled.len());
        self.recalled.extend(turns.into_iter().take(room));
    }

    fn note_prompt(
        &mut self,
        model: &Arc<str>,
        key: ConversationKey,
        prompt: PromptNote,
        (served, cache_since): (ServedTurn, routing::Time),
    ) -> Note {
        let Some(mut entry) = self.entries.remove(&key) else {
            self.insert(key, Box::new(Entry::first(model, prompt, served)));
            return Note::First;
        };
        self.uses.remove(&entry.used);
        let had_alarm = entry.billing_changes > 0;
        let note = entry.note(prompt, served, cache_since);
        if !had_alarm && entry.billing_changes > 0 {
            *self.alarms.entry(Arc::clone(&entry.model)).or_default() += 1;
        }
        self.insert(key, entry);
        note
    }

    /// The alarm of one conversation.
    pub(super) fn alarm(&self, key: ConversationKey) -> Option<api::Alarm> {
        let entry = self.entries.get(&key)?;
        (entry.billing_changes > 0).then(|| words::alarm(entry.billing_changes, entry.turns))
    }

    /// The alarm of a model's conversations together.
    pub(super) fn alarm_of_model(&self, model: &str) -> Option<api::Alarm> {
        let conversations = self.alarms.get(model).copied().unwrap_or(0);
        (conversations > 0).then(|| words::alarm_of_many(conversations))
    }

    fn insert(&mut self, key: ConversationKey, mut entry: Box<Entry>) {
        entry.used = self.next_use;
        self.next_use += 1;
        self.uses.insert(entry.used, key);
        self.entries.insert(key, entry);
        while self.entries.len() > CONVERSATIONS_MAX {
            let Some((_, oldest)) = self.uses.pop_first() else {
                break;
            };
            let gone = self.entries.remove(&oldest);
            if let Some(gone) = gone.filter(|gone| gone.billing_changes > 0)
                && let Some(count) = self.alarms.get_mut(&gone.model)
            {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Memory held, in bytes: entries and both indexes.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        // A map's slot has its pair and a control byte; a tree's node is at least half full.
        let index = self.entries.capacity() * (size_of::<(ConversationKey, Box<Entry>)>() + 1) * 8
            / 7
            + self.uses.len() * size_of::<(u64, ConversationKey)>() * 2;
        let entry = |entry: &Entry| size_of::<Entry>() + entry.chain.memory_bytes();
        index + self.entries.values().map(|one| entry(one)).sum::<usize>()
    }
}

impl RecalledTurn {
    /// Whether a request is the conversation's next turn, as far as that can be told without the
    /// prompt: by the client's word, or since tools and system are the same.
    fn is_continued_by(&self, request: &routing::Request) -> bool {
        match request.class {
            routing::RequestClass::Turn => true,
            routing::RequestClass::Side => false,
            routing::RequestClass::Unknown => request.lineage == self.lineage,
        }
    }

    fn judge(&self, now: ServedTurn, cache_since: routing::Time) -> Note {
        Note::Turn(Finding::of(
            [self.served, now],
            cache_since,
            Prefix::Unknown,
            None,
        ))
    }
}

impl Entry {
    fn first(model: &Arc<str>, prompt: PromptNote, served: ServedTurn) -> Self {
        let mut main = MainLineage::default();
        main.begin_turn(&prompt.request);
        Self {
            model: Arc::clone(model),
            main,
            chain: prompt.chain,
            last: served,
            used: 0,
            turns: 1,
            billing_changes: 0,
        }
    }

    fn note(&mut self, prompt: PromptNote, now: ServedTurn, cache_since: routing::Time) -> Note {
        let PromptNote { request, chain } = prompt;
        // A system prompt that changes makes another lineage, and is still the same conversation.
        let carries_on =
            request.class != routing::RequestClass::Side && chain.carries_on(&self.chain);
        let had_other_lineage = self.main.lineage() != request.lineage;
        if !carries_on && !self.main.takes_turn(&request) {
            self.main.begin_side(&request);
            return Note::Side;
        }
        self.main.begin_turn(&request);
        let before = std::mem::replace(&mut self.last, now);
        let earlier = std::mem::replace(&mut self.chain, chain);
        if had_other_lineage && !carries_on {
            // What was taken for the conversation turns out to have been something else.
            self.turns = 1;
            return Note::First;
        }
        self.turns = self.turns.saturating_add(1);
        let change = self.chain.change_since(&earlier);
        // The block of Claude Code 2.1.332 depends on the first message, so compaction changes it once.
        let goes_on = change.is_none_or(|change| change.section != PromptSection::Messages);
        let is_billed_anew = goes_on && self.chain.billing_differs(&earlier);
        self.billing_changes += u32::from(is_billed_anew);
        let prefix = match change {
            Some(change) => Prefix::Changed {
                kept: change.kept_bytes as f64 / earlier.bytes().max(1) as f64,
            },
            None if is_billed_anew => Prefix::OtherBilling,
            None => Prefix::Same,
        };
        Note::Turn(Finding::of([before, now], cache_since, prefix, change))
    }
}

impl Finding {
    /// What the last two turns tell; the engine of the second has its cache since `cache_since`.
    fn of(
        [before, now]: [ServedTurn; 2],
        cache_since: routing::Time,
        prefix: Prefix,
        change: Option<PromptChange>,
    ) -> Self {
        let is_restarted = cache_since > before.ended;
        let cold = why_cold(&before, &now, is_restarted, prefix);
        Self {
            gap: now.arrived.since(before.ended),
            cold: cold.map(|cold| ColdTurn {
                cold,
                from: before.replica,
                to: now.replica,
                change,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
