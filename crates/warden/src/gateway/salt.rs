//! A prefix cache per key: `cache_salt` in the body, from which vLLM's block hashes begin, so that one
//! key's prompts never hit blocks of another's, and no tenant can probe what others have asked.
//!
//! It is one member behind all others; every byte of the client's stays as it was. Of a key that stands
//! twice the last value counts, so a client's own salt never decides: it only goes into ours, which
//! narrows its cache further, and two keys that send the same one still share nothing.

use std::sync::atomic::Ordering;

use routing::{OwnerId, Seed};
use sha2::{Digest as _, Sha256};

use super::Gateway;
use crate::{fleet::Model, keys::hex};

/// Bytes of the hash that are sent, as hex digits: enough that nobody guesses them.
const SALT_BYTES: usize = 16;

/// The member for this key, where it is wanted, the request has a key, and the engine takes it.
pub(super) fn of(
    gateway: &Gateway,
    owner: OwnerId,
    model: &Model,
    clients: Option<&str>,
) -> Option<String> {
    let access = gateway.access.as_ref()?;
    if !access.is_salting() || owner == OwnerId::default() {
        return None;
    }
    if !model.takes_cache_salt.load(Ordering::Relaxed) {
        if let Some(times) = gateway.unsalted.due() {
            tracing::warn!(
                model = %model.name,
                times,
                "auth.cache_salt is on, but this engine takes none (vLLM does from 0.32 on): keys share its cache"
            );
        }
        return None;
    }
    Some(member(&gateway.seed, owner, clients))
}

/// The same for a key as long as the data directory lives, since the engine's cache may outlive this
/// process. Neither the key nor its hash goes into it.
fn member(seed: &Seed, owner: OwnerId, clients: Option<&str>) -> String {
    let hash = Sha256::new()
        .chain_update(b"lm-warden cache salt")
        .chain_update(seed.0)
        .chain_update(owner.0.to_le_bytes())
        .chain_update(clients.unwrap_or_default());
    let salt = hex(&hash.finalize()[..SALT_BYTES]);
    format!("\"cache_salt\":\"{salt}\"")
}

/// The lineage of a prompt whose blocks are this key's alone: what other keys' prompts begin with does
/// not help it.
pub(super) fn lineage(lineage: u64, owner: OwnerId) -> u64 {
    match lineage {
        0 => 0, // unknown stays unknown
        known => known.rotate_left(1) ^ (u64::from(owner.0) << 32 | u64::from(owner.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_and_keeps_it() {
        let seed = Seed([7; 16]);
        let one = member(&seed, OwnerId(1), None);
        assert_eq!(one, member(&seed, OwnerId(1), None));
        assert_ne!(one, member(&seed, OwnerId(2), None));
        assert_ne!(one, member(&Seed([8; 16]), OwnerId(1), None));
        assert_eq!(one.len(), "\"cache_salt\":\"\"".len() + 2 * SALT_BYTES);
    }

    #[test]
    fn a_clients_own_salt_narrows_its_cache_and_reaches_nobody_elses() {
        let seed = Seed([7; 16]);
        let [one, two] = [1, 2].map(|owner| member(&seed, OwnerId(owner), Some("\"mine\"")));
        assert_ne!(one, member(&seed, OwnerId(1), None));
        assert_ne!(one, two);
    }

    #[test]
    fn keys_share_no_lineage() {
        assert_ne!(lineage(9, OwnerId(1)), lineage(9, OwnerId(2)));
        assert_eq!(lineage(0, OwnerId(1)), 0);
    }
}
