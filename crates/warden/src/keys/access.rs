//! Who may pass which door.
//!
//! Clients' paths take any valid key, operators' paths an admin's. Where no key is required (the
//! default on loopback) a request without one passes both doors, and then two rules keep other
//! sites' pages out, which reach a loopback port through the browser of whoever works here: the
//! `Host` must name this machine (else a stranger's domain that resolves to 127.0.0.1 could read
//! and write as if it were ours), and what a browser says comes from another site is taken only
//! where a page could not have sent it by itself. The pages of an operator who is logged in send a
//! cookie instead of a key; what they change must come from themselves.

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, HeaderValue, Method};

use super::{
    host::check_host,
    logins::Logins,
    ring::{Holder, Ring, Shown},
};

/// Why a request may not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// 401
    #[error(
        "a key is needed here: send it as x-api-key or as Authorization: Bearer; whoever runs this \
         lm-warden makes one with `lm-warden key add`"
    )]
    Missing,
    /// 401
    #[error("this key is not known here; it may have been revoked, or belong to another lm-warden")]
    Unknown,
    /// 401
    #[error("this key has expired; whoever runs this lm-warden makes a new one")]
    Expired,
    /// 403
    #[error("this needs an admin's key, and the one that came is a client's")]
    Role,
    /// 403
    #[error(
        "without a key this port answers to localhost, 127.0.0.1 and [::1] only; use one of them \
         in the URL"
    )]
    Host,
    /// 403
    #[error("a page of another site may not use this")]
    Page,
}

impl Denied {
    /// 401 where another key helps, 403 where the request itself is at fault.
    pub fn status(self) -> http::StatusCode {
        match self {
            Self::Missing | Self::Unknown | Self::Expired => http::StatusCode::UNAUTHORIZED,
            Self::Role | Self::Host | Self::Page => http::StatusCode::FORBIDDEN,
        }
    }
}

/// Why nobody was logged in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The key is wrong, or another site's page sent it.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Too many wrong keys from this address; right ones wait as well.
    #[error("too many wrong keys from this address; try again in {retry_after_s} s")]
    TooOften {
        /// Seconds, at least 1.
        retry_after_s: u32,
    },
    /// The system gives no random numbers.
    #[error(transparent)]
    Random(#[from] getrandom::Error),
}

/// What sets one warden's rules apart from another's.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether a request without a key is refused.
    pub required: bool,
    /// Whether each key has a prefix cache of its own.
    pub cache_salt: bool,
    /// Whether the pages are served over TLS.
    pub is_secure: bool,
    /// A name for the cookie: letters and digits, the same after a restart.
    pub instance: String,
}

/// The rules in force.
#[derive(Debug)]
pub struct Access {
    ring: Arc<Ring>,
    required: bool,
    cache_salt: bool,
    logins: Logins,
}

impl Access {
    /// For these keys.
    pub fn new(ring: Arc<Ring>, settings: &Settings) -> Self {
        Self {
            ring,
            required: settings.required,
            cache_salt: settings.cache_salt,
            logins: Logins::new(&settings.instance, settings.is_secure),
        }
    }

    /// The keys.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Whether a request without a key is refused.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Whether each key has a prefix cache of its own.
    pub fn is_salting(&self) -> bool {
        self.cache_salt
    }

    /// A request on a path of the clients: whose it is, or `None` where it came without a key and
    /// none is required.
    pub fn client(
        &self,
        headers: &HeaderMap,
        host: Option<&str>,
    ) -> Result<Option<Arc<Holder>>, Denied> {
        if let Some(holder) = self.holder(headers)? {
            return Ok(Some(holder));
        }
        check_host(headers, host)?;
        // A page cannot send JSON to another site unless that allows it, and this one never does:
        // so JSON is from an application that is no page, whatever its browser engine says.
        if is_cross_site(headers) && !is_json(headers) {
            return Err(Denied::Page);
        }
        Ok(None)
    }

