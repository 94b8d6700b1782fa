//! What a replica's prefix cache is believed to hold: the own tokens of the active conversations
//! that live there, and the prefixes they share, each counted once.
//!
//! vLLM's own gauge sees active requests only, so this ledger is the only measure of a cache that
//! idle conversations fill. It is a belief: conversations are charged at home, whatever was evicted,
//! and everything is dropped when the engine restarts.

/// Shared prefixes that are told apart per replica. A box serves a handful (one per client version
/// and kind of agent); past this, a conversation's shared tokens count as its own.
const PREFIXES_MAX: usize = 32;

/// One prefix (tools and system) that conversations share.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    lineage: u64,
    tokens: u32,
    conversations: u32,
}

/// Proof that a conversation was added, needed to take it off again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    epoch: u32,
    own_tokens: u32,
    /// Its lineage is among the prefixes; else `own_tokens` includes the shared ones.
    shares_prefix: bool,
}

/// What one conversation weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The lineage its shared tokens belong to.
    pub(crate) lineage: u64,
    /// Tokens of the prefix that others share.
    pub(crate) shared_tokens: u32,
    /// Tokens that only this conversation has.
    pub(crate) own_tokens: u32,
}

/// The ledger of one replica.
#[derive(Debug, Default)]
pub(super) struct CacheLedger {
    /// Counts the engine's restarts; charges of an earlier one are void.
    epoch: u32,
    own_tokens: u64,
    /// Sum over `prefixes`.
    shared_tokens: u64,
    prefixes: Vec<Prefix>,
}

impl CacheLedger {
    /// Adds a conversation.
    pub(super) fn add(&mut self, weight: Weight) -> Charge {
        let shares_prefix = weight.shared_tokens > 0 && self.add_prefix(weight);
        let own_tokens = if shares_prefix {
            weight.own_tokens
        } else {
            weight.own_tokens.saturating_add(weight.shared_tokens)
        };
        self.own_tokens += u64::from(own_tokens);
        Charge {
            epoch: self.epoch,
            own_tokens,
            shares_prefix,
        }
    }

    /// Takes a conversation off that was added with this lineage.
    pub(super) fn remove(&mut self, charge: Charge, lineage: u64) {
        if charge.epoch != self.epoch {
            return;
        }
        self.own_tokens -= u64::from(charge.own_tokens);
        if !charge.shares_prefix {
            return;
        }
        let position = self.prefixes.iter().position(|p| p.lineage == lineage);
        let position = position.expect("a prefix stays while a conversation is charged to it");
        self.prefixes[position].conversations -= 1;
        if self.prefixes[position].conversations == 0 {
            let gone = self.prefixes.swap_remove(position);
            self.shared_tokens -= u64::from(gone.tokens);
        }
    }

    /// The engine's process is another: its cache is empty.
    pub(super) fn forget(&mut self) {
        *self = Self {
            epoch: self.epoch.wrapping_add(1),
            ..Self::default()
        };
    }

    /// All tokens believed to be held, each shared prefix once.
    pub(super) fn tokens(&self) -> u64 {
        self.own_tokens + self.shared_tokens
    }

    /// Tokens of the prefixes that conversations share.
    pub(super) fn shared_tokens(&self) -> u64 {
        self.shared_tokens
    }

    /// Own tokens held for a conversation that was added, if that still holds.
    pub(super) fn tokens_of(&self, charge: Charge) -> u64 {
        if charge.epoch == self.epoch {
            u64::from(charge.own_tokens)
        } else {
            0
        }
    }

    /// Whether a prompt fits within so many tokens beside all that is held, of which `replaced` are
    /// its own conversation's. The prefixes are searched only where it depends on them.
    pub(super) fn fits(&self, prompt: Weight, replaced: u64, kv_tokens: u64) -> bool {
        let with_own = self.tokens() + u64::from(prompt.own_tokens) - replaced;
        let with_all = with_own + u64::from(prompt.shared_tokens);
        with_all <= kv_tokens
            || (with_own <= kv_tokens && self.prefixes.iter().any(|p| p.lineage == prompt.lineage))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.prefixes.capacity() * size_of::<Prefix>()
    }

    /// Counts a conversation to its prefix; false where there is no room for another prefix.
    fn add_prefix(&mut self, weight: Weight) -> bool {
        if let Some(prefix) = self
            .prefixes
            .iter_mut()
            .find(|p| p.lineage == weight.lineage)
        {
            // The newest figure is the best measured one.
            self.shared_tokens += u64::from(weight.shared_tokens);
            self.shared_tokens -= u64::from(prefix.tokens);
            prefix.tokens = weight.shared_tokens;
            prefix.conversations += 1;
            return true;
        }
        if self.prefixes.len() >= PREFIXES_MAX {
            return false;
        }
        self.shared_tokens += u64::from(weight.shared_tokens);
        self.prefixes.push(Prefix {
            lineage: weight.lineage,
            tokens: weight.shared_tokens,
            conversations: 1,
        });
        true
    }
}
