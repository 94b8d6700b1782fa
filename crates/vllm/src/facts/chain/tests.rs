//! That a chain names the first part that changed, and nothing where nothing did.

use proptest::prelude::*;

use super::{
    super::{BodyFacts, Digests, scan},
    *,
};
use crate::Dialect;

/// A prompt's parts as texts, in prompt order.
#[derive(Debug, Clone)]
struct Prompt {
    tools: Vec<String>,
    system: Vec<String>,
    messages: Vec<String>,
}

impl Prompt {
    fn of(tools: usize, system: usize, messages: usize) -> Self {
        let parts = |what: &str, count| (0..count).map(|n| format!("{what} {n}")).collect();
        Self {
            tools: parts("tool", tools),
            system: parts("system", system),
            messages: parts("message", messages),
        }
    }

    fn part(&mut self, section: PromptSection, index: usize) -> &mut String {
        match section {
            PromptSection::Tools => &mut self.tools[index],
            PromptSection::System => &mut self.system[index],
            PromptSection::Messages => &mut self.messages[index],
        }
    }

    fn chain(&self) -> PromptChain {
        let join = |parts: &[String], form: fn(usize, &str) -> String| {
            let parts = parts.iter().enumerate();
            parts
                .map(|(index, text)| form(index, text))
                .collect::<Vec<_>>()
                .join(",")
        };
        let messages = join(&self.messages, |index, text| {
            let role = ["user", "assistant"][index % 2];
            format!(r#"{{"role":"{role}","content":"{text}"}}"#)
        });
        let system = join(&self.system, |_, text| {
            format!(r#"{{"type":"text","text":"{text}","cache_control":{{"type":"ephemeral"}}}}"#)
        });
        let tools = join(&self.tools, |_, text| format!(r#"{{"name":"{text}"}}"#));
        chain(&format!(
            r#"{{"model":"m","messages":[{messages}],"system":[{system}],"tools":[{tools}]}}"#
        ))
    }
}

fn facts(body: &str) -> BodyFacts<'_> {
    scan(Dialect::Messages, Digests::Prompt, body.as_bytes()).unwrap()
}

fn chain(body: &str) -> PromptChain {
    *facts(body).chain.unwrap()
}

#[test]
fn each_part_is_named_when_it_changes() {
    use PromptSection::{Messages, System, Tools};
    let before = Prompt::of(3, 2, 4);
    for (section, index, kept) in [
        (Tools, 0, ""),
        (Tools, 2, "nametool 0nametool 1"),
        (System, 0, "nametool 0nametool 1nametool 2"),
        (System, 1, "nametool 0nametool 1nametool 2system 0"),
        (
            Messages,
            0,
            "nametool 0nametool 1nametool 2system 0system 1",
        ),
        (
            Messages,
            3,
            "nametool 0nametool 1nametool 2system 0system 1message 0message 1message 2",
        ),
    ] {
        let mut now = before.clone();
        now.messages.push("more".into());
        now.part(section, index).replace_range(..1, "X");
        let change = now.chain().change_since(&before.chain()).unwrap();
        let part = index as u32 + 1;
        assert_eq!(
            (change.section, change.first, change.last, change.is_front),
            (section, part, part, false)
        );
        assert_eq!(change.kept_bytes, kept.len() as u64, "{change:?}");
    }
}

#[test]
fn a_tool_or_block_more_or_less_is_a_change() {
    let before = Prompt::of(3, 2, 4);
    for (now, section, part) in [
        (Prompt::of(4, 2, 4), PromptSection::Tools, 4),
        (Prompt::of(2, 2, 4), PromptSection::Tools, 3),
        (Prompt::of(0, 2, 4), PromptSection::Tools, 1),
        (Prompt::of(3, 3, 4), PromptSection::System, 3),
        (Prompt::of(3, 0, 4), PromptSection::System, 1),
    ] {
        let change = now.chain().change_since(&before.chain()).unwrap();
        assert_eq!((change.section, change.first), (section, part));
    }
    let shorter = Prompt::of(3, 2, 2).chain();
    assert_eq!(
        shorter.change_since(&before.chain()),
        None,
        "what is left of it is all in the cache"
    );
}

#[test]
fn the_billing_block_is_no_part_and_is_told_by_itself() {
    let with = |billing: &str| {
        chain(&format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"system":[{billing}{{"type":"text","text":"s"}}]}}"#
        ))
    };
    let block = |cch| {
        with(&format!(
            r#"{{"type":"text","text":"x-anthropic-billing-header: cch={cch};"}},"#
        ))
    };
    assert!(block("1").billing_differs(&block("2")));
    assert!(!block("1").billing_differs(&block("1")));
    assert!(!block("1").billing_differs(&with("")) && !with("").billing_differs(&block("1")));
    assert_eq!(block("1").change_since(&block("2")), None);
    assert_eq!(with("").change_since(&block("2")), None);
}

