//! Keys: who may use the models, and who may look and change.
//!
//! `secret` is a key's text and its hash, `file` where keys are kept and how they are added and
//! revoked, `ring` the keys that a running warden knows, `bucket` and `account` what each of them
//! may use and has used, `logins` the sessions of pages, `access` the rules at the doors.
//!
//! Left out: what a refusal looks like (each API has its shape: `gateway`, `operators`).

mod access;
mod account;
mod bucket;
mod file;
mod logins;
mod ring;
mod secret;
#[cfg(test)]
mod tests;

pub(crate) use access::host;
pub use access::{Access, Denied, LoginError, Settings};
pub use account::{Account, Admission, Limited, Usage};
pub use file::{FileError, Key, KeyFile, Limits, NewKey};
pub use ring::{Holder, Ring};
pub(crate) use secret::hex;
pub use secret::{KeyId, Secret};
