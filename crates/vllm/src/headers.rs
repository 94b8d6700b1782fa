//! What a request's headers tell of its conversation, class and replica.
//!
//! Only collects: which of the ids counts is `routing`'s to decide. A request id is not among
//! them, since it names no session. Where a header stands twice the first counts, as in vLLM's
//! HTTP layer.

/// What the client says its request is (`x-claude-code-request-class`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeaderClass {
    /// Not sent, or a word not known here.
    #[default]
    Unknown,
    /// `main`, `subagent`, `workflow`: a turn of the conversation.
    Turn,
    /// `compaction`, `auxiliary`, `side_reply`: a side request.
    Side,
}

/// Identity candidates and wishes, as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeaderIds<'a> {
    /// `x-claude-code-session-id`.
    pub claude_code_session_id: Option<&'a [u8]>,
    /// `x-claude-code-agent-id`.
    pub claude_code_agent_id: Option<&'a [u8]>,
    /// `x-session-affinity`.
    pub session_affinity: Option<&'a [u8]>,
    /// `session-id`, else `session_id`.
    pub session_id: Option<&'a [u8]>,
    /// `thread-id`: the agent id that goes with `session-id`.
    pub thread_id: Option<&'a [u8]>,
    /// `x-session-id`.
    pub x_session_id: Option<&'a [u8]>,
    /// `X-data-parallel-rank`, where vLLM would take it for an integer.
    pub pin: Option<i64>,
    /// `x-claude-code-request-class`.
    pub class: HeaderClass,
}

impl<'a> HeaderIds<'a> {
    /// Collects from header lines in the order received; names in any case.
    pub fn from_headers(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut ids = Self::default();
        let (mut underscored, mut rank, mut class) = (None, None, None);
        for (name, value) in headers {
            let Some(slot) = [
                ("x-claude-code-session-id", &mut ids.claude_code_session_id),
                ("x-claude-code-agent-id", &mut ids.claude_code_agent_id),
                ("x-claude-code-request-class", &mut class),
                ("x-session-affinity", &mut ids.session_affinity),
                ("session-id", &mut ids.session_id),
                ("session_id", &mut underscored),
                ("thread-id", &mut ids.thread_id),
                ("x-session-id", &mut ids.x_session_id),
                ("x-data-parallel-rank", &mut rank),
            ]
            .into_iter()
            .find_map(|(known, slot)| name.eq_ignore_ascii_case(known).then_some(slot)) else {
                continue;
            };
            slot.get_or_insert(value);
        }
        ids.session_id = ids.session_id.or(underscored);
        ids.pin = rank.and_then(parse_rank);
        ids.class = class.map(class_of).unwrap_or_default();
        ids
    }
}

fn class_of(value: &[u8]) -> HeaderClass {
    match value.trim_ascii() {
        b"main" | b"subagent" | b"workflow" => HeaderClass::Turn,
        b"compaction" | b"auxiliary" | b"side_reply" => HeaderClass::Side,
        _ => HeaderClass::Unknown,
    }
}

/// The rank in an `X-data-parallel-rank` header, by the rules of Python's `int()`, which vLLM
/// applies: white space around it, one sign, digits with single underscores between them. `None`
/// for what vLLM ignores; out of range of an `i64` counts as the nearest.
pub fn parse_rank(value: &[u8]) -> Option<i64> {
    let start = value.iter().position(|byte| !is_python_space(*byte))?;
    let end = value.iter().rposition(|byte| !is_python_space(*byte))?;
    let value = &value[start..=end];
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    digits
        .split(|byte| *byte == b'_')
        .try_fold(0_i64, |number, group| {
            if group.is_empty() || !group.iter().all(u8::is_ascii_digit) {
                return None;
            }
            Some(group.iter().fold(number, |number, digit| {
                let digit = i64::from(digit - b'0');
                number
                    .saturating_mul(10)
                    .saturating_add(if negative { -digit } else { digit })
            }))
        })
}

