//! What is told of a conversation's turns, turn by turn; and what the table holds at most.

use std::fmt::Write as _;

use routing::{Identity, IdentitySource, OwnerId, RequestClass, Route, Time};
use vllm::{Dialect, Digests, scan};

use super::*;

/// A Claude Code request: its system prompt, its billing block, how many messages it has so far.
#[derive(Clone, Copy)]
struct Prompt<'a> {
    system: &'a str,
    billing: &'a str,
    tools: usize,
    messages: usize,
    first: &'a str,
}

const MAIN: Prompt<'_> = Prompt {
    system: "You are an agent.",
    billing: "",
    tools: 3,
    messages: 1,
    first: "please begin",
};

impl Prompt<'_> {
    fn body(&self) -> String {
        let mut messages = format!(r#"{{"role":"user","content":"{}"}}"#, self.first);
        for index in 1..self.messages {
            let role = ["user", "assistant"][index % 2];
            let text = "words ".repeat(100);
            let _ = write!(
                messages,
                r#",{{"role":"{role}","content":"{index} {text}"}}"#
            );
        }
        let tools: Vec<_> = (0..self.tools)
            .map(|tool| {
                format!(
                    r#"{{"name":"tool {tool}","description":"{}"}}"#,
                    "d".repeat(200)
                )
            })
            .collect();
        let billing = match self.billing {
            "" => String::new(),
            cch => format!(r#"{{"type":"text","text":"x-anthropic-billing-header: cch={cch};"}},"#),
        };
        format!(
            r#"{{"model":"m","messages":[{messages}],"system":[{billing}{{"type":"text","text":"{}"}}],"tools":[{}]}}"#,
            self.system,
            tools.join(",")
        )
    }
}

fn key(number: u64) -> ConversationKey {
    ConversationKey(u128::from(number) << 64)
}

fn note(conversation: u64, class: RequestClass, prompt: &Prompt<'_>) -> PromptNote {
    let body = prompt.body();
    let facts = scan(Dialect::Messages, Digests::Prompt, body.as_bytes()).unwrap();
    let request = routing::Request {
        owner: OwnerId(0),
        identity: Some(Identity {
            conversation: key(conversation),
            session: conversation,
            agent: None,
            source: IdentitySource::ClaudeCodeHeader,
        }),
        pin: None,
        steerable: true,
        prompt_bytes: facts.prompt_bytes,
        shared_bytes: facts.shared_bytes,
        lineage: facts.lineage,
        front: facts.first_turn_hash.unwrap_or(0),
        class,
        streams: true,
    };
    PromptNote {
        request,
        chain: facts.chain.unwrap(),
    }
}

/// Plays turns of conversation 1, a minute apart, each of 10 s.
struct Play {
    turns: LastTurns,
    minute: u64,
    model: Arc<str>,
}

impl Play {
    fn new() -> Self {
        Self {
            turns: LastTurns::default(),
            minute: 0,
            model: "m".into(),
        }
    }

    fn turn(&mut self, prompt: &Prompt<'_>, replica: u16, cached_tokens: u64) -> Note {
        self.at(prompt, RequestClass::Unknown, replica, cached_tokens)
    }

    fn at(
        &mut self,
        prompt: &Prompt<'_>,
        class: RequestClass,
        replica: u16,
        cached_tokens: u64,
    ) -> Note {
        self.minute += 1;
        let arrived = Time(self.minute * 60_000_000);
        let served = ServedTurn {
            replica: Some(ReplicaIndex(replica)),
            route: Route::Sticky,
            arrived,
            ended: arrived.plus(Duration::from_secs(10)),
            prompt_tokens: 50_000,
            cached_tokens: Some(cached_tokens),
        };
        let note = note(1, class, prompt);
        self.turns.note(&self.model, note, served, Time(0)).unwrap()
    }

    fn alarm(&self) -> Option<String> {
        Some(self.turns.alarm(key(1))?.message)
    }
}

fn sentence(note: Note) -> String {
    match note {
        Note::Turn(Finding {
            cold: Some(cold), ..
        }) => cold.to_api().sentence,
        note => panic!("not cold: {note:?}"),
    }
}

fn is_warm(note: Note) -> bool {
    matches!(note, Note::Turn(Finding { cold: None, .. }))
}

#[test]
fn a_changed_system_block_is_named_with_what_it_costs() {
    let mut play = Play::new();
    let first = Prompt {
        messages: 3,
        ..MAIN
    };
    assert_eq!(play.turn(&first, 2, 0), Note::First);
    let second = Prompt {
        messages: 5,
        ..MAIN
    };
    let warm = play.turn(&second, 2, 49_000);
    assert!(is_warm(warm));
    let Note::Turn(finding) = warm else { panic!() };
    assert_eq!(finding.gap, Duration::from_secs(50));
    let changed = Prompt {
        messages: 7,
        system: "You are an agent. It is 12:01.",
        ..MAIN
    };
    assert_eq!(
        sentence(play.turn(&changed, 2, 7_000)),
        "system block 1 changed: 43,000 tokens read again"
    );
    // With every turn anew: still the same conversation, each time cold.
    let again = Prompt {
        messages: 9,
        system: "You are an agent. It is 12:02.",
        ..MAIN
    };
    assert!(sentence(play.turn(&again, 2, 7_000)).starts_with("system block 1 changed"));
    let tools = Prompt { tools: 4, ..again };
    let tools = Prompt {
        messages: 11,
        ..tools
    };
    assert_eq!(
        sentence(play.turn(&tools, 2, 0)),
        "tool 4 changed: 50,000 tokens read again"
    );
    assert_eq!(play.alarm(), None);
}

#[test]
fn what_an_earlier_process_served_is_the_turn_before_the_first() {
    let served = ServedTurn {
        replica: Some(ReplicaIndex(2)),
        route: Route::Sticky,
        arrived: Time(1),
        ended: Time(30_000_000),
        prompt_tokens: 50_000,
        cached_tokens: Some(48_000),
    };
    let play = || {
        let mut play = Play::new();
        let lineage = note(1, RequestClass::Unknown, &MAIN).request.lineage;
        let recalled = RecalledTurn { lineage, served };
        play.turns.recall([(key(1), recalled)]);
        play
    };
    assert_eq!(
        sentence(play().turn(&MAIN, 3, 0)),
        "back on replica 3; the turn before was on replica 2: 50,000 tokens read again"
    );
    assert_eq!(
        sentence(play().turn(&MAIN, 2, 7_000)),
        "lm-warden restarted since the turn before, 30 s earlier, and cannot compare the prompts: \
         43,000 tokens read again"
    );
    // A title that comes first is neither the conversation's turn nor costs the next its reason.
    let mut titled = play();
    let title = Prompt {
        system: "Write a title.",
        tools: 0,
        ..MAIN
    };
    assert_eq!(titled.turn(&title, 2, 0), Note::First);
    assert!(matches!(titled.turn(&MAIN, 2, 0), Note::Turn(_)));
    // Once it has spoken, its own last turn counts.
    let mut warm = play();
    assert!(is_warm(warm.turn(&MAIN, 2, 50_000)));
    let next = Prompt {
        messages: 3,
        ..MAIN
    };
    assert!(is_warm(warm.turn(&next, 2, 49_000)));
}

#[test]
fn another_replica_and_a_long_silence_are_told_in_words() {
    let mut play = Play::new();
    let grown = |messages| Prompt { messages, ..MAIN };
    play.turn(&grown(1), 0, 0);
    assert_eq!(
        sentence(play.turn(&grown(3), 3, 0)),
        "back on replica 3; the turn before was on replica 0: 50,000 tokens read again"
    );
    play.minute += 20;
    assert_eq!(
        sentence(play.turn(&grown(5), 3, 1_000)),
        "silent for 20 min, longer than its cache lasted: 49,000 tokens read again"
    );
    let other = Prompt {
        system: "other",
        ..grown(7)
    };
    assert_eq!(
        sentence(play.turn(&other, 1, 0)),
        "back on replica 1; the turn before was on replica 3: 50,000 tokens read again \
         (system block 1 changed too)"
    );
}

#[test]
fn a_changing_billing_block_raises_an_alarm_that_names_the_setting() {
    let mut play = Play::new();
    let billed = |messages, billing| Prompt {
        billing,
        messages,
        ..MAIN
    };
    play.turn(&billed(1, "a"), 0, 0);
    assert!(is_warm(play.turn(&billed(3, "a"), 0, 50_000)));
    assert_eq!(play.alarm(), None);
    assert_eq!(
        sentence(play.turn(&billed(5, "b"), 0, 7_000)),
        "Claude Code's billing block changed: 43,000 tokens read again"
    );
    // Behind an engine that leaves the block out nothing is lost, and the alarm stands.
    assert!(is_warm(play.turn(&billed(7, "c"), 0, 50_000)));
    // Compaction begins anew, and changes the block with the first message.
    let compacted = Prompt {
        first: "what was said before",
        ..billed(3, "d")
    };
    assert!(sentence(play.turn(&compacted, 0, 7_000)).starts_with("message 1 changed"));
    let alarm = play.alarm().unwrap();
    assert!(alarm.contains("changed 2 times in 5 turns"), "{alarm}");
    assert!(alarm.contains("CLAUDE_CODE_ATTRIBUTION_HEADER=0"));
    assert_eq!(play.turns.alarm_of_model("m").unwrap().conversations, 1);
    assert_eq!(play.turns.alarm_of_model("other"), None);
}

#[test]
fn side_requests_are_neither_cold_nor_make_a_turn_cold() {
    let mut play = Play::new();
    let grown = |messages| Prompt { messages, ..MAIN };
    let title = Prompt {
        system: "Write a title.",
        tools: 0,
        billing: "z",
        ..MAIN
    };
    let page = Prompt {
        system: "Summarise the page.",
        tools: 0,
        first: &"page ".repeat(4000),
        ..MAIN
    };
    play.turn(&title, 0, 0);
    assert_eq!(
        play.turn(&grown(1), 0, 0),
        Note::First,
        "the title's request turns out to have been a side request"
    );
    // Longer than all that was said so far, twice in a row.
    for _ in 0..2 {
        assert_eq!(play.turn(&page, 3, 0), Note::Side);
    }
    assert!(is_warm(play.turn(&grown(3), 0, 50_000)));
    for messages in [5, 7, 9] {
        assert_eq!(play.turn(&title, 0, 0), Note::Side);
        assert_eq!(play.turn(&page, 3, 0), Note::Side);
        // The client's own word counts, whatever the prompt says.
        let side = play.at(&grown(messages), RequestClass::Side, 3, 0);
        assert_eq!(side, Note::Side);
        assert!(is_warm(play.turn(&grown(messages), 0, 50_000)));
    }
    assert_eq!(play.alarm(), None);
}

#[test]
fn twenty_thousand_conversations_take_at_most_2_kb_each() {
    let mut turns = LastTurns::default();
    let model: Arc<str> = "m".into();
    let longest = note(
        0,
        RequestClass::Unknown,
        &Prompt {
            tools: 130,
            messages: 600,
            ..MAIN
        },
    );
    let served = ServedTurn {
        replica: None,
        route: Route::Balanced,
        arrived: Time(1),
        ended: Time(2),
        prompt_tokens: 1,
        cached_tokens: None,
    };
    for conversation in 0..CONVERSATIONS_MAX as u64 + 500 {
        let mut prompt = longest.clone();
        let identity = prompt.request.identity.as_mut().unwrap();
        identity.conversation = key(conversation);
        turns.note(&model, prompt, served, Time(0));
    }
    assert_eq!(turns.entries.len(), CONVERSATIONS_MAX);
    assert_eq!(turns.uses.len(), CONVERSATIONS_MAX);
    assert!(!turns.entries.contains_key(&key(499)) && turns.entries.contains_key(&key(500)));
    let each = turns.memory_bytes() / CONVERSATIONS_MAX;
    assert!(
        (1_000..=2_048).contains(&each),
        "{each} bytes for each conversation"
    );
}
