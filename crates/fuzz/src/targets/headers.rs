//! Headers that name conversations, and lines that vLLM logs as it starts.
//!
//! Laws: a rank is a number that reads back; the session inside `metadata.user_id` stands in it; no
//! log line is two things at once that exclude each other (a failure has a hint).

use vllm::{HeaderIds, metadata_session, parse_rank, responses_steerable, serve};

/// Lines of `name: value`.
pub(super) fn run(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let headers = lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = std::str::from_utf8(&line[..colon]).ok()?;
        Some((name, &line[colon + 1..]))
    });
    let _ = HeaderIds::from_headers(headers);
    if let Some(rank) = parse_rank(bytes) {
        assert_eq!(parse_rank(rank.to_string().as_bytes()), Some(rank));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Some(session) = metadata_session(text) {
            assert!(session.len() <= text.len());
        }
        let _ = responses_steerable(text);
    }
}

/// What an engine prints.
pub(super) fn startup(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        let _ = serve::phase_of_line(line);
        let _ = serve::kv_gib_of_line(line);
        if let Some(cause) = serve::failure_cause(line) {
            assert!(!cause.hint().is_empty());
        }
    }
}
