//! A prompt's running digests at its parts' boundaries: what tells the first part in which two
//! prompts differ.
//!
//! Each section (tools, system, messages) keeps the digest of everything through each of its parts,
//! so two prompts are compared mark by mark, and the first mark that differs names the part. The
//! digests are those that the scan has anyway. A chain is bounded: a section with more parts than
//! marks keeps every second, fourth, … one, and a change is then named as a range of parts. Digests
//! are cut to 32 bits, since one that is equal by chance only names the part after.

/// Most marks of the tools, of the system blocks and of the messages.
const MARKS_MAX: [usize; 3] = [64, 16, 128];

/// What a run of prompt parts belongs to, in prompt order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PromptSection {
    /// Definitions of tools.
    Tools,
    /// Blocks of `system` or `instructions`; the billing block is not among them.
    System,
    /// Messages or input items.
    Messages,
}

/// The first place where a prompt differs from an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptChange {
    /// Where it is.
    pub section: PromptSection,
    /// The first part that may have changed, from 1.
    pub first: u32,
    /// The last part among which the first change is: `first`, unless the chain had to be thinned.
    pub last: u32,
    /// Whether that part is a system message at the front of the messages.
    pub is_front: bool,
    /// Bytes of prompt text before `first`, in prompt order: what both prompts share.
    pub kept_bytes: u64,
}

/// The digests of one prompt, at most about 1.8 KB.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptChain {
    tools: Trail,
    system: Trail,
    messages: Trail,
    /// System messages at the front of the messages.
    front: u32,
    /// Digest of the billing block, which the engine does not see.
    billing: Option<u32>,
}

/// Digest and size of a section up to some boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark {
    digest: u32,
    bytes: u32,
}

/// The marks of one section: after every `stride` parts, and at its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Trail {
    marks: Vec<Mark>,
    /// Between two marks there are 2 to the power of this many parts.
    stride_log2: u8,
    parts: u32,
    end: Mark,
}

impl PromptChain {
    pub(super) fn new(
        [tools, system, messages]: [Trail; 3],
        front: u32,
        billing: Option<u64>,
    ) -> Self {
        Self {
            tools,
            system,
            messages,
            front,
            billing: billing.map(|digest| digest as u32),
        }
    }

    /// The first part that is not as it was in `before`; `None` where this prompt only adds messages
    /// to it, or ends within it.
    pub fn change_since(&self, before: &Self) -> Option<PromptChange> {
        let mut kept_bytes = 0;
        for (section, now, then) in self.sections(before) {
            let is_last = section == PromptSection::Messages;
            if let Some((first, last, bytes)) = now.difference(then, is_last) {
                return Some(PromptChange {
                    section,
                    first,
                    last,
                    is_front: is_last && last <= self.front,
                    kept_bytes: kept_bytes + bytes,
                });
            }
            kept_bytes += u64::from(now.end.bytes);
        }
        None
    }

    /// Whether this prompt goes on with the messages of `before`, through one of the assistant's at
    /// least, under tools and a system prompt that may have changed. A side request that shares the
    /// session's id has other messages, or lacks the tools.
    pub fn carries_on(&self, before: &Self) -> bool {
        let is_alike = |now: &Trail, then: &Trail| (now.parts == 0) == (then.parts == 0);
        before.messages.parts > before.front + 1
            && self.messages.parts > before.messages.parts
            && is_alike(&self.tools, &before.tools)
            && is_alike(&self.system, &before.system)
            && self.messages.common(&before.messages) > before.front + 1
            && self.messages.difference(&before.messages, true).is_none()
    }

    /// Whether both have a billing block, and not the same.
    pub fn billing_differs(&self, before: &Self) -> bool {
        self.billing.is_some() && before.billing.is_some() && self.billing != before.billing
    }

    /// Bytes of prompt text in all.
    pub fn bytes(&self) -> u64 {
        [&self.tools, &self.system, &self.messages]
            .map(|trail| u64::from(trail.end.bytes))
            .iter()
            .sum()
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let trails = [&self.tools, &self.system, &self.messages];
        size_of::<Self>() + trails.map(Trail::memory_bytes).iter().sum::<usize>()
    }

    fn sections<'a>(&'a self, other: &'a Self) -> [(PromptSection, &'a Trail, &'a Trail); 3] {
        [
            (PromptSection::Tools, &self.tools, &other.tools),
            (PromptSection::System, &self.system, &other.system),
            (PromptSection::Messages, &self.messages, &other.messages),
        ]
    }
}

impl Trail {
    /// The section goes on to here: digest and bytes of everything in it so far.
    #[inline]
    pub(super) fn mark(&mut self, section: PromptSection, digest: u64, bytes: u64) {
        self.parts = self.parts.saturating_add(1);
        self.end = Mark {
            digest: digest as u32,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        if !self.parts.is_multiple_of(1 << self.stride_log2) {
            return;
        }
        if self.marks.len() == MARKS_MAX[section as usize] {
            self.thin();
            if !self.parts.is_multiple_of(1 << self.stride_log2) {
                return;
            }
        }
        self.marks.push(self.end);
    }

    /// Memory held besides itself, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>()
    }

    /// Drops every second mark.
    #[cold]
    fn thin(&mut self) {
        let mut is_kept = true;
        self.marks.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
        self.stride_log2 += 1;
    }

    /// The mark after so many parts, where there is one.
    fn after(&self, parts: u32) -> Option<Mark> {
        if parts == self.parts {
            return Some(self.end);
        }
        let is_marked = parts.is_multiple_of(1 << self.stride_log2);
        let index = (parts >> self.stride_log2).checked_sub(1)?;
        is_marked.then(|| self.marks.get(index as usize).copied())?
    }

    /// The boundaries at which both have a mark, in parts, ascending.
    fn boundaries(&self, other: &Self) -> impl Iterator<Item = u32> {
        let stride = 1_u32 << self.stride_log2.max(other.stride_log2);
        let shorter = self.parts.min(other.parts);
        let has_end = self.after(shorter).is_some() && other.after(shorter).is_some();
        let end = (has_end && !shorter.is_multiple_of(stride)).then_some(shorter);
        (1..=shorter / stride).map(move |at| at * stride).chain(end)
    }

    /// The last boundary at which both have a mark.
    fn common(&self, other: &Self) -> u32 {
        self.boundaries(other).last().unwrap_or(0)
    }

    /// The parts among which the first one differs, and the bytes before them. In the last section
    /// another number of parts is no difference: prompts grow there.
    fn difference(&self, other: &Self, is_last: bool) -> Option<(u32, u32, u64)> {
        let (mut same, mut bytes) = (0, 0);
        for boundary in self.boundaries(other) {
            let (now, then) = (self.after(boundary)?, other.after(boundary)?);
            if now.digest != then.digest {
                return Some((same + 1, boundary, bytes));
            }
            (same, bytes) = (boundary, u64::from(now.bytes));
        }
        let is_other_length = !is_last && self.parts != other.parts;
        is_other_length.then(|| (same + 1, self.parts.min(other.parts) + 1, bytes))
    }
}

#[cfg(test)]
mod tests;
