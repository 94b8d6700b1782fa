//! A reply means the same however its bytes are split over chunks.

use proptest::prelude::*;

use super::*;

const DIALECTS: [Dialect; 5] = [Messages, Chat, Completions, Responses, Other];

/// Events that a stream may hold, the deadly ones among them.
fn any_event() -> impl Strategy<Value = String> {
    let deltas = (
        prop::sample::select(vec!["null", "\"end_turn\"", " null", "7"]),
        prop::sample::select(vec![
            "{}",
            r#"{"output_tokens":3}"#,
            r#"{"input_tokens":4,"output_tokens":3,"cache_read_input_tokens":96}"#,
        ]),
    )
        .prop_map(|(reason, usage)| message_delta(reason, usage));
    let chunks = (
        prop::sample::select(vec!["null", "\"stop\"", "\"abort\""]),
        prop::sample::select(vec![
            "",
            r#","usage":null"#,
            r#","usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}"#,
            r#","error":{"message":"boom"}"#,
        ]),
    )
        .prop_map(|(reason, more)| chat_chunk(reason, more));
    prop_oneof![
        4 => Just(messages_start()),
        3 => deltas.clone(),
        1 => deltas.prop_map(|delta| delta.replace("event: message_delta\n", "")),
        2 => Just(message_stop()),
        3 => chunks,
        1 => Just(data("[DONE]")),
        1 => Just(event("ping", r#"{"type":"ping"}"#)),
        1 => Just(": comment\n\n".to_owned()),
        1 => Just(event("error", "{}")),
        2 => (
            prop::sample::select(vec!["response.created", "response.completed", "response.failed"]),
        ).prop_map(|(name,)| event(
            name,
            r#"{"response":{"usage":{"input_tokens":5,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}}"#,
        )),
        1 => prop::sample::select(vec![
            "\n", "\r\n", "\r", "data:", "data: x\n", "event: message_delta\n", "e", "event", ":",
            "data: {\"a\":\ndata: 1}\n\n",
        ]).prop_map(str::to_owned),
    ]
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    (
        prop::collection::vec(any_event(), 0..8),
        any::<bool>(),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(events, crlf, cut)| {
            let mut body = events.concat();
            if crlf {
                body = body.replace('\n', "\r\n");
            }
            // One stream in some ends early.
            let end = cut.index(3 * body.len().max(1)).min(body.len());
            body.into_bytes()[..end].to_vec()
        })
}

/// The chunks between these places.
fn split<'a>(body: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places
        .iter()
        .map(|place| place.index(body.len() + 1))
        .collect();
    places.sort_unstable();
    let mut from = 0;
    let mut chunks = Vec::new();
    for to in places.into_iter().chain([body.len()]) {
        chunks.push(&body[from..to]);
        from = to;
    }
    chunks
}

/// What must not depend on the split. How far a broken completions stream got may: the start of
/// its last event passes where it came torn.
fn check_split(dialect: Dialect, streaming: bool, body: &[u8], chunks: Vec<&[u8]>) {
    let expected = run(dialect, streaming, [body]);
    let told = run(dialect, streaming, chunks);
    assert_eq!(told.end, expected.end);
    assert_eq!(told.usage, expected.usage);
    assert_eq!(told.saw_first_event, expected.saw_first_event);
    assert_eq!(told.is_broken, expected.is_broken);
    assert!(body.starts_with(&told.passed) && told.passed.starts_with(&expected.passed));
    if !told.is_broken && (dialect != Messages || !streaming) {
        assert_eq!(told.passed, body, "nothing is held at the end");
    }
    if dialect == Messages && !ends_with_bare_stop(body) {
        assert_eq!(told.passed, expected.passed);
    }
}

/// Whether the stream may break at a `message_stop`, which is not held back when torn.
fn ends_with_bare_stop(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("message_stop")
}

proptest! {
    #[test]
    fn any_split_of_a_stream_tells_the_same(
        body in any_stream(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for dialect in DIALECTS {
            check_split(dialect, true, &body, split(&body, &places));
        }
    }

    #[test]
    fn single_bytes_of_a_stream_tell_the_same(body in any_stream()) {
        for dialect in DIALECTS {
            check_split(dialect, true, &body, body.chunks(1).collect());
        }
    }

    #[test]
    fn any_bytes_pass(
        body in prop::collection::vec(any::<u8>(), 0..300),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for dialect in DIALECTS {
            for streaming in [true, false] {
                check_split(dialect, streaming, &body, split(&body, &places));
            }
        }
    }

    #[test]
    fn no_split_lets_a_deadly_delta_through(
        crlf: bool,
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let line_ends = |text: String| if crlf { text.replace('\n', "\r\n") } else { text };
        let before = line_ends(messages_start());
        let body = before.clone() + &line_ends(message_delta("null", "{}") + &message_stop());
        let told = run(Messages, true, split(body.as_bytes(), &places));
        prop_assert!(told.is_broken);
        prop_assert_eq!(told.passed, before.as_bytes());
    }
}
