//! Precedence of ids, what counts as not sent, and what parts two conversations.

use super::*;

const SEED: Seed = Seed([7; 16]);
const ALICE: OwnerId = OwnerId(1);

/// An edit of the candidates that a case sends.
type Send<'a> = fn(&mut Candidates<'a>);

fn identify(ids: &Candidates<'_>) -> Identity {
    Identity::of(&SEED, ALICE, "demo", ids).expect("an id was sent")
}

fn codex<'a>(session: &'a [u8], thread: &'a [u8]) -> Candidates<'a> {
    Candidates {
        session_id: Some(session),
        thread_id: Some(thread),
        prompt_cache_key: Some(session),
        ..Candidates::default()
    }
}

#[test]
fn the_first_valid_candidate_in_order_names_the_session() {
    let in_order: [(IdentitySource, Send<'static>); 7] = [
        (IdentitySource::PrefixHash, |c| c.first_turn_hash = Some(1)),
        (IdentitySource::PromptCacheKey, |c| {
            c.prompt_cache_key = Some(b"a");
        }),
        (IdentitySource::MetadataUserId, |c| {
            c.metadata_session = Some(b"b");
        }),
        (IdentitySource::XSessionIdHeader, |c| {
            c.x_session_id = Some(b"c");
        }),
        (IdentitySource::SessionIdHeader, |c| {
            c.session_id = Some(b"d");
        }),
        (IdentitySource::SessionAffinityHeader, |c| {
            c.session_affinity = Some(b"e");
        }),
        (IdentitySource::ClaudeCodeHeader, |c| {
            c.claude_code_session_id = Some(b"f");
        }),
    ];
    let mut ids = Candidates::default();
    for (source, send) in in_order {
        send(&mut ids);
        assert_eq!(identify(&ids).source, source);
    }
}

#[test]
fn an_id_that_is_empty_blank_or_over_256_bytes_counts_as_not_sent() {
    let longest = [b'x'; ID_BYTES_MAX];
    let too_long = [b'x'; ID_BYTES_MAX + 1];
    let source = |id| {
        identify(&Candidates {
            claude_code_session_id: Some(id),
            x_session_id: Some(b"fallback"),
            ..Candidates::default()
        })
        .source
    };
    assert_eq!(source(&longest), IdentitySource::ClaudeCodeHeader);
    for id in [&too_long[..], b"", b" \t "] {
        assert_eq!(source(id), IdentitySource::XSessionIdHeader);
    }
}

#[test]
fn a_first_turn_without_an_id_has_no_identity() {
    let ids = Candidates {
        claude_code_session_id: Some(b" "),
        ..Candidates::default()
    };
    assert_eq!(Identity::of(&SEED, ALICE, "demo", &ids), None);
}

#[test]
fn an_agent_is_a_conversation_of_its_own_within_the_session() {
    let ids = |agent| Candidates {
        claude_code_session_id: Some(b"session"),
        claude_code_agent_id: agent,
        ..Candidates::default()
    };
    let main = identify(&ids(None));
    let [one, two] = [b"agent-1", b"agent-2"].map(|agent| identify(&ids(Some(agent))));
    assert_eq!(main.agent, None);
    assert_ne!(one.agent, two.agent);
    assert_ne!(main.conversation, one.conversation);
    assert_ne!(one.conversation, two.conversation);
    assert_eq!([one.session, two.session], [main.session; 2]);
}

#[test]
fn a_codex_thread_is_an_agent_unless_it_bears_the_sessions_own_id() {
    let session = identify(&Candidates {
        session_id: Some(b"s"),
        ..Candidates::default()
    });
    let main = identify(&codex(b"s", b"s"));
    let subagent = identify(&codex(b"s", b"t"));
    assert_eq!(main, session);
    assert_ne!(subagent.conversation, main.conversation);
    assert_eq!(subagent.session, main.session);
}

#[test]
fn a_thread_id_without_a_session_id_header_is_no_agent() {
    let ids = Candidates {
        thread_id: Some(b"t"),
        prompt_cache_key: Some(b"s"),
        ..Candidates::default()
    };
    assert_eq!(identify(&ids).agent, None);
}

#[test]
fn one_session_id_is_one_conversation_wherever_it_is_sent() {
    let header = identify(&Candidates {
        claude_code_session_id: Some(b"s"),
        ..Candidates::default()
    });
    let body = identify(&Candidates {
        metadata_session: Some(b"s"),
        ..Candidates::default()
    });
    assert_eq!(header.conversation, body.conversation);
}

#[test]
fn no_id_a_client_may_choose_equals_the_identity_by_prefix() {
    let by_prefix = identify(&Candidates {
        first_turn_hash: Some(42),
        ..Candidates::default()
    });
    let by_id = identify(&Candidates {
        x_session_id: Some(&42u64.to_le_bytes()),
        ..Candidates::default()
    });
    assert_ne!(by_prefix.conversation, by_id.conversation);
    assert_ne!(by_prefix.session, by_id.session);
}

#[test]
fn owner_model_seed_and_the_split_of_bytes_all_part_conversations() {
    let ids = |session: &'static [u8], agent: &'static [u8]| Candidates {
        claude_code_session_id: Some(session),
        claude_code_agent_id: Some(agent),
        ..Candidates::default()
    };
    let of = |seed: [u8; 16], owner, model: &str, ids: &Candidates<'_>| {
        Identity::of(&Seed(seed), OwnerId(owner), model, ids).map(|id| id.conversation)
    };
    let ab = ids(b"ab", b"c");
    let base = of([7; 16], 1, "demo", &ab);
    assert_eq!(base, of([7; 16], 1, "demo", &ab));
    for other in [
        of([8; 16], 1, "demo", &ab),
        of([7; 16], 2, "demo", &ab),
        of([7; 16], 1, "demo2", &ab),
        of([7; 16], 1, "demo", &ids(b"a", b"bc")),
        of([7; 16], 1, "dem", &ids(b"oab", b"c")),
    ] {
        assert_ne!(base, other);
    }
}

#[test]
fn a_seed_is_never_printed() {
    assert_eq!(format!("{SEED:?}"), "Seed(secret)");
}
