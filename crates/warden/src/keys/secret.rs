//! A key's text: `lmw_`, 8 hex digits that name it, and 48 that prove it.
//!
//! The proof is 192 random bits, so one round of a fast hash keeps it (nobody can try them through,
//! and each request would pay for a slow one). The name in the clear finds the one hash to compare
//! with, so the comparison's time says nothing about any other key.

use std::fmt::Write as _;

use routing::OwnerId;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What every key begins with: secret scanners and people recognise it.
const PREFIX: &str = "lmw_";
const ID_DIGITS: usize = 8;
const PROOF_BYTES: usize = 24;

/// Names a key for good, also once it is revoked. Not secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u32);

impl KeyId {
    /// Whose conversations they are: those of requests without a key have owner 0, and no key has
    /// that id.
    pub fn owner(self) -> OwnerId {
        OwnerId(self.0)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let well_formed = text.len() == ID_DIGITS && text.bytes().all(digits);
        let id = u32::from_str_radix(text, 16).ok().filter(|_| well_formed)?;
        (id != 0).then_some(Self(id))
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A key as its holder has it. No `Debug` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new key. Fails where the system gives no random bytes.
    pub fn generate() -> Result<(KeyId, Self), getrandom::Error> {
        let mut proof = [0; PROOF_BYTES];
        getrandom::fill(&mut proof)?;
        let id = loop {
            let id = getrandom::u32()?;
            if id != 0 {
                break KeyId(id);
            }
        };
        let proof = hex(&proof);
        Ok((id, Self(format!("{PREFIX}{id}_{proof}"))))
    }

    /// The text, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// The id that a presented key claims; `None` where it has not the form of a key of ours.
pub(super) fn claimed(presented: &[u8]) -> Option<KeyId> {
    let text = std::str::from_utf8(presented).ok()?;
    let (id, proof) = text.strip_prefix(PREFIX)?.split_once('_')?;
    (proof.len() == 2 * PROOF_BYTES)
        .then(|| KeyId::parse(id))
        .flatten()
}

/// Bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // a string takes all that fits in memory
            text
        })
}

/// SHA-256 of a secret: all that is kept of it.
#[derive(Clone, Copy)]
pub(super) struct Hash([u8; 32]);

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hash(…)")
    }
}

impl Hash {
    pub(super) fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Compared without telling by its time where the first difference lies.
    pub(super) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    pub(super) fn bytes(self) -> [u8; 32] {
        self.0
    }

    pub(super) fn to_hex(self) -> String {
        hex(&self.0)
    }

    pub(super) fn parse(hex: &str) -> Option<Self> {
        let hex = hex.as_bytes();
        let mut bytes = [0; 32];
        if hex.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = (digit(digits[0])? << 4 | digit(digits[1])?) as u8;
        }
        Some(Self(bytes))
    }
}
