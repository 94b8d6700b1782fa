//! Which of the requests that share a conversation's id are its turns, and which are side requests
//! of another lineage (a title, the summary of a fetched page).
//!
//! The client's word counts where it gave one; else the lineage with the longest prompt is the main
//! one. A long page that is to be summarised is not: its length is in its message, while an agent's is in
//! its tools and system prompt, or in what was said so far. So a longer prompt takes over at once only
//! with a longer head, and later also where it goes on with something that was answered before.

use crate::table::saturating;
use crate::{Request, RequestClass};

/// Turns after which one request of another lineage no longer makes that the main one: by then a
/// longer prompt is more likely a summary of a large page than a conversation that began with its
/// title.
const ESTABLISHED_TURNS: u32 = 2;

/// The lineage whose requests are a conversation's turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MainLineage {
    lineage: u64,
    /// What stands for another lineage that was longer than the main one in the last request but the
    /// main's; 0 for none.
    rival: u32,
    /// Prompt bytes of the main lineage's last turn; 0 where they are not known any more.
    prompt_bytes: u32,
    /// Of these, tools and system.
    head_bytes: u32,
    turns: u32,
}

impl MainLineage {
    /// As it was written down.
    pub(crate) fn restored(lineage: u64, turns: u32) -> Self {
        Self {
            lineage,
            turns,
            ..Self::default()
        }
    }

    /// Hash of its tools + system.
    pub fn lineage(&self) -> u64 {
        self.lineage
    }

    /// Turns so far.
    pub(crate) fn turns(&self) -> u32 {
        self.turns
    }

    /// Whether a request is a turn. A longer lineage takes over from a first turn at once where its
    /// head is longer too, and else only with its second request in a row.
    pub fn takes_turn(&self, request: &Request) -> bool {
        match request.class {
            RequestClass::Turn => true,
            RequestClass::Side => false,
            RequestClass::Unknown => {
                self.turns == 0
                    || request.lineage == self.lineage
                    || (self.is_outgrown_by(request) && self.gives_way_to(request))
            }
        }
    }

    /// Takes note of a turn's lineage and size.
    pub fn begin_turn(&mut self, request: &Request) {
        // What came before the main lineage's first turn turns out to have been a side request.
        self.turns = if self.begins_anew_with(request) {
            1
        } else {
            self.turns.saturating_add(1)
        };
        self.lineage = request.lineage;
        self.rival = 0;
        self.prompt_bytes = saturating(request.prompt_bytes);
        self.head_bytes = saturating(request.shared_bytes);
    }

    /// Takes note of a side request.
    pub fn begin_side(&mut self, request: &Request) {
        if request.class == RequestClass::Unknown && self.is_outgrown_by(request) {
            self.rival = rival(request);
        }
    }

    /// Whether a turn shows that those before it were side requests.
    fn begins_anew_with(&self, request: &Request) -> bool {
        request.class == RequestClass::Unknown
            && request.lineage != self.lineage
            && self.turns < ESTABLISHED_TURNS
    }

    /// Whether a longer lineage shows by more than its length that it is the main one.
    fn gives_way_to(&self, request: &Request) -> bool {
        let has_longer_head =
            self.prompt_bytes > 0 && saturating(request.shared_bytes) > self.head_bytes;
        if self.rival == rival(request) {
            has_longer_head || request.front != 0
        } else {
            has_longer_head && self.turns < ESTABLISHED_TURNS
        }
    }

    /// Whether another lineage's prompt is longer than the main one's last.
    fn is_outgrown_by(&self, request: &Request) -> bool {
        request.lineage != self.lineage && saturating(request.prompt_bytes) > self.prompt_bytes
    }
}

/// Never 0.
fn rival(request: &Request) -> u32 {
    request.lineage as u32 | 1
}
