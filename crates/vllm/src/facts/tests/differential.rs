//! The scan beside `serde_json`: the same texts are JSON, and the same values are found.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

pub(super) const DIALECTS: [Dialect; 5] = [
    Dialect::Messages,
    Dialect::ChatCompletions,
    Dialect::Completions,
    Dialect::Responses,
    Dialect::Other,
];

/// Whether it is JSON by the grammar, whatever its numbers and surrogates mean.
fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Holds the scan's verdict against `serde_json`'s; what is refused for another reason is not
/// read to its end.
fn check_verdict(dialect: Dialect, body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    match scan(dialect, body) {
        Err(BodyError::Json { offset }) => {
            assert!(!is_json(body), "refused at {offset}: {text}");
            assert!(offset <= body.len());
        }
        Err(BodyError::WrongType { .. } | BodyError::TooDeep { .. }) => {}
        Ok(_) | Err(BodyError::NotAnObject | BodyError::MissingModel) => {
            assert!(is_json(body), "accepted: {text}");
        }
    }
}

/// A string as JSON, each character as itself or escaped in one of the ways there are.
fn json_string(text: &str, choices: &[u8]) -> String {
    let mut out = String::from("\"");
    for (character, choice) in text.chars().zip(choices.iter().cycle()) {
        let must = character < ' ' || matches!(character, '"' | '\\');
        match (must, choice % 4) {
            (_, 3) | (true, 2) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
            (true, _) => {
                let quoted = serde_json::to_string(&character).unwrap();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            (false, 2) if character == '/' => out.push_str("\\/"),
            (false, _) => out.push(character),
        }
    }
    out + "\""
}

/// Any string in any way of writing it.
fn strings() -> impl Strategy<Value = String> {
    (any::<String>(), prop::collection::vec(any::<u8>(), 1..8))
        .prop_map(|(text, choices)| json_string(&text, &choices))
}

/// Any value, with white space.
pub(super) fn values() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(|f| format!("{f:e}")),
        strings(),
        keys(),
    ];
    let space = prop::sample::select(vec!["", " ", "\n\t", "\r\n"]);
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), space.clone()).prop_map(
                |(items, space)| format!("[{space}{}{space}]", items.join(&format!("{space},")))
            ),
            (prop::collection::vec((keys(), inner), 0..5), space.clone()).prop_map(
                |(members, space)| {
                    let members: Vec<_> = members
                        .iter()
                        .map(|(k, v)| format!("{k}{space}:{space}{v}"))
                        .collect();
                    format!("{{{space}{}}}", members.join(","))
                }
            ),
        ]
    })
}

/// Keys that mean something somewhere, plain or escaped, and others.
pub(super) fn keys() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "model",
        "stream",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "metadata",
        "user_id",
        "prompt_cache_key",
        "tools",
        "system",
        "messages",
        "input",
        "prompt",
        "instructions",
        "role",
        "assistant",
        "user",
        "content",
        "type",
        "text",
        "cache_control",
        "tool_result",
        "reasoning",
        "id",
        "source",
    ]);
    prop_oneof![
        8 => (known, any::<u8>()).prop_map(|(key, choice)| json_string(key, &[choice, 0, 0])),
        1 => strings(),
    ]
}

/// A body: any members, `model` among them more often than not.
fn bodies() -> impl Strategy<Value = String> {
    let members = prop::collection::vec((keys(), values()), 0..8);
    (members, prop::option::weighted(0.8, strings())).prop_map(|(members, model)| {
        let mut members: Vec<_> = members.iter().map(|(k, v)| format!("{k}:{v}")).collect();
        members.extend(model.map(|model| format!("\"model\":{model}")));
        format!("{{{}}}", members.join(","))
    })
}

