//! What the model "says" to a request, decided before its first token: the scheduler needs each
//! token's id when it is sampled, and a stream needs to know what each token shows.
//!
//! The same seed and prompt give the same reply. Text is made of four-byte words, so it comes back
//! in the next request as the tokens it was generated with.

use serde_json::{Value, json};

use crate::{
    conversation::{Call, Conversation, Part, ToolChoice, Turn, hash},
    random::Random,
    script::{self, Action},
    template::CALL_MARKS,
    tokens::{BYTES_PER_TOKEN, MESSAGE_END, push_text, visible_pieces},
};

/// A reply, token by token.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Ids of the generated tokens, the stop token last where the reply stops by itself.
    pub(crate) tokens: Vec<u32>,
    /// What each token shows to a client.
    pub(crate) shows: Vec<Show>,
    /// The tool calls, by the index that `shows` uses.
    pub(crate) calls: Vec<PlannedCall>,
    /// Whether the last token stops the reply; else it ends by length.
    pub(crate) stops: bool,
    /// Whether the reply ends as tool calls (vLLM says `stop` where the client named the tool).
    pub(crate) ends_in_calls: bool,
}

/// What a token shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Show {
    Nothing,
    Text(String),
    CallStarts(usize),
    Arguments(usize, String),
}

/// A tool call.
#[derive(Debug)]
pub(crate) struct PlannedCall {
    /// What its id ends in, behind the dialect's prefix; its result will name it.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The token that completes it; a reply cut before it holds no whole call.
    pub(crate) last_token: usize,
}

/// Bounds of a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) seed: u64,
    /// A fixed length of plain replies, stop token not counted; drawn from the seed where `None`.
    pub(crate) output_tokens: Option<u32>,
    /// Tokens the client and the context allow, the stop token included; at least 1.
    pub(crate) tokens_max: u32,
}

/// Neutral words of three letters; with a space or a full stop behind, one token each.
const WORDS: [&str; 48] = [
    "the", "and", "for", "one", "two", "ten", "all", "any", "now", "new", "old", "end", "map",
    "run", "set", "key", "log", "tag", "row", "sum", "add", "get", "put", "let", "try", "see",
    "use", "ask", "say", "own", "way", "day", "bit", "box", "bus", "cap", "dot", "fit", "gap",
    "hub", "ink", "jar", "kit", "lab", "net", "pin", "tab", "web",
];

/// Decides the reply to a conversation whose prompt has these tokens.
pub(crate) fn plan(
    conversation: &Conversation,
    choice: &ToolChoice,
    prompt: &[u32],
    limits: Limits,
) -> Plan {
    let mut random = Random::new(limits.seed ^ hash(prompt));
    let mut builder = Builder {
        plan: Plan::default(),
        text_tokens_max: limits.tokens_max,
    };
    for action in actions(conversation, choice, limits, &mut random) {
        match action {
            Action::Say(text) => builder.say(&text),
            Action::Write(count) => builder.write(count, &mut random),
            Action::Call { name, arguments } => {
                let arguments = crate::conversation::canonical(&arguments);
                builder.call(Call { name, arguments }, &mut random);
            }
        }
    }
    let named = matches!(choice, ToolChoice::Named(_));
    builder.finish(limits.tokens_max as usize, named)
}

/// The actions of this reply: the script's step, else a call where the client demands one, else text.
fn actions(
    conversation: &Conversation,
    choice: &ToolChoice,
    limits: Limits,
    random: &mut Random,
) -> Vec<Action> {
    let allowed = |name: &str| match choice {
        ToolChoice::None => false,
        ToolChoice::Named(only) => name == only && conversation.tool(name).is_some(),
        ToolChoice::Auto | ToolChoice::Required => conversation.tool(name).is_some(),
    };
    let mut step = scripted_step(conversation).unwrap_or_default();
    step.retain(|action| match action {
        Action::Call { name, .. } => allowed(name),
        Action::Say(_) | Action::Write(_) => true,
    });
    let demanded = match choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required => conversation.tools.first(),
        ToolChoice::Named(name) => conversation.tool(name),
    };
    if let Some(tool) = demanded
        && !step.iter().any(|a| matches!(a, Action::Call { .. }))
    {
        return vec![Action::Call {
            name: tool.name.clone(),
            arguments: sample(&tool.parameters),
        }];
    }
    if step.is_empty() {
        let octave = 4 + random.below(5);
        let drawn = (1 << octave) + random.below(1 << octave);
        step.push(Action::Write(limits.output_tokens.unwrap_or(drawn as u32)));
    }
    step
}

