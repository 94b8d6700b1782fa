//! Replies that are one JSON object.

use super::*;

#[test]
fn usage_of_every_dialect() {
    let openai = r#"{"id":"c","choices":[{"index":0,"message":{"content":"\"usage\": {}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":120,"total_tokens":129,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":96}}}"#;
    for (dialect, body, expected) in [
        (
            Messages,
            r#"{"type":"message","content":[],"stop_reason":"end_turn","usage":{"input_tokens":24,"output_tokens":9,"cache_read_input_tokens":96,"cache_creation_input_tokens":0}}"#,
            Some(usage(120, Some(96), 9)),
        ),
        (
            Messages,
            r#"{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":120,"output_tokens":9}}"#,
            Some(usage(120, None, 9)),
        ),
        (Messages, r#"{"input_tokens":120}"#, None),
        (Chat, openai, Some(usage(120, Some(96), 9))),
        (Completions, openai, Some(usage(120, Some(96), 9))),
        (Chat, r#"{"choices":[]}"#, None),
        (Chat, r#"{"choices":[],"usage":null}"#, None),
        (Chat, r#"{"choices":[],"usage":[1]}"#, None),
        (
            Responses,
            r#"{"status":"completed","error":null,"usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":96},"output_tokens":9}}"#,
            Some(usage(120, Some(96), 9)),
        ),
        (
            Other,
            r#"{"data":[],"usage":{"prompt_tokens":5,"total_tokens":5}}"#,
            Some(usage(5, None, 0)),
        ),
    ] {
        let told = whole(dialect, body);
        assert_eq!(told.usage, expected, "{body}");
        assert_eq!(told.end, StreamEnd::Complete, "{body}");
        assert_eq!(told.passed, body.as_bytes());
        assert!(told.saw_first_event && !told.is_broken);
    }
}

#[test]
fn how_a_reply_ended() {
    for (dialect, body, end) in [
        (
            Messages,
            r#"{"type":"message","stop_reason":null,"usage":{}}"#,
            StreamEnd::Cut,
        ),
        (
            Messages,
            r#"{"type":"message","stop_reason":"max_tokens"}"#,
            StreamEnd::Complete,
        ),
        (Messages, r#"{"type":"message","stop_re"#, StreamEnd::Cut),
        (Messages, "", StreamEnd::Cut),
        (
            Messages,
            r#"{"type":"error","error":{"message":"boom"}}"#,
            StreamEnd::EngineError,
        ),
        (
            Chat,
            r#"{"choices":[{"finish_reason":"abort"}]}"#,
            StreamEnd::Cut,
        ),
        (
            Chat,
            r#"{"choices":[{"message":{"content":"\"finish_reason\":\"abort\""},"finish_reason":"stop"}]}"#,
            StreamEnd::Complete,
        ),
        (
            Chat,
            r#"{"object":"error","message":"boom"}"#,
            StreamEnd::EngineError,
        ),
        (
            Chat,
            r#"{"error":{"message":"boom"}}"#,
            StreamEnd::EngineError,
        ),
        (
            Responses,
            r#"{"status":"failed","error":null}"#,
            StreamEnd::EngineError,
        ),
        (Responses, r#"{"status":"incomplete"}"#, StreamEnd::Complete),
        (Other, "[1,2]", StreamEnd::Complete),
    ] {
        assert_eq!(whole(dialect, body).end, end, "{body}");
    }
    let mut tap = ReplyTap::new(Chat, false, 404);
    tap.feed(b"{}");
    assert_eq!(tap.finish(), StreamEnd::EngineError);
}

#[test]
fn a_reply_too_long_to_measure_passes_unmeasured() {
    let pad = "x".repeat(MEASURED_BYTES_MAX);
    let body = format!(r#"{{"pad":"{pad}","usage":{{"prompt_tokens":1,"completion_tokens":1}}}}"#);
    let told = run(Chat, false, body.as_bytes().chunks(100_000));
    assert_eq!((told.end, told.usage), (StreamEnd::Complete, None));
    assert_eq!(told.passed.len(), body.len());
    assert!(told.saw_first_event);
}

#[test]
fn nothing_yet_is_no_first_byte() {
    let mut tap = ReplyTap::new(Chat, false, 200);
    assert!(!tap.saw_first_event());
    tap.feed(b"");
    assert!(!tap.saw_first_event());
    tap.feed(b"{");
    assert!(tap.saw_first_event());
}
