//! The keys that a running warden knows. The file is looked at twice a second, so a key that was
//! added or revoked counts without a restart; no request ever waits for the disk.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, header};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    account::Account,
    file::{FileError, Key, KeyFile, now_s},
    secret::{Hash, KeyId, claimed},
};
use crate::{clock, file_mark::FileMark};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A key with its account.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The key.
    pub key: Key,
    /// Its name, shared by all records of its requests.
    pub name: Arc<str>,
    /// What it has used; the same as long as the key exists.
    pub account: Arc<Account>,
}

/// What a request showed.
#[derive(Debug, Clone)]
pub(super) enum Shown {
    /// No key.
    Nothing,
    /// Something that no key of a warden looks like.
    Foreign,
    /// A key of our form that is not (or no longer) known.
    Unknown,
    /// A key past its time.
    Expired,
    /// A valid key.
    Valid(Arc<Holder>),
}

/// See the module.
#[derive(Debug)]
pub struct Ring {
    file: KeyFile,
    holders: RwLock<HashMap<KeyId, Arc<Holder>>>,
    trouble: RwLock<Option<String>>,
}

/// A file that was read, or that there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen(Option<FileMark>);

impl Ring {
    /// Reads the keys. Blocks on the disk.
    pub fn load(file: KeyFile) -> Result<Self, FileError> {
        let keys = file.load()?;
        let ring = Self {
            file,
            holders: RwLock::default(),
            trouble: RwLock::default(),
        };
        ring.replace(keys);
        Ok(ring)
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// All keys, by name.
    pub fn holders(&self) -> Vec<Arc<Holder>> {
        let mut holders: Vec<_> = self.read().values().cloned().collect();
        holders.sort_by(|a, b| a.name.cmp(&b.name));
        holders
    }

    /// Why the file could not be read at the last look; the keys known before are then kept.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.read();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key with this id, unless it has expired.
    pub(super) fn valid(&self, id: KeyId) -> Option<Arc<Holder>> {
        let holder = self.read().get(&id).cloned()?;
        (!holder.key.has_expired(now_s())).then_some(holder)
    }

    /// What these headers show: the best of `x-api-key` and `Authorization: Bearer`, since some
    /// clients send both, and mean one.
    pub(super) fn shown(&self, headers: &HeaderMap) -> Shown {
        let api_key = headers.get("x-api-key").map(HeaderValue::as_bytes);
        let bearer = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| bearer(value.as_bytes()));
        let mut best = Shown::Nothing;
        for presented in [api_key, bearer].into_iter().flatten() {
            match self.check(presented) {
                valid @ Shown::Valid(_) => return valid,
                Shown::Foreign if !matches!(best, Shown::Nothing) => {}
                worse => best = worse,
            }
        }
        best
    }

    pub(super) fn check(&self, presented: &[u8]) -> Shown {
        let Some(id) = claimed(presented) else {
            return Shown::Foreign;
        };
        let Some(holder) = self.read().get(&id).cloned() else {
            return Shown::Unknown;
        };
        if !holder.key.hash.matches(&Hash::of(presented)) {
            return Shown::Unknown;
        }
        if holder.key.has_expired(now_s()) {
            return Shown::Expired;
        }
        Shown::Valid(holder)
    }

    /// Follows the file. Never returns.
    pub async fn watch(self: Arc<Self>) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What `load` read may be older than the first look, so that one always reads.
        let mut seen = None;
        loop {
            ticks.tick().await;
            self.look(&mut seen).await;
        }
    }

    /// Reads the file where it is not the one that was `seen`.
    pub(super) async fn look(&self, seen: &mut Option<Seen>) {
        let mark = self.mark().await;
        if matches!(&mark, Ok(mark) if seen.as_ref() == Some(&Seen(*mark))) {
            return;
        }
        match self.reread(mark).await {
            Ok(mark) => {
                *seen = Some(Seen(mark));
                self.note(None);
            }
            Err(error) => {
                *seen = None;
                self.note(Some(error.to_string()));
            }
        }
    }

    async fn mark(&self) -> io::Result<Option<FileMark>> {
        match tokio::fs::metadata(self.file.path()).await {
            Ok(file) => Ok(Some(file.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn reread(
        &self,
        mark: io::Result<Option<FileMark>>,
    ) -> Result<Option<FileMark>, FileError> {
        let io = |cause| FileError::Io {
            path: self.file.path().to_owned(),
            cause,
        };
        let mark = mark.map_err(io)?;
        let keys = match tokio::fs::read(self.file.path()).await {
            Ok(bytes) => self.file.parse(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io(error)),
        };
        if self.replace(keys) {
            tracing::info!(keys = self.read().len(), "the keys were read");
        }
        Ok(mark)
    }

    /// Tells trouble once, and not twice a second.
    fn note(&self, trouble: Option<String>) {
        let mut noted = self.trouble.write().unwrap_or_else(PoisonError::into_inner);
        if *noted == trouble {
            return;
        }
        if let Some(error) = &trouble {
            tracing::error!("{error}; the keys known before still count");
        } else {
            tracing::info!("the keys can be read again");
        }
        *noted = trouble;
    }

    /// Takes these keys, keeping the accounts of those that stay; says whether any differs.
    fn replace(&self, keys: Vec<Key>) -> bool {
        let now = clock::now();
        let mut holders = self.holders.write().unwrap_or_else(PoisonError::into_inner);
        let before = holders.len();
        let mut differs = false;
        let kept = |id: KeyId| holders.get(&id).cloned();
        let new: HashMap<KeyId, Arc<Holder>> = keys
            .into_iter()
            .map(|key| {
                let known = kept(key.id);
                let account = if let Some(known) = &known {
                    if known.key.limits != key.limits {
                        known.account.set_limits(key.limits, now);
                    }
                    Arc::clone(&known.account)
                } else {
                    differs = true;
                    Arc::new(Account::new(key.limits, now))
                };
                let holder = Holder {
                    name: key.name.as_str().into(),
                    account,
                    key,
                };
                (holder.key.id, Arc::new(holder))
            })
            .collect();
        differs |= new.len() != before;
        *holders = new;
        differs
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, HashMap<KeyId, Arc<Holder>>> {
        self.holders.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of `Bearer …`, whatever the case of the scheme.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())?;
    (!token.is_empty()).then_some(token)
}
