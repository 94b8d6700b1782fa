//! Streams, case by case.

use super::*;

#[test]
fn messages_usage_with_cache_fields_only_in_the_delta() {
    let body = messages_start()
        + &message_delta(
            r#""end_turn""#,
            r#"{"input_tokens":24,"output_tokens":9,"cache_read_input_tokens":96,"cache_creation_input_tokens":0}"#,
        )
        + &message_stop();
    let told = stream(Messages, &body);
    assert_eq!(told.usage, Some(usage(120, Some(96), 9)));
    assert_eq!(told.end, StreamEnd::Complete);
    assert_eq!(told.passed, body.as_bytes());
    assert!(told.saw_first_event && !told.is_broken);
}

#[test]
fn messages_usage_in_every_other_form() {
    for (delta, expected) in [
        // Without `--enable-prompt-tokens-details`.
        (
            r#"{"input_tokens":120,"output_tokens":9}"#,
            Some(usage(120, None, 9)),
        ),
        (r#"{"output_tokens":9}"#, Some(usage(120, None, 9))),
        (
            r#"{"output_tokens":9,"cache_read_input_tokens":null}"#,
            Some(usage(120, None, 9)),
        ),
        (
            r#"{"input_tokens":20,"cache_creation_input_tokens":4,"cache_read_input_tokens":96,"output_tokens":9}"#,
            Some(usage(120, Some(96), 9)),
        ),
        // A split without the rest: the full prompt of the start holds.
        (
            r#"{"cache_read_input_tokens":96,"output_tokens":9}"#,
            Some(usage(120, Some(96), 9)),
        ),
        // What cannot be read changes nothing.
        (r#"{"output_tokens":-1}"#, Some(usage(120, None, 0))),
        (r#""none""#, Some(usage(120, None, 0))),
    ] {
        let body = messages_start() + &message_delta(r#""end_turn""#, delta) + &message_stop();
        assert_eq!(stream(Messages, &body).usage, expected, "{delta}");
    }
}

#[test]
fn usage_is_there_before_the_stream_has_ended() {
    let mut tap = ReplyTap::new(Messages, true, 200);
    assert_eq!(tap.usage(), None);
    tap.feed(messages_start().as_bytes());
    assert_eq!(tap.usage(), Some(usage(120, None, 0)));
}

#[test]
fn a_null_stop_reason_is_withheld_with_all_that_follows() {
    let before = messages_start();
    for null in ["null", " null "] {
        let body =
            before.clone() + &message_delta(null, r#"{"output_tokens":3}"#) + &message_stop();
        let told = stream(Messages, &body);
        assert!(told.is_broken);
        assert_eq!(told.end, StreamEnd::Cut);
        assert_eq!(told.passed, before.as_bytes());
        assert_eq!(
            told.usage,
            Some(usage(120, None, 3)),
            "the tokens were generated all the same"
        );
    }
}

#[test]
fn a_stop_without_any_reason_before_it_is_withheld() {
    let before = messages_start();
    let told = stream(Messages, &(before.clone() + &message_stop()));
    assert!(told.is_broken);
    assert_eq!(
        (told.end, told.passed),
        (StreamEnd::Cut, before.clone().into_bytes())
    );
    let delta = event(
        "message_delta",
        r#"{"type":"message_delta","usage":{"output_tokens":3}}"#,
    );
    let told = stream(Messages, &(before.clone() + &delta + &message_stop()));
    assert_eq!(
        told.passed,
        (before + &delta).into_bytes(),
        "the delta itself may be one of several"
    );
    assert!(told.is_broken);
}

#[test]
fn only_what_may_become_that_delta_is_held() {
    let torn = |bytes: &str| {
        let mut tap = ReplyTap::new(Messages, true, 200);
        match tap.feed(bytes.as_bytes()) {
            TapOutput::Pass(passed) => bytes.len() - passed,
            TapOutput::Broken(_) => panic!("{bytes}"),
        }
    };
    for held in [
        "e",
        "event:",
        "event: ",
        "event: m",
        "event: message_",
        "event: message_delta",
        "event:message_delta\r",
        "event: message_delta\r\n",
        "event: message_delta\nda",
        "event: message_delta\ndata: {\"type\"",
        ": comment\nevent: message_d",
        "data: {\"type\"",
        "id: 7\nevent: me",
    ] {
        assert_eq!(torn(held), held.len(), "{held:?}");
    }
    for passed in [
        "event: c",
        "event: message_s",
        "event: message_deltas",
        "event: message_delta_\n",
        "event: content_block_delta\ndata: {\"del",
        "event: ping\n",
        "event: message\ndata: {}\n",
    ] {
        assert_eq!(torn(passed), 0, "{passed:?}");
    }
    let after_an_event = messages_start() + "event: message_delta\n";
    assert_eq!(torn(&after_an_event), "event: message_delta\n".len());
}

#[test]
fn no_more_than_the_bound_is_held() {
    let mut tap = ReplyTap::new(Messages, true, 200);
    let start = "event: message_delta\ndata: {\"pad\":\"";
    assert_eq!(tap.feed(start.as_bytes()), TapOutput::Pass(0));
    let chunk = [b'x'; 4096];
    let mut passed = 0;
    let mut fed = start.len();
    for _ in 0..32 {
        fed += chunk.len();
        match tap.feed(&chunk) {
            TapOutput::Pass(bytes) => passed += bytes,
            TapOutput::Broken(_) => panic!("not yet"),
        }
        assert!(fed - passed <= HELD_BYTES_MAX);
    }
    assert_eq!(passed, fed, "past the bound it passes");
    let rest = "\",\"delta\":{\"stop_reason\":null}}\n\n";
    assert_eq!(
        tap.feed(rest.as_bytes()),
        TapOutput::Broken(0),
        "but for its end"
    );
    assert_eq!(tap.finish(), StreamEnd::Cut);
}

#[test]
fn an_event_too_long_to_measure_passes_unmeasured() {
    let pad = "x".repeat(MEASURED_BYTES_MAX);
    let body = event(
        "response.completed",
        &format!(
            r#"{{"response":{{"output":"{pad}","usage":{{"input_tokens":1,"output_tokens":1}}}}}}"#
        ),
    );
    let told = stream(Responses, &body);
    assert_eq!((told.end, told.usage), (StreamEnd::Complete, None));
    assert_eq!(run(Responses, true, body.as_bytes().chunks(10_000)), told);
}

#[test]
fn a_messages_stream_that_ends_early_is_cut() {
    let start = messages_start();
    let delta = message_delta(r#""end_turn""#, r#"{"output_tokens":9}"#);
    for body in [
        String::new(),
        start.clone(),
        start.clone() + &delta,
        start.clone() + &delta + message_stop().trim_end(),
    ] {
        let told = stream(Messages, &body);
        assert_eq!(told.end, StreamEnd::Cut, "{body}");
        assert!(!told.is_broken);
    }
}

#[test]
fn an_error_event_is_the_engines_error() {
    let error = r#"{"type":"error","error":{"type":"internal_error","message":"boom"}}"#;
    let told = stream(Messages, &(messages_start() + &event("error", error)));
    assert_eq!(told.end, StreamEnd::EngineError);
    assert!(!told.is_broken);
    assert_eq!(
        stream(Messages, &data(error)).end,
        StreamEnd::EngineError,
        "named only in its data"
    );
    for error in [
        r#"{"error":{"message":"boom","type":"InternalServerError","code":500}}"#,
        r#"{"object":"error","message":"boom","error":null,"code":500}"#,
    ] {
        for dialect in [Chat, Completions] {
            let body = chat_chunk("null", "") + &data(error) + &data("[DONE]");
            assert_eq!(
                stream(dialect, &body).end,
                StreamEnd::EngineError,
                "{error}"
            );
        }
    }
    for name in ["error", "response.failed"] {
        assert_eq!(
            stream(Responses, &event(name, "{}")).end,
            StreamEnd::EngineError
        );
    }
}

#[test]
fn chat_usage_comes_in_a_last_chunk_without_choices() {
    let last = data(
        r#"{"id":"c","choices":[],"usage":{"prompt_tokens":120,"total_tokens":129,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":96}}}"#,
    );
    let body = chat_chunk("null", "") + &chat_chunk(r#""stop""#, "") + &last + &data("[DONE]");
    for dialect in [Chat, Completions] {
        let told = stream(dialect, &body);
        assert_eq!(
            (told.end, told.usage),
            (StreamEnd::Complete, Some(usage(120, Some(96), 9)))
        );
        assert_eq!(told.passed, body.as_bytes());
    }
}

#[test]
fn of_usage_on_every_chunk_the_last_counts() {
    let with = |tokens: u64, details: &str| {
        let usage = format!(
            r#","usage":{{"prompt_tokens":120,"completion_tokens":{tokens},"prompt_tokens_details":{details}}}"#
        );
        chat_chunk("null", &usage)
    };
    let body = with(1, r#"{"cached_tokens":96}"#) + &with(2, "null") + &data("[DONE]");
    assert_eq!(stream(Chat, &body).usage, Some(usage(120, Some(96), 2)));
    let unmeasured = with(1, "null") + &with(2, "null") + &data("[DONE]");
    assert_eq!(stream(Chat, &unmeasured).usage, Some(usage(120, None, 2)));
}

#[test]
fn a_stream_without_usage_has_none() {
    let body =
        chat_chunk(r#""stop""#, "") + &chat_chunk("null", r#","usage":null"#) + &data("[DONE]");
    let told = stream(Chat, &body);
    assert_eq!((told.end, told.usage), (StreamEnd::Complete, None));
}

#[test]
fn completions_streams_end_with_done() {
    assert_eq!(
        stream(Chat, &chat_chunk(r#""stop""#, "")).end,
        StreamEnd::Cut
    );
    assert_eq!(
        stream(Chat, "data: [DONE]").end,
        StreamEnd::Complete,
        "the blank line may be missing"
    );
    assert_eq!(stream(Chat, "data:[DONE]\r\n\r\n").end, StreamEnd::Complete);
    assert_eq!(stream(Chat, "data: [DON").end, StreamEnd::Cut);
}

#[test]
fn an_aborted_choice_is_a_broken_stream() {
    let before = chat_chunk("null", "");
    for abort in [r#""abort""#, r#" "abort""#] {
        let body = before.clone() + &chat_chunk(abort, "") + &data("[DONE]");
        for dialect in [Chat, Completions] {
            let told = stream(dialect, &body);
            assert!(told.is_broken);
            assert_eq!(
                (told.end, &told.passed[..]),
                (StreamEnd::Cut, before.as_bytes())
            );
        }
    }
}

#[test]
fn an_aborted_choice_torn_apart_never_reaches_its_end() {
    let body = chat_chunk(r#""abort""#, "") + &data("[DONE]");
    for at in 1..body.len() {
        let (one, other) = body.as_bytes().split_at(at);
        let told = run(Chat, true, [one, other]);
        assert!(told.is_broken);
        assert!(
            !String::from_utf8_lossy(&told.passed).contains("\n\n"),
            "split at {at}"
        );
    }
}

#[test]
fn responses_usage_comes_with_the_end() {
    let response = |status: &str| {
        format!(
            r#"{{"type":"response.x","sequence_number":9,"response":{{"id":"resp_1","status":"{status}","error":null,"output":[],"usage":{{"input_tokens":120,"input_tokens_details":{{"cached_tokens":96}},"output_tokens":9,"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":129}}}}}}"#
        )
    };
    let created = event("response.created", r#"{"response":{"usage":null}}"#);
    for (name, end) in [
        ("response.completed", StreamEnd::Complete),
        ("response.incomplete", StreamEnd::Complete),
        ("response.failed", StreamEnd::EngineError),
    ] {
        let body = created.clone() + &event(name, &response("completed"));
        let told = stream(Responses, &body);
        assert_eq!(
            (told.end, told.usage),
            (end, Some(usage(120, Some(96), 9))),
            "{name}"
        );
        assert_eq!(told.passed, body.as_bytes());
    }
    assert_eq!(stream(Responses, &created).end, StreamEnd::Cut);
    let unnamed = data(&response("completed").replace("response.x", "response.completed"));
    assert_eq!(stream(Responses, &unnamed).end, StreamEnd::Complete);
}

#[test]
fn pings_and_comments_are_no_first_event() {
    let quiet = format!(
        ": waiting\n\n{}\r\n:\r\n\r\n",
        event("ping", r#"{"type":"ping"}"#)
    );
    let unnamed_ping = quiet.clone() + &data(r#"{"type":"ping"}"#);
    for body in [
        quiet.as_str(),
        unnamed_ping.as_str(),
        "event: message_start\n\n",
    ] {
        assert!(!stream(Messages, body).saw_first_event, "{body}");
    }
    assert!(!stream(Chat, ": waiting\n\n").saw_first_event);
    assert!(stream(Messages, &(quiet + &messages_start())).saw_first_event);
    assert!(stream(Chat, &chat_chunk("null", "")).saw_first_event);
    assert!(stream(Responses, &event("response.created", "{}")).saw_first_event);
}

#[test]
fn a_stream_with_an_error_status_is_the_engines_error() {
    let mut tap = ReplyTap::new(Messages, true, 500);
    assert_eq!(
        tap.feed(b"event: message_delta"),
        TapOutput::Pass(20),
        "nothing is held"
    );
    assert_eq!(tap.finish(), StreamEnd::EngineError);
}
