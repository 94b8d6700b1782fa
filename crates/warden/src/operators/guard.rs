//! Keeps other sites' pages out while there are no keys.
//!
//! A browser on this machine reaches the loopback port for any page it shows. Two rules stop that:
//! the `Host` must name this machine (else a stranger's domain that resolves to 127.0.0.1 could
//! read and write as if it were the page's own), and what changes something must come from the page
//! itself, by the browser's own word (`Sec-Fetch-Site`, or `Origin` where it is older). Programs
//! such as curl send neither header and pass.

use std::net::IpAddr;

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method, header, uri::Authority};

use super::error::ApiError;

pub(super) async fn check(request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| request.uri().authority().map(Authority::as_str));
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let refusal = if !host.is_some_and(is_this_machine) {
        Some("this port answers to localhost, 127.0.0.1 and [::1] only; use one of them in the URL")
    } else if changes && !is_same_origin(request.headers(), host.unwrap_or_default()) {
        Some("a page of another site may not change anything here")
    } else {
        None
    };
    match refusal {
        Some(why) => ApiError::Forbidden(why).into_response(),
        None => next.run(request).await,
    }
}

/// Whether a `Host` names a loopback address.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || address
            .unwrap_or(name)
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        // "none" is the user's own doing: typed, bookmarked, or a tool of the browser.
        return matches!(site, "same-origin" | "none");
    }
    match text("origin") {
        None => true,
        Some(origin) => origin.strip_prefix("http://") == Some(host),
    }
}

#[cfg(test)]
mod tests {
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
    fn a_browser_says_whose_page_it_is() {
        let cases = [
            (None, None, true),
            (Some("same-origin"), None, true),
            (Some("none"), None, true),
            (Some("cross-site"), None, false),
            (Some("same-site"), Some("http://localhost:1"), false),
            (None, Some("http://localhost:1"), true),
            (None, Some("http://localhost:2"), false),
            (None, Some("https://localhost:1"), false),
            (None, Some("null"), false),
        ];
        for (site, origin, allowed) in cases {
            let mut headers = HeaderMap::new();
            let mut put = |name: &'static str, value: Option<&'static str>| {
                headers.extend(value.map(|value| {
                    (
                        name.parse::<header::HeaderName>().unwrap(),
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
