//! Which names a request may call this machine by where no key is required: the rule against DNS
//! rebinding. Where the name stands, and what makes it ambiguous, is decided here too.

use std::net::IpAddr;

use http::{HeaderMap, header, uri::Authority};

use super::Denied;

/// Whether the `Host` is one that no stranger's page can have.
pub(super) fn check_host(headers: &HeaderMap, host: Option<&str>) -> Result<(), Denied> {
    match host {
        Some(host) if is_this_machine(host) => Ok(()),
        Some(host) if is_one_word(host) && !is_a_browsers(headers) => Ok(()),
        _ => Err(Denied::Host),
    }
}

/// Whether a browser sent it: each says which languages it wants, and no page can take that out.
fn is_a_browsers(headers: &HeaderMap) -> bool {
    const MARKS: [&str; 4] = ["accept-language", "origin", "referer", "sec-fetch-mode"];
    MARKS.into_iter().any(|mark| headers.contains_key(mark))
}

/// Stands for two lines of `Host`, for one that is no text, and for one that differs from the URL's:
/// whoever is in front may have read the other one. No machine is called so.
const AMBIGUOUS: &str = "";

/// The `Host` of a request, or the authority of its URL where it has none.
pub(crate) fn host<'a>(headers: &'a HeaderMap, uri: &'a http::Uri) -> Option<&'a str> {
    let mut lines = headers.get_all(header::HOST).iter();
    let of_uri = uri.authority().map(Authority::as_str);
    let Some(line) = lines.next() else {
        return of_uri;
    };
    let of_line = line.to_str().unwrap_or(AMBIGUOUS);
    let is_other = |authority: &str| !authority.eq_ignore_ascii_case(of_line);
    if lines.next().is_some() || of_uri.is_some_and(is_other) {
        return Some(AMBIGUOUS);
    }
    Some(of_line)
}

/// Whether a `Host` names a loopback address.
fn is_this_machine(host: &str) -> bool {
    name_of(host).is_some_and(|name| match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    })
}

/// Whether a `Host` is a name without a dot. Programs write any word there. No stranger on the
/// internet has such a name; one on the same network may answer for it (LLMNR, a search domain).
fn is_one_word(host: &str) -> bool {
    name_of(host).is_some_and(|name| !name.is_empty() && !name.contains(['.', ':']))
}

/// The name or address in a `Host`, without port and brackets.
fn name_of(host: &str) -> Option<String> {
    let authority = host.parse::<Authority>().ok()?;
    let name = authority.host();
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    Some(address.unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_loopback_names_are_this_machine() {
        for host in [
            "localhost",
            "LOCALHOST:8484",
            "127.0.0.1:1",
            "127.8.9.1",
            "[::1]:8484",
            "[::1]",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.",
            "gpu-box:8484",
            "[::2]",
            "2130706433.example",
            "localhost.evil.example:8484",
            "127.0.0.1.evil.example",
            "192.168.0.1",
            "0.0.0.0:8484",
            "a b",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn a_word_without_a_dot_is_enough_for_programs_alone() {
        let none = HeaderMap::new();
        for host in ["gpu-box:8484", "w"] {
            assert_eq!(check_host(&none, Some(host)), Ok(()), "{host}");
            for mark in ["accept-language", "origin", "referer", "sec-fetch-mode"] {
                let mut headers = HeaderMap::new();
                // A page may write its own languages, and even none.
                headers.insert(mark, HeaderValue::from_static(""));
                let denied = check_host(&headers, Some(host));
                assert_eq!(denied, Err(Denied::Host), "{host} {mark}");
                assert_eq!(check_host(&headers, Some("localhost")), Ok(()));
            }
        }
        for host in ["", "evil.example", "evil.", "[::2]", "10.0.0.1"] {
            assert_eq!(check_host(&none, Some(host)), Err(Denied::Host), "{host}");
        }
        assert_eq!(check_host(&none, None), Err(Denied::Host));
    }
}
