//! A request's conversation in one form, whichever API it came by. Each dialect reads its bodies
//! into it; the template, the plan and the scripts read it.

use serde_json::Value;

use crate::tokens;

/// Tools and turns, in prompt order.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    pub(crate) tools: Vec<Tool>,
    pub(crate) turns: Vec<Turn>,
}

/// A tool that the model may call.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Empty where the client sent none.
    pub(crate) description: String,
    /// JSON schema of its arguments; null where the client sent none.
    pub(crate) parameters: Value,
}

/// One turn.
#[derive(Debug)]
pub(crate) enum Turn {
    System(Vec<Part>),
    User(Vec<Part>),
    Assistant {
        parts: Vec<Part>,
        calls: Vec<Call>,
    },
    /// The result of one tool call.
    ToolResult(Vec<Part>),
}

/// A part of a message.
#[derive(Debug)]
pub(crate) enum Part {
    Text(String),
    /// An image, by a hash of its data.
    Image(u64),
}

/// A tool call of an assistant's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// Canonical JSON (see [`canonical`]).
    pub(crate) arguments: String,
}

/// What the client wants of the tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named(String),
}

impl Conversation {
    /// Adds an assistant's turn, or joins it to the one before: some APIs send a reply's text and
    /// each of its calls as items of their own.
    pub(crate) fn push_assistant(&mut self, parts: Vec<Part>, calls: Vec<Call>) {
        if let Some(Turn::Assistant {
            parts: before,
            calls: calls_before,
        }) = self.turns.last_mut()
        {
            before.extend(parts);
            calls_before.extend(calls);
        } else {
            self.turns.push(Turn::Assistant { parts, calls });
        }
    }

    /// The tool of that name.
    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

impl Part {
    /// An image part of whatever stands for its data.
    pub(crate) fn image(source: &Value) -> Self {
        let mut pieces = Vec::new();
        tokens::push_text(&mut pieces, &source.to_string());
        Self::Image(hash(&pieces))
    }

    /// The text, unless it is an image.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) => None,
        }
    }
}

/// JSON as the prompt holds it. Clients parse a call's arguments and print them again, so both
/// sides have to agree on one form whatever the spacing.
pub(crate) fn canonical(value: &Value) -> String {
    value.to_string()
}

/// FNV-1a over tokens.
pub(crate) fn hash(pieces: &[u32]) -> u64 {
    pieces.iter().fold(0xCBF2_9CE4_8422_2325, |state, &piece| {
        (state ^ u64::from(piece)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}
