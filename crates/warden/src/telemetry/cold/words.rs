//! Cold turns and alarms as people read them.

use routing::{ColdCause, ReplicaIndex};
use vllm::{PromptChange, PromptSection};

use super::ColdTurn;

/// What stops the billing block.
const BILLING_SETTING: &str = "CLAUDE_CODE_ATTRIBUTION_HEADER=0";

impl ColdTurn {
    pub(in crate::telemetry) fn to_api(self) -> api::Cold {
        api::Cold {
            why: why(self.cold.cause),
            tokens_read_again: self.cold.tokens_read_again,
            measured: self.cold.is_measured,
            part: self.change.map(part),
            sentence: self.sentence(),
        }
    }

    fn sentence(&self) -> String {
        let changed = self
            .change
            .map(|change| format!("{} changed", part(change)));
        let [from, to] = [self.from, self.to].map(replica);
        let cause = match self.cold.cause {
            ColdCause::Restarted => format!("the engine of {to} restarted since the turn before"),
            ColdCause::Balanced => "vLLM's own balancer chose the replica".to_owned(),
            ColdCause::Spilled => format!("spilled to {to}"),
            ColdCause::Moved => format!("moved to {to}; the turn before was on {from}"),
            ColdCause::Pinned => {
                format!("the client named {to}; the turn before was on {from}")
            }
            ColdCause::Forgotten => format!("it had been forgotten, and was placed on {to}"),
            ColdCause::Returned => format!("back on {to}; the turn before was on {from}"),
            ColdCause::PrefixChanged => changed.clone().unwrap_or_default(),
            ColdCause::BillingBlock => "Claude Code's billing block changed".to_owned(),
            ColdCause::Silence => format!(
                "silent for {}, longer than its cache lasted",
                span(self.cold.gap)
            ),
            ColdCause::Unknown => format!(
                "lm-warden restarted since the turn before, {} earlier, and cannot compare the \
                 prompts",
                span(self.cold.gap)
            ),
        };
        let tokens = count(self.cold.tokens_read_again);
        let again = if self.cold.is_measured {
            format!("{tokens} tokens read again")
        } else {
            format!("about {tokens} tokens to read again")
        };
        match changed.filter(|_| self.cold.cause != ColdCause::PrefixChanged) {
            Some(changed) => format!("{cause}: {again} ({changed} too)"),
            None => format!("{cause}: {again}"),
        }
    }
}

/// The alarm of a conversation whose billing block changed so often in so many turns.
pub(super) fn alarm(billing_changes: u32, turns: u32) -> api::Alarm {
    api::Alarm {
        kind: api::AlarmKind::BillingBlock,
        conversations: 1,
        message: format!(
            "The client's billing block changed {} in {turns} turns. {BILLING_WHAT}",
            times(billing_changes)
        ),
        setting: BILLING_SETTING.to_owned(),
    }
}

/// The alarm of several conversations.
pub(super) fn alarm_of_many(conversations: u32) -> api::Alarm {
    let whose = if conversations == 1 {
        "one conversation".to_owned()
    } else {
        format!("{} conversations", count(u64::from(conversations)))
    };
    api::Alarm {
        kind: api::AlarmKind::BillingBlock,
        conversations,
        message: format!("The billing block of {whose} changes between turns. {BILLING_WHAT}"),
        setting: BILLING_SETTING.to_owned(),
    }
}

/// What it is, what it costs and what to do.
const BILLING_WHAT: &str = "Older versions of Claude Code begin the system prompt with \
    x-anthropic-billing-header and another value in every request: an engine that does not leave that \
    block out reads everything behind the tools again each time. Set \
    CLAUDE_CODE_ATTRIBUTION_HEADER=0 in the client's environment, or in \"env\" of its settings.json.";

fn why(cause: ColdCause) -> api::ColdCause {
    match cause {
        ColdCause::Restarted => api::ColdCause::Restarted,
        ColdCause::Balanced => api::ColdCause::Balanced,
        ColdCause::Spilled => api::ColdCause::Spilled,
        ColdCause::Moved => api::ColdCause::Moved,
        ColdCause::Pinned => api::ColdCause::Pinned,
        ColdCause::Forgotten => api::ColdCause::Forgotten,
        ColdCause::Returned => api::ColdCause::Returned,
        ColdCause::PrefixChanged => api::ColdCause::PrefixChanged,
        ColdCause::BillingBlock => api::ColdCause::BillingBlock,
        ColdCause::Silence => api::ColdCause::Silence,
        ColdCause::Unknown => api::ColdCause::Unknown,
    }
}

/// A part of the prompt, as its client counts it, but for the billing block.
fn part(change: PromptChange) -> String {
    let (one, many) = match change.section {
        PromptSection::Tools => ("tool", "tools"),
        PromptSection::System => ("system block", "system blocks"),
        PromptSection::Messages if change.is_front => ("system message", "system messages"),
        PromptSection::Messages => ("message", "messages"),
    };
    if change.first == change.last {
        format!("{one} {}", change.first)
    } else {
        format!("one of {many} {} to {}", change.first, change.last)
    }
}

fn replica(index: Option<ReplicaIndex>) -> String {
    index.map_or_else(
        || "a replica of vLLM's choice".to_owned(),
        |index| format!("replica {}", index.0),
    )
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        more => format!("{more} times"),
    }
}

fn span(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// With a comma between thousands.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