#[test]
fn system_messages_at_the_front_are_told_apart() {
    let chat = |system: &str| {
        let body = format!(
            r#"{{"model":"m","messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"hi"}}]}}"#
        );
        let facts = scan(Dialect::ChatCompletions, Digests::Prompt, body.as_bytes());
        *facts.unwrap().chain.unwrap()
    };
    let change = chat("now").change_since(&chat("then")).unwrap();
    assert!(change.is_front && change.section == PromptSection::Messages && change.first == 1);
}

#[test]
fn only_lists_of_messages_have_a_chain() {
    let body = r#"{"model":"m","prompt":"p","input":"i"}"#;
    for dialect in [Dialect::Completions, Dialect::Responses, Dialect::Other] {
        let facts = scan(dialect, Digests::Prompt, body.as_bytes()).unwrap();
        assert_eq!(facts.chain, None);
    }
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let facts = scan(Dialect::Messages, Digests::Identity, body.as_bytes()).unwrap();
    assert_eq!(facts.chain, None, "it was not asked for");
}

#[test]
fn a_prompt_carries_on_with_its_messages_under_another_head() {
    let before = Prompt::of(2, 1, 4);
    let mut other_system = Prompt::of(2, 1, 6);
    other_system.system[0] = "it is now 12:01".into();
    assert!(other_system.chain().carries_on(&before.chain()));
    // Side requests: a title, the summary of a page, the history without its tools.
    for side in [
        Prompt::of(0, 1, 1),
        Prompt::of(2, 1, 4),
        Prompt::of(0, 1, 6),
        {
            let mut other = Prompt::of(2, 1, 6);
            other.messages[0] = "summarise".into();
            other
        },
    ] {
        assert!(!side.chain().carries_on(&before.chain()), "{side:?}");
    }
    let first = Prompt::of(2, 1, 1);
    assert!(
        !Prompt::of(2, 1, 6).chain().carries_on(&first.chain()),
        "a first prompt may be many conversations'"
    );
}

#[test]
fn a_chain_of_any_prompt_stays_within_its_bound() {
    let chain = Prompt::of(500, 100, 3000).chain();
    assert!(chain.memory_bytes() <= 1900, "{}", chain.memory_bytes());
}

fn sizes() -> impl Strategy<Value = (usize, usize, usize)> {
    (0..150_usize, 0..20_usize, 2..400_usize)
}

proptest! {
    #[test]
    fn a_longer_prompt_is_no_change((tools, system, messages) in sizes(), more in 0..300_usize) {
        let before = Prompt::of(tools, system, messages).chain();
        let now = Prompt::of(tools, system, messages + more).chain();
        prop_assert_eq!(now.change_since(&before), None);
        if more <= 8 {
            prop_assert_eq!(now.carries_on(&before), more > 0);
        }
    }

    /// Up to a change in the last few messages of a thinned chain, which no mark may part from what
    /// came after.
    #[test]
    fn the_first_change_is_within_the_parts_named(
        (tools, system, messages) in sizes(),
        more in 0..300_usize,
        at in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
    ) {
        let before = Prompt::of(tools, system, messages);
        let mut now = Prompt::of(tools, system, messages + more);
        let places = (0..tools).map(|n| (PromptSection::Tools, n))
            .chain((0..system).map(|n| (PromptSection::System, n)))
            .chain((0..messages).map(|n| (PromptSection::Messages, n)));
        let places: Vec<_> = places.collect();
        let (first, second) = (at.index(places.len()), second.index(places.len()));
        for place in [first, second] {
            let (section, index) = places[place];
            *now.part(section, index) = "changed".into();
        }
        let (section, index) = places[first.min(second)];
        let part = index as u32 + 1;
        match now.chain().change_since(&before.chain()) {
            Some(change) => {
                prop_assert_eq!(change.section, section);
                prop_assert!((change.first..=change.last).contains(&part), "{change:?} {part}");
                prop_assert!(change.last - change.first < 8);
            }
            None => prop_assert!(
                section == PromptSection::Messages
                    && messages + more > 128
                    && messages - index <= 8
            ),
        }
    }
}