/// The step of the latest directive that is due now.
fn scripted_step(conversation: &Conversation) -> Option<Vec<Action>> {
    let turns = &conversation.turns;
    let (at, mut steps) = turns.iter().enumerate().rev().find_map(|(at, turn)| {
        let Turn::User(parts) = turn else { return None };
        let steps = parts
            .iter()
            .filter_map(Part::text)
            .find_map(script::parse)?;
        Some((at, steps))
    })?;
    let due = turns[at..]
        .iter()
        .filter(|turn| matches!(turn, Turn::Assistant { .. }))
        .count();
    (due < steps.len()).then(|| steps.swap_remove(due))
}

/// The simplest value that a JSON schema admits, as far as `type`, `enum` and `required` tell.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!("text"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => {
            let names = schema["required"].as_array().into_iter().flatten();
            names
                .filter_map(Value::as_str)
                .map(|name| (name.to_owned(), sample(&schema["properties"][name])))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
    }
}

struct Builder {
    plan: Plan,
    text_tokens_max: u32,
}

impl Builder {
    fn push(&mut self, text: &str, show: impl Fn(&str) -> Show) {
        push_text(&mut self.plan.tokens, text);
        self.plan.shows.extend(visible_pieces(text).map(show));
    }

    fn say(&mut self, text: &str) {
        self.push(text, |piece| Show::Text(piece.to_owned()));
    }

    /// Generated words. They neither begin nor end in white space, which clients trim.
    fn write(&mut self, count: u32, random: &mut Random) {
        let count = count.clamp(1, self.text_tokens_max) as usize;
        let mut text = String::with_capacity(count * BYTES_PER_TOKEN);
        for index in 0..count {
            text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
            text.push(if index + 1 == count { '.' } else { ' ' });
        }
        self.say(&text);
    }

    fn call(&mut self, call: Call, random: &mut Random) {
        let index = self.plan.calls.len();
        self.push(CALL_MARKS[0], |_| Show::Nothing);
        self.push(&call.name, |_| Show::Nothing);
        self.push(CALL_MARKS[1], |_| Show::Nothing);
        if let Some(last) = self.plan.shows.last_mut() {
            *last = Show::CallStarts(index);
        }
        self.push(&call.arguments, |piece| {
            Show::Arguments(index, piece.to_owned())
        });
        self.push(CALL_MARKS[2], |_| Show::Nothing);
        self.plan.calls.push(PlannedCall {
            id: random.hex(),
            name: call.name,
            arguments: call.arguments,
            last_token: self.plan.tokens.len() - 1,
        });
    }

    fn finish(mut self, tokens_max: usize, named: bool) -> Plan {
        self.plan.tokens.push(MESSAGE_END);
        self.plan.shows.push(Show::Nothing);
        self.plan.stops = self.plan.tokens.len() <= tokens_max;
        self.plan.tokens.truncate(tokens_max);
        self.plan.shows.truncate(tokens_max);
        let kept = self.plan.tokens.len();
        let whole = |call: &PlannedCall| call.last_token < kept;
        self.plan.ends_in_calls = self.plan.calls.iter().any(whole) && !named && self.plan.stops;
        self.plan
    }
}

impl Plan {
    /// The text and the whole calls of the first `count` tokens.
    pub(crate) fn reply(&self, count: usize) -> (String, Vec<&PlannedCall>) {
        let count = count.min(self.shows.len());
        let text = self.shows[..count]
            .iter()
            .filter_map(|show| match show {
                Show::Text(piece) => Some(piece.as_str()),
                _ => None,
            })
            .collect();
        let whole = |call: &&PlannedCall| call.last_token < count;
        (text, self.calls.iter().filter(whole).collect())
    }
}

#[cfg(test)]
mod tests;