/// What the scan should have found, from the document.
fn check_facts(dialect: Dialect, body: &str) {
    let Ok(facts) = scan(dialect, body.as_bytes()) else {
        return;
    };
    let Ok(document) = serde_json::from_str::<Value>(body) else {
        return;
    };
    assert_eq!(document["model"].as_str(), Some(&*facts.model));
    let span = &body[facts.model_span.clone()];
    assert_eq!(serde_json::from_str::<String>(span).unwrap(), facts.model);
    assert_eq!(document["stream"].as_bool().unwrap_or(false), facts.stream);
    let key = document["prompt_cache_key"].as_str();
    if key.is_none_or(|key| key.len() < 500) {
        assert_eq!(key, facts.prompt_cache_key.as_deref());
    }
    let user_id = document["metadata"]["user_id"].as_str();
    assert_eq!(
        user_id.and_then(crate::metadata_session),
        facts.metadata_session
    );
    let tokens = |key: &str| document[key].as_u64();
    let max_tokens = match dialect {
        Dialect::Messages | Dialect::Completions => tokens("max_tokens"),
        Dialect::ChatCompletions => tokens("max_completion_tokens").or(tokens("max_tokens")),
        Dialect::Responses => tokens("max_output_tokens"),
        Dialect::Other => None,
    };
    assert_eq!(max_tokens, facts.max_tokens);
    if matches!(dialect, Dialect::Messages | Dialect::ChatCompletions) {
        let messages = document["messages"].as_array().map_or(0, Vec::len);
        assert_eq!(messages, facts.messages as usize);
    }
    assert!(facts.shared_bytes <= facts.prompt_bytes);
    assert!(facts.prompt_bytes <= body.len() as u64);
}

proptest! {
    #[test]
    fn any_bytes_are_read(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for dialect in DIALECTS {
            check_verdict(dialect, &body);
        }
    }

    #[test]
    fn any_run_of_tokens_is_judged_as_serde_json_does(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", " ", "\"", "\\", "\"model\"", "\"m\"", "\"messages\"",
            "true", "nul", "null", "0", "-", "1", ".", "e", "+", "\\u", "d83d", "\n", "\u{7f}", "é",
        ]), 0..24),
        inside: bool,
    ) {
        let tokens = tokens.concat();
        let body = if inside { format!("{{\"model\":\"m\",\"x\":{tokens}}}") } else { tokens };
        for dialect in DIALECTS {
            check_verdict(dialect, body.as_bytes());
        }
    }

    #[test]
    fn good_bodies_give_the_documents_values(body in bodies()) {
        for dialect in DIALECTS {
            check_verdict(dialect, body.as_bytes());
            check_facts(dialect, &body);
        }
    }

    #[test]
    fn a_damaged_body_is_judged_as_serde_json_does(
        body in bodies(),
        at: prop::sample::Index,
        byte: u8,
        damage in 0..3,
    ) {
        let mut body = body.into_bytes();
        let at = at.index(body.len());
        match damage {
            0 => body[at] = byte,
            1 => { body.remove(at); }
            _ => body.truncate(at),
        }
        for dialect in DIALECTS {
            check_verdict(dialect, &body);
        }
    }

    #[test]
    fn any_string_is_unescaped_and_measured(
        text in ".{1,40}",
        choices in prop::collection::vec(any::<u8>(), 1..8),
    ) {
        let written = json_string(&text, &choices);
        let body = format!(
            "{{\"model\":{written},\"messages\":[{{\"role\":\"user\",\"content\":{written}}}]}}"
        );
        let facts = facts(Dialect::Messages, &body);
        prop_assert_eq!(&facts.model, &text);
        prop_assert_eq!(facts.prompt_bytes, text.len() as u64);
    }

    #[test]
    fn any_user_id_is_read(user_id: String) {
        let _ = crate::metadata_session(&user_id);
    }
}

#[test]
fn a_lone_surrogate_becomes_the_replacement_character() {
    for (written, read) in [
        (r"\ud83d", "\u{FFFD}"),
        (r"\ude00x", "\u{FFFD}x"),
        (r"\ud83d\u0041", "\u{FFFD}A"),
        (r"\ud83d\ud83d\ude00", "\u{FFFD}\u{1F600}"),
        (r"\ud83d\n", "\u{FFFD}\n"),
    ] {
        let body = format!("{{\"model\":\"{written}\"}}");
        assert_eq!(facts(Dialect::Messages, &body).model, read, "{written}");
    }
}
