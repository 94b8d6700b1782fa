//! What the scan finds in bodies of real clients.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vllm::{BodyFacts, Digests, HeaderClass, scan};

use crate::recorded::{Recorded, prompts};

/// A request and what the scan finds in it.
#[derive(Debug, Clone)]
struct Turn<'a> {
    request: &'a Recorded,
    facts: BodyFacts<'a>,
}

/// Session and agent id, as the client names them.
type Conversation = (String, Option<String>);

impl Turn<'_> {
    fn conversation(&self) -> Conversation {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ids = self.request.ids();
        let session = ids
            .claude_code_session_id
            .or(ids.session_affinity)
            .or(ids.session_id)
            .map(text)
            .or(self.facts.metadata_session.clone().map(Into::into))
            .unwrap_or_else(|| panic!("{} names no session", self.request.name));
        (
            session,
            ids.claude_code_agent_id.or(ids.thread_id).map(text),
        )
    }
}

/// A client's requests in the order sent; those that only count are left out.
fn turns<'a>(all: &'a [Recorded], client: &str) -> Vec<Turn<'a>> {
    let turns: Vec<_> = all
        .iter()
        .filter(|request| request.name.starts_with(client) && !request.is_count_tokens())
        .map(|request| Turn {
            request,
            facts: request.facts(),
        })
        .collect();
    assert!(!turns.is_empty(), "no recordings of {client}");
    turns
}

fn conversations<'a>(all: &'a [Recorded], client: &str) -> BTreeMap<Conversation, Vec<Turn<'a>>> {
    let mut conversations = BTreeMap::<_, Vec<_>>::new();
    for turn in turns(all, client) {
        conversations
            .entry(turn.conversation())
            .or_default()
            .push(turn);
    }
    conversations
}

/// The turns of a conversation's main lineage, which is the one that shares most.
fn main_turns<'t, 'a>(turns: &'t [Turn<'a>]) -> Vec<&'t Turn<'a>> {
    let longest = turns
        .iter()
        .max_by_key(|turn| turn.facts.shared_bytes)
        .unwrap();
    turns
        .iter()
        .filter(|turn| turn.facts.lineage == longest.facts.lineage)
        .collect()
}

#[test]
fn every_recorded_body_scans_and_names_its_session() {
    let Some(all) = prompts() else { return };
    for Turn { request, facts } in turns(all, "") {
        let name = &request.name;
        assert_eq!(request.body.len() as u64, request.body_bytes, "{name}");
        let document: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(document["model"], *facts.model, "{name}");
        assert_eq!(
            document["stream"].as_bool().unwrap_or(false),
            facts.stream,
            "{name}"
        );
        assert!(
            facts.messages > 0 && facts.prompt_bytes > facts.shared_bytes,
            "{name}"
        );
        let in_body = facts
            .metadata_session
            .clone()
            .or(facts.prompt_cache_key.clone());
        let (session, _) = Turn { request, facts }.conversation();
        if name.starts_with("opencode") {
            assert_eq!(in_body, None, "{name}");
        } else {
            assert_eq!(in_body.as_deref(), Some(&*session), "{name}");
        }
    }
    let counting = all.iter().filter(|request| request.is_count_tokens());
    assert!(counting.map(Recorded::facts).count() > 3);
}

#[test]
fn the_lineage_holds_through_a_conversation() {
    let Some(all) = prompts() else { return };
    for (client, expected) in [
        ("claude-code-2.0", 1),
        ("claude-code-2.1.177", 1),
        ("claude-code-2.1.332", 2),
        ("codex", 1),
        ("opencode", 2),
    ] {
        let mut long = 0;
        for turns in conversations(all, client).values() {
            long += usize::from(main_turns(turns).len() >= 4);
        }
        assert!(
            long >= expected,
            "{client}: {long} conversations with four turns or more"
        );
    }
}

