//! Top-level facts and errors, case by case.

use super::*;
use crate::facts::{DEPTH_MAX, metadata_session, splice_model};
use Dialect::{ChatCompletions as Chat, Completions, Messages, Other, Responses};

#[test]
fn the_facts_of_a_messages_body() {
    let body = r#"{"model":"demo","messages":[{"role":"user","content":"hello"}],
        "system":"be brief","max_tokens":512,"stream":true,
        "metadata":{"user_id":"user_1_account__session_3f2a"}}"#;
    let facts = facts(Messages, body);
    assert_eq!(facts.model, "demo");
    assert_eq!(&body[facts.model_span.clone()], "\"demo\"");
    assert!(facts.stream);
    assert_eq!(facts.max_tokens, Some(512));
    assert_eq!(facts.metadata_session.as_deref(), Some("3f2a"));
    assert_eq!(facts.prompt_cache_key, None);
    assert_eq!(
        (facts.prompt_bytes, facts.shared_bytes, facts.messages),
        (13, 8, 1)
    );
    assert_eq!(facts.first_turn_hash, None, "nothing was answered yet");
    assert_ne!(facts.lineage, 0);
}

#[test]
fn each_dialect_has_its_own_bound_on_tokens() {
    let body = r#"{"model":"m","max_tokens":1,"max_completion_tokens":2,"max_output_tokens":3}"#;
    for (dialect, tokens) in [
        (Messages, Some(1)),
        (Chat, Some(2)),
        (Completions, Some(1)),
        (Responses, Some(3)),
        (Other, None),
    ] {
        assert_eq!(facts(dialect, body).max_tokens, tokens, "{dialect:?}");
    }
    assert_eq!(
        facts(Chat, r#"{"model":"m","max_tokens":1}"#).max_tokens,
        Some(1)
    );
    for odd in [
        "-1",
        "1.5",
        "\"7\"",
        "null",
        "[]",
        "99999999999999999999999",
    ] {
        let body = format!(r#"{{"model":"m","max_tokens":{odd}}}"#);
        assert_eq!(
            facts(Messages, &body).max_tokens,
            None,
            "{odd} is the engine's to judge"
        );
    }
}

#[test]
fn keys_may_be_escaped_and_the_last_of_equal_keys_counts() {
    let body = r#"{"\u006dodel":"first","model":"sec\u006fnd","stream":true,"stre\u0061m":false}"#;
    let facts = facts(Messages, body);
    assert_eq!(facts.model, "second");
    assert_eq!(&body[facts.model_span.clone()], r#""sec\u006fnd""#);
    assert!(!facts.stream);
}

#[test]
fn ids_count_only_at_their_paths_from_the_root() {
    for decoy in [
        r#"{"model":"m","user":"u","session_id":"s","conversation":"c"}"#,
        r#"{"model":"m","prompt_cache_key":null,"metadata":null}"#,
        r#"{"model":"m","prompt_cache_key":7,"metadata":"user_1_session_s"}"#,
        r#"{"model":"m","metadata":{"session_id":"s","prompt_cache_key":"k","user_id":7}}"#,
        r#"{"model":"m","metadata":[{"user_id":"user_1_session_s"}]}"#,
        r#"{"model":"m","metadata":{"nested":{"user_id":"user_1_session_s"}}}"#,
        r#"{"model":"m","extra":{"metadata":{"user_id":"user_1_session_s"},"prompt_cache_key":"k"}}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"\"metadata\":{\"user_id\":\"user_1_session_s\"},\"prompt_cache_key\":\"k\""}]}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"hi","metadata":{"user_id":"user_1_session_s"},"prompt_cache_key":"k"}]}"#,
    ] {
        for dialect in [Messages, Chat, Completions, Responses, Other] {
            let facts = facts(dialect, decoy);
            assert_eq!(facts.metadata_session, None, "{decoy}");
            assert_eq!(facts.prompt_cache_key, None, "{decoy}");
        }
    }
    let body = r#"{"prompt_cache_key":"k\u0031","model":"m","metadata":{"x":[1],"user_i\u0064":"{\"session_id\":\"s\"}"}}"#;
    let facts = facts(Responses, body);
    assert_eq!(facts.prompt_cache_key.as_deref(), Some("k1"));
    assert_eq!(facts.metadata_session.as_deref(), Some("s"));
}

#[test]
fn the_two_forms_of_a_session_in_a_user_id() {
    for (user_id, session) in [
        (
            r#"{"device_id":"d","account_uuid":"","session_id":"36cd54ad-fa21"}"#,
            Some("36cd54ad-fa21"),
        ),
        (r#" {"session_id":"a\u0062"} "#, Some("ab")),
        (
            "user_0a1b_account_12_session_36cd54ad-fa21",
            Some("36cd54ad-fa21"),
        ),
        ("user_0a1b_account__session_36cd54ad", Some("36cd54ad")),
        ("user_0a1b", None),
        ("alice@example.org", None),
        ("user_1_session_", None),
        ("user_1_session_ ", None),
        (r#"{"session_id":""}"#, None),
        (r#"{"session_id":7}"#, None),
        (r#"{"device_id":"d"}"#, None),
        (r#"{"session_id":"s""#, None),
        ("", None),
    ] {
        assert_eq!(metadata_session(user_id).as_deref(), session, "{user_id}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let json = |offset| BodyError::Json { offset };
    for (body, error) in [
        ("", json(0)),
        ("  ", json(2)),
        ("{", json(1)),
        ("nope", json(0)),
        (r#"{"model":"m"} x"#, json(14)),
        (r#"{"model":"m",}"#, json(13)),
        (r#"{"model" "m"}"#, json(9)),
        (r#"{model:"m"}"#, json(1)),
        (r#"{"model":"m","x":[1,]}"#, json(20)),
        (r#"{"model":"m","x":01}"#, json(17)),
        (r#"{"model":"m","x":NaN}"#, json(17)),
        (r#"{"model":"m","x":[1}"#, json(19)),
        (r#"{"model":"m\q"}"#, json(11)),
        (r#"{"model":"m\u00g0"}"#, json(11)),
        ("{\"model\":\"m\n\"}", json(11)),
        (r#"{"model":"m"#, json(11)),
        ("[]", BodyError::NotAnObject),
        ("\"model\"", BodyError::NotAnObject),
        ("[1", json(2)),
        ("{}", BodyError::MissingModel),
        (r#"{"model":null}"#, BodyError::MissingModel),
        (r#"{"model":""}"#, BodyError::MissingModel),
        (r#"{"model":["m"]}"#, BodyError::MissingModel),
        (r#"{"model":"m","model":5}"#, BodyError::MissingModel),
        (
            r#"{"model":"m","stream":"yes"}"#,
            BodyError::WrongType {
                key: "stream",
                expected: "true or false",
            },
        ),
        (
            r#"{"model":"m","messages":{}}"#,
            BodyError::WrongType {
                key: "messages",
                expected: "an array of objects",
            },
        ),
        (
            r#"{"model":"m","messages":["hi"]}"#,
            BodyError::WrongType {
                key: "messages",
                expected: "an array of objects",
            },
        ),
    ] {
        assert_eq!(scan(Messages, body.as_bytes()), Err(error), "{body}");
    }
}

#[test]
fn invalid_utf8_is_invalid_json() {
    assert_eq!(
        scan(Messages, b"{\"model\":\"\xFF\"}"),
        Err(BodyError::Json { offset: 10 })
    );
    assert_eq!(
        scan(Messages, b"{\"model\":\"m\"}\xC3"),
        Err(BodyError::Json { offset: 13 })
    );
}

#[test]
fn a_long_model_name_is_refused() {
    let body = |bytes| format!(r#"{{"model":"{}"}}"#, "m".repeat(bytes));
    assert!(scan(Messages, body(1024).as_bytes()).is_ok());
    let error = scan(Messages, body(1025).as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"model\" must be a name of at most 1024 bytes"
    );
}

#[test]
fn depth_is_bounded_wherever_it_opens() {
    let deepest = DEPTH_MAX as usize;
    for (dialect, before, level, after) in [
        (Messages, r#"{"model":"m","x":"#, ("[", "]"), "}"),
        (Messages, r#"{"model":"m","x":"#, (r#"{"a":"#, "}"), "}"),
        (Messages, r#"{"model":"m","tools":"#, ("[", "]"), "}"),
        (
            Messages,
            r#"{"model":"m","system":"#,
            (r#"[{"content":"#, "}]"),
            "}",
        ),
        (
            Messages,
            r#"{"model":"m","messages":"#,
            (r#"[{"content":"#, "}]"),
            "}",
        ),
        (
            Responses,
            r#"{"model":"m","input":"#,
            (r#"[{"content":"#, "}]"),
            "}",
        ),
        (Completions, r#"{"model":"m","prompt":"#, ("[", "]"), "}"),
    ] {
        let depth_of_level = level.1.len();
        let nested = |levels: usize| {
            let inside = if level.0.ends_with(':') { "0" } else { "" };
            let (open, close) = (level.0.repeat(levels), level.1.repeat(levels));
            format!("{before}{open}{inside}{close}{after}")
        };
        let allowed = (deepest - 1) / depth_of_level;
        assert!(
            scan(dialect, nested(allowed).as_bytes()).is_ok(),
            "{before} {level:?}"
        );
        for too_many in [allowed + 1, 100_000] {
            let error = scan(dialect, nested(too_many).as_bytes()).unwrap_err();
            assert!(
                matches!(error, BodyError::TooDeep { .. }),
                "{before} {level:?}: {error}"
            );
        }
    }
}

#[test]
fn a_spliced_model_leaves_every_other_byte() {
    let body = "{\"x\" : 1, \"model\"\t: \"cl\\u0061ude\" ,\"y\":\"model\"}";
    let span = facts(Messages, body).model_span;
    let (before, model, after) = splice_model(body.as_bytes(), &span, "qwen \"3\"\n");
    let spliced = [before, model.as_bytes(), after].concat();
    assert_eq!(
        String::from_utf8(spliced).unwrap(),
        "{\"x\" : 1, \"model\"\t: \"qwen \\\"3\\\"\\n\" ,\"y\":\"model\"}"
    );
    let (before, _, after) = splice_model(b"{}", &(5..9), "m");
    assert_eq!(
        (before, after),
        (&b"{}"[..], &b""[..]),
        "a foreign span is clipped"
    );
}
