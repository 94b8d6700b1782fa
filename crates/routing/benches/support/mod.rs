//! What both benches send.

use routing::{Candidates, Identity, OwnerId, Request, RequestClass, Seed};

/// A request of one of eight owners' sessions, made as the gateway makes it.
pub(crate) fn request(
    number: usize,
    prompt_bytes: u64,
    shared_bytes: u64,
    lineage: u64,
) -> Request {
    let owner = OwnerId((number % 8) as u32);
    let id = number.to_string();
    let ids = Candidates {
        claude_code_session_id: Some(id.as_bytes()),
        ..Candidates::default()
    };
    Request {
        owner,
        identity: Identity::of(&Seed([1; 16]), owner, "demo", &ids),
        pin: None,
        steerable: true,
        prompt_bytes,
        shared_bytes,
        lineage,
        front: 0,
        class: RequestClass::Unknown,
        streams: true,
    }
}