/// Claude Code 2.0 is left out: it changes what it said before (a reminder at the end of a tool's
/// result goes in the next turn). So is compaction, which is meant to.
#[test]
fn every_turn_extends_the_one_before() {
    let Some(all) = prompts() else { return };
    let mut extended = 0;
    for client in [
        "claude-code-2.1.177",
        "claude-code-2.1.332/headless",
        "claude-code-2.1.332/subagents",
        "claude-code-2.1.332/webfetch",
        "codex",
        "opencode",
    ] {
        for turns in conversations(all, client).values() {
            for pair in main_turns(turns).windows(2) {
                let [before, after] = [pair[0], pair[1]];
                let name = &after.request.name;
                let hash = prompt_hash_of_first(after.request, before.facts.messages as usize);
                assert_eq!(
                    hash, before.facts.prompt_hash,
                    "{name} does not extend the last turn"
                );
                let [chain, earlier] = [after, before].map(|turn| turn.facts.chain.as_ref());
                let change = chain.unwrap().change_since(earlier.unwrap());
                assert_eq!(change, None, "{name}");
                if before.facts.first_turn_hash.is_some() {
                    assert_eq!(
                        before.facts.first_turn_hash, after.facts.first_turn_hash,
                        "{name}"
                    );
                }
                extended += 1;
            }
        }
    }
    assert!(extended > 40, "only {extended} pairs of turns");
}

/// What the prompt hash would be, had the client sent only so many of the messages.
fn prompt_hash_of_first(request: &Recorded, messages: usize) -> Option<u64> {
    let mut body: Value = serde_json::from_slice(&request.body).unwrap();
    for key in ["messages", "input"] {
        if let Some(list) = body.get_mut(key).and_then(Value::as_array_mut) {
            list.truncate(messages);
        }
    }
    let body = serde_json::to_vec(&body).unwrap();
    let facts = scan(request.dialect().unwrap(), Digests::Prompt, &body);
    facts.unwrap().prompt_hash
}

#[test]
fn subagents_are_conversations_of_another_lineage() {
    let Some(all) = prompts() else { return };
    let mut subagents = 0;
    // Codex names an agent on its main turns too, which is the session's own id.
    for (client, names_main) in [
        ("claude-code-2.1.177", false),
        ("claude-code-2.1.332/subagents", false),
        ("codex", true),
    ] {
        let conversations = conversations(all, client);
        for ((session, agent), turns) in &conversations {
            let main = (session.clone(), names_main.then(|| session.clone()));
            if agent != &main.1 {
                let lineage_of = |turns: &[Turn<'_>]| main_turns(turns)[0].facts.lineage;
                assert_ne!(
                    lineage_of(turns),
                    lineage_of(&conversations[&main]),
                    "{session} {agent:?}"
                );
                subagents += 1;
            }
        }
    }
    assert!(subagents >= 8, "only {subagents} subagents");
}

#[test]
fn a_changing_billing_block_changes_no_lineage() {
    let Some(all) = prompts() else { return };
    let mut turns = turns(all, "claude-code-2.1.177");
    turns.retain(|turn| turn.request.ids().claude_code_agent_id.is_none());
    let first_blocks: BTreeSet<_> = turns
        .iter()
        .map(|turn| {
            let body: Value = serde_json::from_slice(&turn.request.body).unwrap();
            body["system"][0]["text"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(first_blocks.len() > 5, "the recording's block changes");
    assert!(
        first_blocks
            .iter()
            .all(|block| block.starts_with("x-anthropic-billing-header:"))
    );
    let lineages: BTreeSet<_> = turns.iter().map(|turn| turn.facts.lineage).collect();
    assert_eq!(lineages.len(), 1);
    let chain = |turn: &Turn<'_>| turn.facts.chain.clone().unwrap();
    let changes = turns
        .windows(2)
        .filter(|pair| chain(&pair[1]).billing_differs(&chain(&pair[0])));
    assert!(changes.count() > 5, "the chains tell of it");
}

#[test]
fn request_classes_are_read_where_they_are_sent() {
    let Some(all) = prompts() else { return };
    for request in all {
        let hinted = request.name.contains("gateway-hint-headers");
        let class = if hinted {
            HeaderClass::Turn
        } else {
            HeaderClass::Unknown
        };
        assert_eq!(request.ids().class, class, "{}", request.name);
        assert_eq!(request.ids().pin, None, "{}", request.name);
    }
}
