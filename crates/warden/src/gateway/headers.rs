//! Which headers pass, in both directions.
//!
//! All of them do, but those that belong to one connection (hop-by-hop), the client's key, and the
//! rank. A list of what may pass would lose what a client or an engine adds tomorrow.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::identity::RANK_HEADER;

const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
];

/// Named by no constant, but hop-by-hop all the same.
const HOP_BY_HOP_OLD: [&str; 3] = ["keep-alive", "proxy-connection", "proxy-authenticate"];

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    for name in HOP_BY_HOP_OLD {
        headers.remove(name);
    }
}

/// Makes a client's headers into an engine's, all but host and rank. The length is left to the
/// connection, which knows the body.
pub(super) fn to_engine(headers: &mut HeaderMap, engine_key: Option<&HeaderValue>) {
    strip_hop_by_hop(headers);
    headers.remove(header::HOST);
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::EXPECT);
    headers.remove("x-api-key");
    headers.remove(RANK_HEADER);
    match engine_key {
        Some(key) => drop(headers.insert(header::AUTHORIZATION, key.clone())),
        None => drop(headers.remove(header::AUTHORIZATION)),
    }
}

/// Makes an engine's reply headers into the client's.
pub(super) fn to_client(headers: &mut HeaderMap) {
    strip_hop_by_hop(headers);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn an_engine_sees_all_but_what_is_ours() {
        let mut headers = map(&[
            ("host", "warden"),
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("proxy-authorization", "secret"),
            ("authorization", "Bearer client"),
            ("x-api-key", "client"),
            ("x-data-parallel-rank", "3"),
            ("expect", "100-continue"),
            ("content-length", "7"),
            ("anthropic-beta", "a"),
            ("traceparent", "00-1"),
            ("x-claude-code-session-id", "s"),
            ("x-something-new", "kept"),
        ]);
        headers.append("anthropic-beta", HeaderValue::from_static("b"));
        to_engine(&mut headers, Some(&HeaderValue::from_static("Bearer ours")));
        assert_eq!(
            names(&headers),
            [
                "anthropic-beta",
                "authorization",
                "traceparent",
                "x-claude-code-session-id",
                "x-something-new"
            ]
        );
        assert_eq!(headers["authorization"], "Bearer ours");
        let both: Vec<_> = headers.get_all("anthropic-beta").iter().collect();
        assert_eq!(both, ["a", "b"]);
    }

    #[test]
    fn without_an_engine_key_none_is_sent() {
        let mut headers = map(&[("authorization", "Bearer client")]);
        to_engine(&mut headers, None);
        assert!(headers.is_empty());
    }

    #[test]
    fn a_client_sees_what_the_engine_said() {
        let mut headers = map(&[
            ("connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("content-type", "application/json"),
            ("server", "uvicorn"),
            ("x-codex-turn-state", "t"),
        ]);
        to_client(&mut headers);
        assert_eq!(
            names(&headers),
            ["content-type", "server", "x-codex-turn-state"]
        );
    }
}
