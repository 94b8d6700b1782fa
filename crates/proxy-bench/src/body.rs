//! Request bodies of a coding agent's shape and a chosen size.
//!
//! A proxy that looks into bodies pays for their structure, not only their length: so they are many
//! messages with text that needs JSON escapes, as source code does, and not one long string. And it
//! may remember what a conversation sent before: so the bodies of one differ from turn to turn.

use bytes::Bytes;

/// What one message of the made-up history carries: a tool's output of about 1.5 KB.
const CHUNK: &str = r#"    let reply = self.pool.get(\"replica\").await?;\n    // \u00e9tat: the engine's own words\n    if reply.status() != 200 {\n        return Err(Error::Engine { status: reply.status(), path: \"\\tmp\" });\n    }\n"#;

/// How many turns of a conversation there are.
const TURNS: usize = 8;

/// Bodies as an agent sends them one after the other: all that was said before is the same, and the
/// last message, about 1.5 KB of it where there is room, is new.
pub(crate) fn turns(size_bytes: usize, stream: bool) -> Vec<Bytes> {
    (0..TURNS)
        .map(|turn| body(size_bytes, stream, turn))
        .collect()
}

/// A `/v1/messages` body of about `size_bytes` (never shorter than its frame of 600 bytes).
pub(crate) fn messages(size_bytes: usize, stream: bool) -> Bytes {
    body(size_bytes, stream, 0)
}

fn body(size_bytes: usize, stream: bool, turn: usize) -> Bytes {
    let head = format!(
        r#"{{"model":"bench","max_tokens":256,"stream":{stream},"metadata":{{"user_id":"bench"}},"messages":[{{"role":"user","content":"Read the file and mend it."}}"#
    );
    let tail = r#"],"system":[{"type":"text","text":"You are a coding agent.","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"Read","description":"Reads a file","input_schema":{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}}]}"#;
    let text = CHUNK.repeat(5);
    let new = if size_bytes > 8 * text.len() {
        text.as_str()
    } else {
        ""
    };
    let last = format!(
        r#",{{"role":"user","content":[{{"type":"text","text":"{turn}: {new}","cache_control":{{"type":"ephemeral"}}}}]}}"#
    );
    let tail = last + tail;
    let mut body = head;
    let mut message = 0_usize;
    while body.len() + tail.len() + 200 < size_bytes {
        let room = size_bytes - body.len() - tail.len() - 150;
        let text = if room < text.len() {
            "x".repeat(room)
        } else {
            text.clone()
        };
        let (role, block) = if message.is_multiple_of(2) {
            (
                "assistant",
                format!(
                    r#"{{"type":"tool_use","id":"toolu_{message}","name":"Read","input":{{"file_path":"{text}"}}}}"#
                ),
            )
        } else {
            (
                "user",
                format!(
                    r#"{{"type":"tool_result","tool_use_id":"toolu_{message}","content":"{text}"}}"#
                ),
            )
        };
        body.push_str(r#",{"role":""#);
        body.push_str(role);
        body.push_str(r#"","content":["#);
        body.push_str(&block);
        body.push_str("]}");
        message += 1;
    }
    body.push_str(&tail);
    Bytes::from(body)
}

#[cfg(test)]
mod tests {
    use super::messages;

    #[test]
    fn bodies_are_json_of_about_the_size_asked_for() {
        for size in [1_000, 200_000, 1_000_000] {
            let body = messages(size, true);
            assert!(body.len().abs_diff(size) < 300, "{} for {size}", body.len());
            serde_json::from_slice::<serde_json::Value>(&body).expect("valid JSON");
        }
    }
}
