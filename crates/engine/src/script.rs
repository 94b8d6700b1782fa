//! Directives inside a user's message that tell the engine what to reply, so that an agent loop
//! makes the turns a test wants.
//!
//! ```text
//! [[script: STEP; STEP; …]]          one step per assistant turn
//! STEP   = ACTION & ACTION …         actions of one reply; several calls run in parallel
//! ACTION = NAME {JSON}               a call of tool NAME with these arguments
//!        | say TEXT                  this text (up to the next ; & or ]])
//!        | write N                   N tokens of generated text
//! ```
//! The latest user message that holds a directive counts; its first directive is taken. The engine
//! emits the step whose number is the count of assistant turns that followed that message. A call
//! of a tool that the request does not offer is left out; where nothing of a step is left, or the
//! steps are used up, the reply is plain generated text. So a client's side requests (titles,
//! summaries), which repeat the user's text but offer no tools, do not disturb a script. Braces
//! and brackets inside the JSON are the JSON's own: a subagent's prompt can carry its own script.

use serde_json::Value;

const OPEN: &str = "[[script:";
const CLOSE: &str = "]]";
/// Steps and actions read at most; what follows is ignored.
const ACTIONS_MAX: usize = 1024;

/// One action of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Call this tool with these arguments.
    Call {
        /// The tool's name.
        name: String,
        /// Its arguments, a JSON object.
        arguments: Value,
    },
    /// Say this text.
    Say(String),
    /// Write this many generated tokens.
    Write(u32),
}

/// The steps of the first directive in `text`; `None` where there is none or it is malformed.
pub fn parse(text: &str) -> Option<Vec<Vec<Action>>> {
    let mut rest = &text[text.find(OPEN)? + OPEN.len()..];
    let mut steps = vec![Vec::new()];
    for _ in 0..ACTIONS_MAX {
        let (action, after) = parse_action(rest.trim_start())?;
        steps.last_mut()?.push(action);
        rest = after.trim_start();
        if rest.starts_with(CLOSE) {
            return Some(steps);
        } else if let Some(after) = rest.strip_prefix(';') {
            rest = after;
            if rest.trim_start().starts_with(CLOSE) {
                return Some(steps);
            }
            steps.push(Vec::new());
        } else {
            rest = rest.strip_prefix('&')?;
        }
    }
    None
}

fn parse_action(text: &str) -> Option<(Action, &str)> {
    if let Some(rest) = text.strip_prefix("say ") {
        let end = [";", "&", CLOSE]
            .iter()
            .filter_map(|mark| rest.find(mark))
            .min()?;
        return Some((Action::Say(rest[..end].trim().to_owned()), &rest[end..]));
    }
    if let Some(rest) = text.strip_prefix("write ") {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        return Some((Action::Write(rest[..end].parse().ok()?), &rest[end..]));
    }
    let brace = text.find('{')?;
    let name = text[..brace].trim();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(&text[brace..]).into_iter::<Value>();
    let arguments = values.next()?.ok()?;
    let rest = &text[brace + values.byte_offset()..];
    let name = name.to_owned();
    Some((Action::Call { name, arguments }, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, arguments: Value) -> Action {
        Action::Call {
            name: name.to_owned(),
            arguments,
        }
    }

    #[test]
    fn steps_and_parallel_actions_are_told_apart() {
        let text = r#"Do it. [[script: Read {"file_path":"/x"}; Bash {"command":"a; b & c ]]"} & Bash {"command":"2"}; say all done; write 12]] thanks"#;
        assert_eq!(
            parse(text),
            Some(vec![
                vec![call("Read", json!({"file_path": "/x"}))],
                vec![
                    call("Bash", json!({"command": "a; b & c ]]"})),
                    call("Bash", json!({"command": "2"})),
                ],
                vec![Action::Say("all done".to_owned())],
                vec![Action::Write(12)],
            ])
        );
    }

    #[test]
    fn a_subagents_prompt_carries_its_own_script() {
        let text = r#"[[script: Task {"prompt":"go [[script: say inner]]"}; say outer]]"#;
        let steps = parse(text).expect("well-formed");
        assert_eq!(steps.len(), 2);
        let Action::Call { arguments, .. } = &steps[0][0] else {
            panic!("{steps:?}")
        };
        let inner = parse(arguments["prompt"].as_str().expect("text")).expect("well-formed");
        assert_eq!(inner, vec![vec![Action::Say("inner".to_owned())]]);
    }

    #[test]
    fn malformed_directives_are_no_directives() {
        for bad in [
            "",
            "no directive",
            "[[script: ",
            "[[script: ]]",
            "[[script: say x",
            "[[script: Read]]",
            "[[script: Read {]]",
            "[[script: two words {}]]",
            "[[script: say a; Read {} Read {}]]",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
