//! Logins of pages: an admin's key once, then a cookie that only this server reads.
//!
//! Sessions are in memory alone: a restart ends them, and so does the end of their key. Wrong keys
//! are answered more and more slowly per address. That is not what keeps a key (nobody guesses 192
//! bits) but what keeps a typing mistake's retries, and whoever tries other people's leaked keys,
//! from going on at full speed.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, header};
use routing::Time;

use super::secret::{Hash, KeyId, hex};
use crate::{clock, site::site};

/// Sessions that are kept; past it the one that was used least recently ends.
const SESSIONS_MAX: usize = 1000;
/// A session that nobody uses for this long ends. An open page uses it every few seconds.
const IDLE_MAX: Duration = Duration::from_secs(24 * 3600);
/// After this long everybody logs in again.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Wrong keys of one address that are answered without a wait.
const FREE_FAILURES: u32 = 3;
/// The longest wait after a wrong key.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// After this long without a wrong key an address begins anew.
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// Addresses that are remembered; past it the one whose last failure is oldest is forgotten.
const ADDRESSES_MAX: usize = 4096;

/// The cookie lives under this path alone, so no other request carries it, least of all one that
/// goes to an engine.
const COOKIE_PATH: &str = "/api/v1";

#[derive(Debug, Clone, Copy)]
struct Session {
    key: KeyId,
    began: Time,
    used: Time,
}

impl Session {
    fn is_over(&self, now: Time) -> bool {
        now.since(self.used) > IDLE_MAX || now.since(self.began) > AGE_MAX
    }
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Time,
}

