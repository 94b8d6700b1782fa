//! The chat template: a conversation to prompt tokens, in the order tools, system, messages (ChatML
//! with tools in the system message, as Qwen's template has it).
//!
//! What a reply generates and what the template makes of that reply in the next request must be
//! the same tokens, so both use [`push_call`] and [`push_part`]. `cache_control` and unknown keys
//! never get here, so they cannot break a prefix.

use crate::{
    conversation::{Call, Conversation, Part, Tool, Turn},
    tokens::{IMAGE, MESSAGE_END, MESSAGE_START, push_text},
};

/// Tokens that one image takes.
const IMAGE_TOKENS: usize = 256;

/// The prompt's tokens, up to where the assistant's reply begins.
pub(crate) fn render(conversation: &Conversation) -> Vec<u32> {
    let mut out = Vec::new();
    let (head, rest) = match conversation.turns.split_first() {
        Some((Turn::System(parts), rest)) => (Some(parts), rest),
        _ => (None, &conversation.turns[..]),
    };
    if head.is_some() || !conversation.tools.is_empty() {
        open(&mut out, "system\n");
        push_tools(&mut out, &conversation.tools);
        push_parts(&mut out, head.map_or(&[], Vec::as_slice));
        close(&mut out);
    }
    for turn in rest {
        push_turn(&mut out, turn);
    }
    open(&mut out, "assistant\n");
    out
}

fn push_turn(out: &mut Vec<u32>, turn: &Turn) {
    match turn {
        Turn::System(parts) => {
            open(out, "system\n");
            push_parts(out, parts);
        }
        Turn::User(parts) => {
            open(out, "user\n");
            push_parts(out, parts);
        }
        Turn::Assistant { parts, calls } => {
            open(out, "assistant\n");
            push_parts(out, parts);
            for call in calls {
                push_call(out, call);
            }
        }
        Turn::ToolResult(parts) => {
            open(out, "user\n");
            push_text(out, "<tool_response>\n");
            push_parts(out, parts);
            push_text(out, "\n</tool_response>");
        }
    }
    close(out);
}

fn push_tools(out: &mut Vec<u32>, tools: &[Tool]) {
    if tools.is_empty() {
        return;
    }
    push_text(out, "# Tools\n\n<tools>\n");
    for tool in tools {
        push_text(out, &tool.name);
        push_text(out, &tool.description);
        push_text(out, &tool.parameters.to_string());
    }
    push_text(out, "</tools>\n");
}

fn push_parts(out: &mut Vec<u32>, parts: &[Part]) {
    for part in parts {
        push_part(out, part);
    }
}

/// The tokens of one part of a message.
pub(crate) fn push_part(out: &mut Vec<u32>, part: &Part) {
    match part {
        Part::Text(text) => push_text(out, text),
        Part::Image(hash) => {
            out.extend([*hash as u32, (*hash >> 32) as u32]);
            out.resize(out.len() + IMAGE_TOKENS - 2, IMAGE);
        }
    }
}

/// What stands before a call's name, between it and its arguments, and behind them.
pub(crate) const CALL_MARKS: [&str; 3] = [
    "<tool_call>\n{\"name\": ",
    ", \"arguments\": ",
    "}\n</tool_call>",
];

/// The tokens of one tool call of an assistant's turn.
pub(crate) fn push_call(out: &mut Vec<u32>, call: &Call) {
    push_text(out, CALL_MARKS[0]);
    push_text(out, &call.name);
    push_text(out, CALL_MARKS[1]);
    push_text(out, &call.arguments);
    push_text(out, CALL_MARKS[2]);
}

fn open(out: &mut Vec<u32>, role: &str) {
    out.push(MESSAGE_START);
    push_text(out, role);
}

fn close(out: &mut Vec<u32>) {
    out.push(MESSAGE_END);
    push_text(out, "\n");
}
