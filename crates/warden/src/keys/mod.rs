//! Keys: who may use the models, and who may look and change.
//!
//! `secret` is a key's text and its hash, `file` where keys are kept and how they are added and
//! revoked, `ring` the keys that a running warden knows, `bucket` and `account` what each of them
//! may use and has used, `logins` the sessions of pages, `access` the rules at the doors, `host` the one about
//! this machine's names.
//!
//! Left out: what a refusal looks like (each API has its shape: `gateway`, `operators`).

mod access;
mod account;
mod bucket;
mod file;
mod host;
mod logins;
mod ring;
mod secret;
#[cfg(test)]
mod tests;

pub use access::{Access, Denied, LoginError, Settings};
pub use account::{Account, Admission, Limited, Usage};
pub use file::{FileError, Key, KeyFile, Limits, NewKey};
pub(crate) use host::host;
pub use ring::{Holder, Ring};
pub(crate) use secret::hex;
pub use secret::{KeyId, Secret};