/// White space as Python sees it in a header, which it decodes as Latin-1.
fn is_python_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | 0x1C..=0x20 | 0x85 | 0xA0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids<'a>(headers: &'a [(&'a str, &'a str)]) -> HeaderIds<'a> {
        HeaderIds::from_headers(
            headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes())),
        )
    }

    #[test]
    fn every_candidate_is_found_in_any_case() {
        let found = ids(&[
            ("X-Claude-Code-Session-Id", "a"),
            ("x-claude-code-agent-id", "b"),
            ("X-SESSION-AFFINITY", "c"),
            ("Session-Id", "d"),
            ("thread-id", "e"),
            ("x-session-id", "f"),
            ("X-data-parallel-rank", "3"),
            ("X-Claude-Code-Request-Class", "side_reply"),
            ("x-request-id", "never"),
            ("x-client-request-id", "never"),
        ]);
        assert_eq!(
            found,
            HeaderIds {
                claude_code_session_id: Some(b"a"),
                claude_code_agent_id: Some(b"b"),
                session_affinity: Some(b"c"),
                session_id: Some(b"d"),
                thread_id: Some(b"e"),
                x_session_id: Some(b"f"),
                pin: Some(3),
                class: HeaderClass::Side,
            }
        );
    }

    #[test]
    fn a_request_id_names_no_session() {
        let headers = [
            ("x-request-id", "1"),
            ("x-client-request-id", "2"),
            ("x-correlation-id", "3"),
        ];
        assert_eq!(ids(&headers), HeaderIds::default());
    }

    #[test]
    fn the_first_of_equal_headers_counts_and_the_hyphen_goes_before_the_underscore() {
        let found = ids(&[
            ("session_id", "u"),
            ("session-id", "h"),
            ("session-id", "later"),
        ]);
        assert_eq!(found.session_id, Some(&b"h"[..]));
        assert_eq!(ids(&[("session_id", "u")]).session_id, Some(&b"u"[..]));
        let ranks = [
            ("x-data-parallel-rank", "abc"),
            ("x-data-parallel-rank", "1"),
        ];
        assert_eq!(ids(&ranks).pin, None, "vLLM looks at the first line only");
    }

    #[test]
    fn classes() {
        for (word, class) in [
            ("main", HeaderClass::Turn),
            ("subagent", HeaderClass::Turn),
            ("workflow", HeaderClass::Turn),
            ("compaction", HeaderClass::Side),
            ("auxiliary", HeaderClass::Side),
            ("side_reply", HeaderClass::Side),
            ("", HeaderClass::Unknown),
            ("Main", HeaderClass::Unknown),
        ] {
            assert_eq!(
                ids(&[("x-claude-code-request-class", word)]).class,
                class,
                "{word}"
            );
        }
    }

    #[test]
    fn ranks_as_python_reads_them() {
        for (text, rank) in [
            ("0", Some(0)),
            (" 1 ", Some(1)),
            ("+1", Some(1)),
            ("-1", Some(-1)),
            ("-0", Some(0)),
            ("007", Some(7)),
            ("1_0", Some(10)),
            ("\t2\r", Some(2)),
            ("\u{1f}2", Some(2)),
            ("99999999999999999999", Some(i64::MAX)),
            ("-99999999999999999999", Some(i64::MIN)),
            ("", None),
            ("  ", None),
            ("abc", None),
            ("1.0", None),
            ("1e0", None),
            ("0x1", None),
            ("1 0", None),
            ("+ 1", None),
            ("++1", None),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("+", None),
            ("+_1", None),
        ] {
            assert_eq!(parse_rank(text.as_bytes()), rank, "{text:?}");
        }
        assert_eq!(parse_rank(b"\xA01\x85"), Some(1), "Latin-1 spaces");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(value in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse_rank(&value);
        }

        #[test]
        fn any_integer_is_a_rank(rank: i64) {
            prop_assert_eq!(parse_rank(rank.to_string().as_bytes()), Some(rank));
        }
    }
}
