//! Which prompts are the same, and where they begin to differ.

use super::*;
use Dialect::{ChatCompletions as Chat, Completions, Messages, Other, Responses};

const BILLING: &str =
    r#"{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=9a3e5;"}"#;

/// A body's members after `model`, which does not count.
fn of(dialect: Dialect, members: &str) -> (u64, Option<u64>, Option<u64>, u64, u64, u32) {
    let body = format!(r#"{{"model":"m",{members}}}"#);
    let f = facts(dialect, &body);
    (
        f.lineage,
        f.first_turn_hash,
        f.prompt_hash,
        f.prompt_bytes,
        f.shared_bytes,
        f.messages,
    )
}

fn lineage(dialect: Dialect, members: &str) -> u64 {
    of(dialect, members).0
}

fn first_turn(dialect: Dialect, members: &str) -> Option<u64> {
    of(dialect, members).1
}

#[test]
fn forms_that_make_the_same_prompt_have_the_same_facts() {
    let billed = format!(r#""system":[{BILLING},{{"type":"text","text":"s"}}],"messages":[]"#);
    for (dialect, one, other) in [
        // String or list of one text block.
        (
            Messages,
            r#""system":"s","messages":[{"role":"user","content":"hi\n"}]"#,
            r#""system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"text":"hi\n","type":"text"}]}]"#,
        ),
        (
            Messages,
            r#""messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"out"}]}]"#,
            r#""messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"out"}],"tool_use_id":"t"}]}]"#,
        ),
        (
            Chat,
            r#""messages":[{"role":"user","content":"hi"}]"#,
            r#""messages":[{"content":[{"type":"text","text":"hi"}],"role":"user"}]"#,
        ),
        (
            Responses,
            r#""input":[{"type":"message","role":"user","content":"hi"}]"#,
            r#""input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"id":"msg_1"}]"#,
        ),
        // Marks of Anthropic's cache, wherever the API takes them.
        (
            Messages,
            r#""tools":[{"name":"f"}],"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"tool_result","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}]"#,
            r#""tools":[{"cache_control":{"type":"ephemeral"},"name":"f"}],"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[{"role":"user","content":[{"type":"text","cache_control":null,"text":"hi"},{"type":"tool_result","content":[{"type":"text","text":"a","cache_control":{}},{"type":"text","text":"b"}],"cache_control":{"type":"ephemeral"}}]}]"#,
        ),
        // The parts' order in the body.
        (
            Messages,
            r#""tools":[{"name":"f"}],"system":"s","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]"#,
            r#""messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}],"system":"s","tools":[{"name":"f"}]"#,
        ),
        // Null is as absent; what comes twice counts once.
        (
            Messages,
            r#""messages":[{"role":"user","content":"hi"}]"#,
            r#""tools":null,"system":null,"messages":[{"role":"user","content":"no"}],"messages":[{"role":"user","content":"hi","name":null}]"#,
        ),
        (Messages, r#""system":"s","messages":[]"#, billed.as_str()),
        (
            Responses,
            r#""instructions":"s","input":"hi""#,
            r#""input":"hi","instructions":[{"type":"input_text","text":"s"}]"#,
        ),
    ] {
        assert_eq!(of(dialect, one), of(dialect, other), "{one}\n{other}");
    }
}

#[test]
fn prompts_that_differ_have_other_hashes() {
    let base = r#""tools":[{"name":"f"}],"system":"s","messages":[{"role":"user","content":"hi"}]"#;
    for (other, same_lineage) in [
        (
            r#""tools":[{"name":"g"}],"system":"s","messages":[{"role":"user","content":"hi"}]"#,
            false,
        ),
        (
            r#""tools":[{"name":"f"},{"name":"g"}],"system":"s","messages":[{"role":"user","content":"hi"}]"#,
            false,
        ),
        (
            r#""system":"s","messages":[{"role":"user","content":"hi"}]"#,
            false,
        ),
        (
            r#""tools":[{"name":"f"}],"messages":[{"role":"user","content":"hi"}]"#,
            false,
        ),
        (
            r#""tools":[{"name":"f"}],"system":"t","messages":[{"role":"user","content":"hi"}]"#,
            false,
        ),
        (
            r#""tools":[{"name":"f"}],"system":[{"type":"text","text":"s"},{"type":"text","text":"s"}],"messages":[{"role":"user","content":"hi"}]"#,
            false,
        ),
        (
            r#""tools":[{"name":"f"}],"system":"s","messages":[{"role":"assistant","content":"hi"}]"#,
            true,
        ),
        (
            r#""tools":[{"name":"f"}],"system":"s","messages":[{"role":"user","content":"ho"}]"#,
            true,
        ),
        (
            r#""tools":[{"name":"f"}],"system":"s","messages":[{"role":"user","content":"hi"},{"role":"user","content":"hi"}]"#,
            true,
        ),
        (
            r#""tools":[{"name":"f"}],"system":"s","messages":[{"role":"user","content":[{"type":"image","text":"hi"}]}]"#,
            true,
        ),
    ] {
        assert_ne!(of(Messages, base).2, of(Messages, other).2, "{other}");
        assert_eq!(
            lineage(Messages, base) == lineage(Messages, other),
            same_lineage,
            "{other}"
        );
    }
    let property = |schema| format!(r#""tools":[{{"name":"f","input_schema":{schema}}}]"#);
    assert_ne!(
        lineage(Messages, &property(r#"{"cache_control":1}"#)),
        lineage(Messages, &property("{}")),
        "a tool's own parameter of that name is part of the prompt"
    );
}

#[test]
fn the_lineage_is_absent_without_tools_and_system() {
    for members in [
        r#""messages":[]"#,
        r#""tools":[],"system":[],"messages":[]"#,
        r#""tools":null"#,
    ] {
        assert_eq!(lineage(Messages, members), 0, "{members}");
    }
    let only_billing = format!(r#""system":[{BILLING}]"#);
    assert_eq!(lineage(Messages, &only_billing), 0);
    assert_eq!(
        lineage(Chat, r#""messages":[{"role":"user","content":"hi"}]"#),
        0
    );
    assert_eq!(lineage(Completions, r#""prompt":"hi""#), 0);
}

#[test]
fn system_messages_at_the_front_count_as_system() {
    let chat = |messages: &str| of(Chat, &format!(r#""messages":[{messages}]"#));
    let system = r#"{"role":"system","content":"abcd"}"#;
    let user = r#"{"role":"user","content":"hi"}"#;
    let (with, without) = (chat(&format!("{system},{user}")), chat(user));
    assert_eq!((with.3, with.4, with.5), (6, 4, 2));
    assert_ne!(with.0, 0);
    assert_eq!((without.3, without.4, without.0), (2, 0, 0));
    let later = chat(&format!("{user},{system}"));
    assert_eq!(
        (later.0, later.4),
        (0, 0),
        "after the first user message it is the conversation's"
    );
    let developer = of(
        Responses,
        r#""input":[{"type":"message","role":"developer","content":"abcd"}]"#,
    );
    assert_eq!(developer.4, 4);
}

#[test]
fn the_first_turn_ends_with_the_first_assistant_message() {
    let turn = |rest: &str| {
        first_turn(
            Chat,
            &format!(r#""messages":[{{"role":"user","content":"hi"}}{rest}]"#),
        )
    };
    let call = r#",{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"f"}}]}"#;
    let result = r#",{"role":"tool","tool_call_id":"c1","content":"out"}"#;
    assert_eq!(turn(""), None);
    let first = turn(call);
    assert!(first.is_some());
    assert_eq!(turn(&format!("{call}{result}")), first);
    assert_eq!(turn(&format!("{call}{result}{call}")), first);
    assert_ne!(
        turn(&call.replace("c1", "c2")),
        first,
        "an equal prompt with another answer"
    );
    assert_eq!(first_turn(Completions, r#""prompt":"hi""#), None);
    assert_eq!(
        first_turn(Other, r#""messages":[{"role":"assistant","content":"hi"}]"#),
        None
    );
}

#[test]
fn on_responses_any_output_item_ends_the_first_turn() {
    let turn = |items: &str| first_turn(Responses, &format!(r#""input":[{items}]"#));
    let user = r#"{"type":"message","role":"user","content":"hi"}"#;
    assert_eq!(turn(user), None);
    assert_eq!(
        turn(&format!(
            r#"{user},{{"type":"function_call_output","output":"x"}}"#
        )),
        None
    );
    for output in [
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ho"}]}"#,
        r#"{"role":"assistant","content":"ho"}"#,
        r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#,
        r#"{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}"#,
        r#"{"type":"custom_tool_call","name":"f","input":"x","call_id":"c"}"#,
    ] {
        let first = turn(&format!("{user},{output}"));
        assert!(first.is_some(), "{output}");
        assert_eq!(turn(&format!("{user},{output},{user}")), first, "{output}");
    }
}

#[test]
fn sizes_count_text_as_the_model_reads_it() {
    let user = |content: &str| {
        of(
            Messages,
            &format!(r#""messages":[{{"role":"user","content":{content}}}]"#),
        )
        .3
    };
    assert_eq!(user(r#""\n\"\u00e9\ud83d\ude00é""#), 1 + 1 + 2 + 4 + 2);
    assert_eq!(
        user(r#"[{"type":"text","text":"abc"},{"type":"text","text":"de"}]"#),
        5
    );
    let image = format!(
        r#"[{{"type":"image","source":{{"data":"{}"}}}}]"#,
        "A".repeat(9000)
    );
    assert_eq!(user(&image), 0, "base64 says nothing about tokens");
    assert_eq!(
        user(r#"[{"type":"thinking","thinking":"abc","signature":"long"}]"#),
        3
    );
    assert_eq!(of(Completions, r#""prompt":"abc""#).3, 3);
    assert_eq!(of(Completions, r#""prompt":[1,22,333]"#).3, 10);
    let responses = of(Responses, r#""instructions":"abcd","input":"hi""#);
    assert_eq!((responses.3, responses.4, responses.5), (6, 4, 1));
    assert_eq!(of(Other, r#""input":["ab","cd"]"#).3, 11);
}

#[test]
fn only_the_dialects_own_keys_are_prompt() {
    for (dialect, members) in [
        (
            Chat,
            r#""system":"s","input":"i","prompt":"p","instructions":"x""#,
        ),
        (Messages, r#""input":"i","prompt":"p","instructions":"x""#),
        (
            Responses,
            r#""messages":[{"role":"user","content":"m"}],"system":"s","prompt":"p""#,
        ),
        (
            Completions,
            r#""messages":[{"role":"user","content":"m"}],"system":"s","tools":[{}]"#,
        ),
    ] {
        assert_eq!(of(dialect, members).3, 0, "{members}");
    }
}