    /// A request on a path of the operators.
    pub fn admin(
        &self,
        method: &Method,
        headers: &HeaderMap,
        host: Option<&str>,
    ) -> Result<Option<Arc<Holder>>, Denied> {
        match self.shown(headers) {
            Shown::Valid(holder) if holder.key.role == api::KeyRole::Admin => {
                return Ok(Some(holder));
            }
            Shown::Valid(_) => return Err(Denied::Role),
            Shown::Nothing | Shown::Foreign | Shown::Unknown | Shown::Expired => {}
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        // The browser sends the cookie by itself, so the page must be ours. (The cookie is not sent
        // for other sites' pages either; this is the second lock.)
        if changes && !is_same_origin(headers, host.unwrap_or_default()) {
            return Err(Denied::Page);
        }
        if let Some(holder) = self.session(headers) {
            return Ok(Some(holder));
        }
        let none = self.holder(headers)?;
        check_host(headers, host)?;
        Ok(none)
    }

    /// The pages themselves: files that hold nothing of this warden, so that whoever has no key
    /// yet can log in. A client's key opens no door of the operators, and so not this one.
    pub fn page(&self, headers: &HeaderMap, host: Option<&str>) -> Result<(), Denied> {
        match self.shown(headers) {
            Shown::Valid(holder) if holder.key.role == api::KeyRole::Client => Err(Denied::Role),
            _ if self.required => Ok(()),
            _ => check_host(headers, host),
        }
    }

    /// Whose key or session these headers show.
    pub fn who(&self, headers: &HeaderMap) -> Option<Arc<Holder>> {
        match self.shown(headers) {
            Shown::Valid(holder) => Some(holder),
            _ => self.session(headers),
        }
    }

    /// Begins a session: the value of `Set-Cookie`.
    pub fn log_in(
        &self,
        key: &str,
        address: IpAddr,
        (headers, host): (&HeaderMap, Option<&str>),
    ) -> Result<HeaderValue, LoginError> {
        if !is_same_origin(headers, host.unwrap_or_default()) {
            return Err(Denied::Page.into());
        }
        if let Some(retry_after_s) = self.logins.wait_s(address) {
            return Err(LoginError::TooOften { retry_after_s });
        }
        let denied = match self.ring.check(key.as_bytes()) {
            Shown::Valid(holder) if holder.key.role == api::KeyRole::Admin => {
                return Ok(self.logins.begin(holder.key.id, address)?);
            }
            Shown::Valid(_) => Denied::Role,
            Shown::Expired => Denied::Expired,
            Shown::Nothing | Shown::Foreign | Shown::Unknown => Denied::Unknown,
        };
        self.logins.failed(address);
        Err(denied.into())
    }

    /// Ends the session of these headers: the value of `Set-Cookie`.
    pub fn log_out(&self, headers: &HeaderMap, host: Option<&str>) -> Result<HeaderValue, Denied> {
        if !is_same_origin(headers, host.unwrap_or_default()) {
            return Err(Denied::Page);
        }
        Ok(self.logins.end(headers))
    }

    fn session(&self, headers: &HeaderMap) -> Option<Arc<Holder>> {
        let holder = self.ring.valid(self.logins.key(headers)?)?;
        (holder.key.role == api::KeyRole::Admin).then_some(holder)
    }

    fn shown(&self, headers: &HeaderMap) -> Shown {
        self.ring.shown(headers)
    }

    /// The key of a request; `None` where it has none and needs none. Something that is no key of
    /// ours counts as none: clients that insist on sending one send anything. A key of ours that
    /// is not valid never does, so that nobody works on unnoticed with a revoked one.
    fn holder(&self, headers: &HeaderMap) -> Result<Option<Arc<Holder>>, Denied> {
        match self.shown(headers) {
            Shown::Valid(holder) => Ok(Some(holder)),
            Shown::Expired => Err(Denied::Expired),
            Shown::Unknown => Err(Denied::Unknown),
            Shown::Foreign if self.required => Err(Denied::Unknown),
            Shown::Nothing if self.required => Err(Denied::Missing),
            Shown::Nothing | Shown::Foreign => Ok(None),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Whether a request comes from a page of this server, or from no page at all (programs such as
/// curl send neither header).
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    if let Some(site) = text(headers, "sec-fetch-site") {
        // "none" is the user's own doing: typed, bookmarked, or a tool of the browser.
        return matches!(site, "same-origin" | "none");
    }
    match text(headers, "origin") {
        None => true,
        Some(origin) => {
            let schemes = ["http://", "https://"];
            let named = schemes
                .iter()
                .find_map(|scheme| origin.strip_prefix(scheme));
            named == Some(host)
        }
    }
}

fn is_cross_site(headers: &HeaderMap) -> bool {
    matches!(
        text(headers, "sec-fetch-site"),
        Some("cross-site" | "same-site")
    )
}

fn is_json(headers: &HeaderMap) -> bool {
    let essence = text(headers, "content-type").map(|value| value.split(';').next());
    let essence = essence.flatten().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_says_whose_page_it_is() {
        let cases = [
            (None, None, true),
            (Some("same-origin"), None, true),
            (Some("none"), None, true),
            (Some("cross-site"), None, false),
            (Some("same-site"), Some("http://localhost:1"), false),
            (None, Some("http://localhost:1"), true),
            // One port speaks one of them.
            (None, Some("https://localhost:1"), true),
            (None, Some("http://localhost:2"), false),
            (None, Some("null"), false),
        ];
        for (site, origin, allowed) in cases {
            let mut headers = HeaderMap::new();
            let mut put = |name: &'static str, value: Option<&'static str>| {
                headers.extend(value.map(|value| {
                    (
                        name.parse::<http::HeaderName>().unwrap(),
                        value.parse().unwrap(),
                    )
                }));
            };
            put("sec-fetch-site", site);
            put("origin", origin);
            assert_eq!(
                is_same_origin(&headers, "localhost:1"),
                allowed,
                "{site:?} {origin:?}"
            );
        }
    }
}