impl Failures {
    /// From when on the address is answered again.
    fn until(self) -> Time {
        match self.count.checked_sub(FREE_FAILURES) {
            None => self.last,
            Some(over) => {
                let wait = Duration::from_secs(1 << over.min(6)).min(WAIT_MAX);
                self.last.plus(wait)
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Logins {
    cookie: String,
    is_secure: bool,
    sessions: Mutex<HashMap<[u8; 32], Session>>,
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

impl Logins {
    /// `instance` sets the cookie apart from another warden's on the same host, since cookies do
    /// not tell ports apart. `is_secure`: whether browsers may send it over TLS only.
    pub(super) fn new(instance: &str, is_secure: bool) -> Self {
        Self {
            cookie: format!("lm_warden_{instance}"),
            is_secure,
            sessions: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// How long this address must wait before it may try again, in whole seconds.
    pub(super) fn wait_s(&self, address: IpAddr) -> Option<u32> {
        let now = clock::now();
        let failures = self.failures().get(&site(address)).copied()?;
        let wait = failures.until().since(now);
        (wait > Duration::ZERO).then(|| wait.as_secs_f64().ceil() as u32)
    }

    /// A wrong key came from there.
    pub(super) fn failed(&self, address: IpAddr) {
        let now = clock::now();
        let mut all = self.failures();
        let address = site(address);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            let oldest = all.iter().min_by_key(|(_, failures)| failures.last);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                all.remove(&oldest);
            }
        }
        let failures = all.entry(address).or_insert(Failures {
            count: 0,
            last: now,
        });
        if now.since(failures.last) > FORGET_AFTER {
            failures.count = 0;
        }
        failures.count += 1;
        failures.last = now;
    }

    /// A new session of this key: the value of `Set-Cookie`. Fails where the system gives no random
    /// bytes.
    pub(super) fn begin(
        &self,
        key: KeyId,
        address: IpAddr,
    ) -> Result<HeaderValue, getrandom::Error> {
        let mut token = [0; 32];
        getrandom::fill(&mut token)?;
        let token = hex(&token);
        let now = clock::now();
        self.failures().remove(&site(address));
        let mut sessions = self.sessions();
        sessions.retain(|_, session| !session.is_over(now));
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(token, _)| *token) {
                sessions.remove(&oldest);
            }
        }
        let session = Session {
            key,
            began: now,
            used: now,
        };
        sessions.insert(Hash::of(token.as_bytes()).bytes(), session);
        Ok(self.set_cookie(&token, AGE_MAX))
    }

    /// The key whose session these headers carry. What is looked up is a hash, whose place in a map
    /// tells nothing of the token.
    pub(super) fn key(&self, headers: &HeaderMap) -> Option<KeyId> {
        let hash = Hash::of(self.token(headers)?).bytes();
        let now = clock::now();
        let mut sessions = self.sessions();
        let session = sessions.get_mut(&hash)?;
        if session.is_over(now) {
            sessions.remove(&hash);
            return None;
        }
        session.used = now;
        Some(session.key)
    }

    /// Ends the session of these headers: the value of `Set-Cookie`.
    pub(super) fn end(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(token) = self.token(headers) {
            self.sessions().remove(&Hash::of(token).bytes());
        }
        self.set_cookie("", Duration::ZERO)
    }

    fn token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        headers
            .get_all(header::COOKIE)
            .iter()
            .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
            .find_map(|pair| {
                let token = pair.trim_ascii().strip_prefix(self.cookie.as_bytes())?;
                token.strip_prefix(b"=")
            })
    }

    fn set_cookie(&self, token: &str, lasts: Duration) -> HeaderValue {
        let name = &self.cookie;
        let secure = if self.is_secure { "; Secure" } else { "" };
        let age_s = lasts.as_secs();
        let text = format!(
            "{name}={token}; Path={COOKIE_PATH}; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"
        );
        HeaderValue::try_from(text).expect("hex digits and fixed text are visible ASCII")
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn cookie(set: &HeaderValue) -> HeaderMap {
        let pair = set.to_str().unwrap().split(';').next().unwrap();
        let other = format!("other=1; {pair}; lm_warden_b=2");
        [(header::COOKIE, other.parse().unwrap())]
            .into_iter()
            .collect()
    }

    #[test]
    fn a_session_lasts_until_it_is_ended() {
        let logins = Logins::new("a", true);
        let set = logins.begin(KeyId(7), HOME).unwrap();
        let text = set.to_str().unwrap();
        for word in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/api/v1;"] {
            assert!(text.contains(word), "{text}");
        }
        let headers = cookie(&set);
        assert_eq!(logins.key(&headers), Some(KeyId(7)));
        assert_eq!(Logins::new("a", true).key(&headers), None);
        assert_eq!(Logins::new("b", true).key(&headers), None);
        logins.end(&headers);
        assert_eq!(logins.key(&headers), None);
    }

    #[test]
    fn sessions_and_addresses_are_bounded() {
        let logins = Logins::new("a", false);
        let first = cookie(&logins.begin(KeyId(1), HOME).unwrap());
        let second = cookie(&logins.begin(KeyId(2), HOME).unwrap());
        for _ in 2..SESSIONS_MAX {
            logins.begin(KeyId(3), HOME).unwrap();
        }
        // Using it keeps it: the least recently used one goes.
        assert_eq!(logins.key(&first), Some(KeyId(1)));
        logins.begin(KeyId(3), HOME).unwrap();
        assert_eq!(logins.sessions().len(), SESSIONS_MAX);
        assert_eq!(logins.key(&first), Some(KeyId(1)));
        assert_eq!(logins.key(&second), None);

        for number in 0..(ADDRESSES_MAX as u32 + 10) {
            logins.failed(IpAddr::V4(number.into()));
        }
        assert_eq!(logins.failures().len(), ADDRESSES_MAX);
    }

    #[test]
    fn wrong_keys_are_answered_more_and_more_slowly_per_address() {
        let logins = Logins::new("a", false);
        for _ in 1..FREE_FAILURES {
            logins.failed(HOME);
            assert_eq!(logins.wait_s(HOME), None);
        }
        for wait_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            logins.failed(HOME);
            assert_eq!(logins.wait_s(HOME), Some(wait_s));
        }
        assert_eq!(logins.wait_s("192.0.2.1".parse().unwrap()), None);
        logins.begin(KeyId(1), HOME).unwrap();
        assert_eq!(logins.wait_s(HOME), None, "the right key forgives");
    }
}
