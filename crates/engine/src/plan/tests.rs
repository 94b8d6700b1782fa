//! What a reply contains: scripts followed over turns, demanded tools, limits.

use super::*;
use crate::{conversation::Tool, template};

const LIMITS: Limits = Limits {
    seed: 7,
    output_tokens: None,
    tokens_max: 10_000,
};

fn user(text: &str) -> Turn {
    Turn::User(vec![Part::Text(text.to_owned())])
}

fn with_tools(turns: Vec<Turn>) -> Conversation {
    let tool = |name: &str| Tool {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({
            "type": "object",
            "required": ["path", "mode"],
            "properties": {"path": {"type": "string"}, "mode": {"enum": ["fast", "slow"]}},
        }),
    };
    Conversation {
        tools: vec![tool("Read"), tool("Bash")],
        turns,
    }
}

fn plan_of(conversation: &Conversation, choice: &ToolChoice, limits: Limits) -> Plan {
    plan(
        conversation,
        choice,
        &template::render(conversation),
        limits,
    )
}

/// The reply of a plan as the client would send it back.
fn send_back(conversation: &mut Conversation, reply: &Plan) {
    let (text, calls) = reply.reply(usize::MAX);
    let parts = if text.is_empty() {
        vec![]
    } else {
        vec![Part::Text(text)]
    };
    let calls = calls.iter().map(|call| Call {
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    });
    let calls = calls.collect();
    conversation.push_assistant(parts, calls);
}

#[test]
fn a_reply_sent_back_has_the_tokens_it_was_generated_with() {
    for text in [
        "hello",
        r#"[[script: say Grüße, reading & Read {"path":"/tmp/x","mode":"fast"} & Bash {"c":1}]]"#,
    ] {
        let mut conversation = with_tools(vec![user(text)]);
        let mut expected = template::render(&conversation);
        let reply = plan_of(&conversation, &ToolChoice::Auto, LIMITS);
        assert!(reply.stops);
        expected.extend(&reply.tokens);
        send_back(&mut conversation, &reply);
        let next = template::render(&conversation);
        assert_eq!(next[..expected.len()], expected[..], "{text}");
    }
}

#[test]
fn the_same_seed_and_prompt_give_the_same_reply() {
    let conversation = with_tools(vec![user("hello")]);
    let one = plan_of(&conversation, &ToolChoice::Auto, LIMITS);
    let same = plan_of(&conversation, &ToolChoice::Auto, LIMITS);
    let other_seed = Limits { seed: 8, ..LIMITS };
    let other = plan_of(&conversation, &ToolChoice::Auto, other_seed);
    assert_eq!(one.tokens, same.tokens);
    assert_ne!(one.tokens, other.tokens);
}

#[test]
fn a_script_advances_by_assistant_turns_and_ends_in_text() {
    let text = r#"[[script: Read {"path":"a"}; Missing {} & Bash {"c":1}; Missing {}; say bye]]"#;
    let mut conversation = with_tools(vec![user(text)]);
    let mut seen = Vec::new();
    for _ in 0..5 {
        let reply = plan_of(&conversation, &ToolChoice::Auto, LIMITS);
        let (text, calls) = reply.reply(usize::MAX);
        seen.push((
            calls.first().map(|call| call.name.clone()),
            text == "bye",
            reply.ends_in_calls,
        ));
        send_back(&mut conversation, &reply);
        conversation
            .turns
            .push(Turn::ToolResult(vec![Part::Text("ok".to_owned())]));
    }
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(
        seen,
        [
            (named("Read"), false, true),
            (named("Bash"), false, true),
            (None, false, false),
            (None, true, false),
            (None, false, false),
        ]
    );
}

#[test]
fn a_later_directive_replaces_an_earlier_one() {
    let mut conversation = with_tools(vec![user("[[script: say one; say two]]")]);
    let reply = plan_of(&conversation, &ToolChoice::Auto, LIMITS);
    send_back(&mut conversation, &reply);
    conversation.turns.push(user("[[script: say three]]"));
    let reply = plan_of(&conversation, &ToolChoice::Auto, LIMITS);
    assert_eq!(reply.reply(usize::MAX).0, "three");
}

#[test]
fn a_demanded_tool_is_called_with_the_required_arguments() {
    let conversation = with_tools(vec![user("hello")]);
    let required = plan_of(&conversation, &ToolChoice::Required, LIMITS);
    assert_eq!(required.calls[0].name, "Read");
    // As values: whether members keep their order depends on the features of the whole build.
    assert_eq!(
        serde_json::from_str::<Value>(&required.calls[0].arguments).unwrap(),
        json!({"mode": "fast", "path": "text"})
    );
    assert!(required.ends_in_calls);
    let named = ToolChoice::Named("Bash".to_owned());
    let named = plan_of(&conversation, &named, LIMITS);
    assert_eq!(named.calls[0].name, "Bash");
    assert!(!named.ends_in_calls, "vLLM says stop for a named tool");
    let none = plan_of(&conversation, &ToolChoice::None, LIMITS);
    assert!(none.calls.is_empty());
}

#[test]
fn a_reply_is_cut_at_the_limit() {
    let conversation = with_tools(vec![user(r#"[[script: Read {"path":"a"}]]"#)]);
    let whole = plan_of(&conversation, &ToolChoice::Auto, LIMITS);
    let tokens_max = whole.tokens.len() as u32;
    for cut in 1..tokens_max {
        let limits = Limits {
            tokens_max: cut,
            ..LIMITS
        };
        let reply = plan_of(&conversation, &ToolChoice::Auto, limits);
        assert_eq!(reply.tokens.len(), cut as usize);
        assert_eq!(reply.shows.len(), cut as usize);
        assert!(!reply.stops && !reply.ends_in_calls);
    }
    let fits = Limits {
        tokens_max,
        ..LIMITS
    };
    assert!(plan_of(&conversation, &ToolChoice::Auto, fits).stops);
}
