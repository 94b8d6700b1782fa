//! A scan that goes on at a bookmark beside one of the whole body: the same facts, the same errors.

use proptest::prelude::*;

use super::{
    differential::{DIALECTS, keys, values},
    *,
};
use crate::facts::{Bookmark, bookmark::Bookmarker, scan_on};

const SEED: u64 = 5;

/// One turn's body: what stands before the messages, these, and what stands behind.
#[derive(Debug, Clone)]
struct Turn {
    before: String,
    list: &'static str,
    messages: Vec<String>,
    behind: String,
}

impl Turn {
    fn body(&self) -> String {
        let Self {
            before,
            list,
            messages,
            behind,
        } = self;
        // Longer than what gets no bookmark.
        let pad = "x".repeat(40 << 10);
        let messages = messages.join(",");
        format!("{{{before}\"pad\":\"{pad}\",\"{list}\":[{messages}]{behind}}}")
    }
}

fn members(count: usize) -> impl Strategy<Value = Vec<String>> {
    let member = (keys(), values()).prop_map(|(key, value)| format!("{key}:{value}"));
    prop::collection::vec(member, 0..count)
}

fn messages() -> impl Strategy<Value = Vec<String>> {
    let any = members(4).prop_map(|members| format!("{{{}}}", members.join(",")));
    let usual = (
        prop::sample::select(vec!["system", "user", "assistant"]),
        values(),
        prop::bool::weighted(0.2),
    );
    let usual = usual.prop_map(|(role, content, is_marked)| {
        let mark = if is_marked {
            ",\"cache_control\":{}"
        } else {
            ""
        };
        format!("{{\"role\":\"{role}\",\"content\":{content}{mark}}}")
    });
    prop::collection::vec(prop_oneof![1 => any, 3 => usual], 0..6)
}

fn turns() -> impl Strategy<Value = Turn> {
    let list = prop::sample::select(vec!["messages", "input", "prompt"]);
    (members(4), list, messages(), members(4)).prop_map(|(before, list, messages, behind)| {
        let before = before.iter().map(|member| format!("{member},"));
        let behind = behind.iter().map(|member| format!(",{member}"));
        Turn {
            before: "\"model\":\"m\",".to_owned() + &before.collect::<String>(),
            list,
            messages,
            behind: behind.collect(),
        }
    })
}

/// The first turn, and what makes each next one: messages kept of the one before, messages added,
/// whether what stands around them is another's.
fn conversations() -> impl Strategy<Value = Vec<Turn>> {
    let step = (any::<prop::sample::Index>(), turns(), any::<[bool; 2]>());
    let kept = prop::bool::weighted(0.7);
    (turns(), prop::collection::vec((step, kept), 1..4)).prop_map(|(first, steps)| {
        let mut turns = vec![first];
        for ((cut, other, [new_before, new_behind]), kept) in steps {
            let mut turn = turns[turns.len() - 1].clone();
            if !kept {
                turn.messages.truncate(cut.index(turn.messages.len() + 1));
            }
            turn.messages.extend(other.messages);
            if new_before && !kept {
                turn.before = other.before;
            }
            if new_behind {
                turn.behind = other.behind;
            }
            turns.push(turn);
        }
        turns
    })
}

/// Scans one body both ways and gives the bookmark that the next may use.
fn check(
    dialect: Dialect,
    body: &[u8],
    before: Option<Box<Bookmark>>,
) -> Result<Option<Box<Bookmark>>, TestCaseError> {
    let whole = scan(dialect, body);
    match scan_on(dialect, body, before.as_deref(), SEED) {
        Ok((facts, bookmark)) => {
            prop_assert_eq!(Ok(facts), whole);
            Ok(bookmark.or(before))
        }
        Err(error) => {
            prop_assert_eq!(Err(error), whole);
            Ok(before)
        }
    }
}

/// Long bodies: fewer of them.
fn few() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.div_ceil(4),
        ..usual
    }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn facts_are_those_of_a_whole_scan(turns in conversations()) {
        for dialect in DIALECTS {
            let mut bookmark = None;
            for turn in &turns {
                bookmark = check(dialect, turn.body().as_bytes(), bookmark)?;
            }
        }
    }

    #[test]
    fn a_changed_byte_is_seen(
        turn in turns(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut body = turn.body().into_bytes();
        for dialect in DIALECTS {
            let bookmark = check(dialect, &body, None)?;
            let at = at.index(body.len());
            let was = std::mem::replace(&mut body[at], byte);
            check(dialect, &body, bookmark)?;
            body[at] = was;
        }
    }
}

const MARK: &str = ",\"cache_control\":{\"type\":\"ephemeral\"}";

/// A turn of Claude Code's shape, whose last message is marked.
fn marked(messages: usize) -> String {
    let messages = (1..=messages).map(|number| {
        let role = ["assistant", "user"][number % 2];
        let mark = if number == messages { MARK } else { "" };
        format!(
            "{{\"role\":\"{role}\",\"content\":[{{\"type\":\"text\",\"text\":\"{number}\"{mark}}}]}}"
        )
    });
    Turn {
        before: "\"model\":\"m\",".to_owned(),
        list: "messages",
        messages: messages.collect(),
        behind: ",\"tools\":[{\"name\":\"a\"}]".to_owned(),
    }
    .body()
}

#[test]
fn the_next_turn_goes_on_before_the_marked_message() {
    let (first, second) = (marked(5), marked(7));
    let (_, bookmark) = scan_on(Dialect::Messages, first.as_bytes(), None, SEED).unwrap();
    let bookmark = bookmark.unwrap();
    let resume = |body: &str, dialect| {
        let mut bookmarker = Bookmarker::new(dialect, body.as_bytes(), SEED);
        bookmarker.resume(&bookmark).map(|boundary| boundary.offset)
    };
    let offset = resume(&second, Dialect::Messages).unwrap();
    assert!(second[..offset].ends_with("\"text\":\"4\"}]}"));
    assert_eq!(resume(&second, Dialect::ChatCompletions), None);
    assert_eq!(
        resume(&second.replacen("\"m\"", "\"n\"", 1), Dialect::Messages),
        None
    );
}

#[test]
fn a_bookmark_stays_small() {
    let body = marked(5_000);
    let (_, bookmark) = scan_on(Dialect::Messages, body.as_bytes(), None, SEED).unwrap();
    let bytes = bookmark.unwrap().memory_bytes();
    assert!(bytes <= 3 << 10, "{bytes}");
}

#[test]
fn a_short_body_gets_none() {
    let body = br#"{"model":"m","messages":[{"role":"user","content":"a"}]}"#;
    let (_, bookmark) = scan_on(Dialect::Messages, body, None, SEED).unwrap();
    assert!(bookmark.is_none());
}
