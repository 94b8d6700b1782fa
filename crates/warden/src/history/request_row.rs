//! A request as a row, and back.

use rusqlite::{CachedStatement, Row, Transaction, params};

use super::{
    error::StoreError,
    store::{Ended, ended_us, int, micros},
    words::{self, ENDS, ROUTES},
};

/// The columns, in the order in which [`read`] takes them.
pub(super) const COLUMNS: &str = "id, arrived_us, model, conversation, session, agent, api, route, \
    reason, scores, replica, turn, queue_ms, ttfb_ms, total_ms, prompt_tokens, cached_tokens, \
    completion_tokens, status, ending, cold, gap_ms, side";

/// A score as it is stored: a list, since the names would be most of the file.
type ShortScore = (u16, bool, bool, u32, u32, Option<f64>, u32);

/// What writes rows; asked for once per batch.
pub(super) fn inserter<'t>(
    transaction: &'t Transaction<'_>,
) -> rusqlite::Result<CachedStatement<'t>> {
    transaction.prepare_cached(&format!(
        "INSERT INTO requests ({COLUMNS}, ended_us, key_name) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
         ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)"
    ))
}

pub(super) fn insert(inserter: &mut CachedStatement<'_>, ended: &Ended) -> Result<(), StoreError> {
    let request = &ended.request;
    let id = u128::from_str_radix(&request.id, 16).unwrap_or_default();
    inserter.execute(params![
        id.to_be_bytes(),
        int(micros(request.t)),
        request.model,
        request.conversation,
        request.session,
        request.agent,
        request.api,
        request.route.and_then(|route| words::word(&ROUTES, &route)),
        request.reason,
        shorten(&request.scores),
        request.replica,
        request.turn,
        request.queue_ms,
        request.ttfb_ms,
        request.total_ms,
        request.prompt_tokens.map(int),
        request.cached_tokens.map(int),
        request.completion_tokens.map(int),
        request.status,
        request.end.and_then(|end| words::word(&ENDS, &end)),
        request.cold.as_ref().map(json),
        request.gap_ms,
        request.side,
        int(ended_us(request)),
        ended.key_name,
    ])?;
    Ok(())
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<api::Request> {
    let route: Option<String> = row.get(7)?;
    let scores: String = row.get(9)?;
    let end: Option<String> = row.get(19)?;
    let cold: Option<String> = row.get(20)?;
    let side: Option<bool> = row.get(22)?;
    let tokens = |column| -> rusqlite::Result<Option<u64>> {
        let stored: Option<i64> = row.get(column)?;
        Ok(stored.map(|tokens| tokens as u64))
    };
    let (prompt_tokens, cached_tokens) = (tokens(15)?, tokens(16)?);
    let computed = |prompt: u64| vllm::split_prompt(prompt, cached_tokens).1;
    Ok(api::Request {
        id: format!("{:032x}", u128::from_be_bytes(row.get(0)?)),
        t: row.get::<_, i64>(1)? as f64 / 1e6,
        model: row.get(2)?,
        conversation: row.get(3)?,
        session: row.get(4)?,
        agent: row.get(5)?,
        api: row.get(6)?,
        route: route.and_then(|route| words::value(&ROUTES, &route)),
        reason: row.get(8)?,
        scores: lengthen(&scores),
        replica: row.get(10)?,
        turn: row.get(11)?,
        queue_ms: row.get(12)?,
        ttfb_ms: row.get(13)?,
        total_ms: row.get(14)?,
        prompt_tokens,
        cached_tokens,
        computed_tokens: prompt_tokens.map(computed),
        completion_tokens: tokens(17)?,
        status: row.get(18)?,
        end: end.and_then(|end| words::value(&ENDS, &end)),
        gap_ms: row.get(21)?,
        side: side.unwrap_or(false),
        // One of a later version's words is better left out than taken for damage.
        cold: cold.and_then(|cold| serde_json::from_str(&cold).ok()),
    })
}

fn shorten(scores: &[api::Score]) -> String {
    let short = scores.iter().map(|score| -> ShortScore {
        (
            score.replica,
            score.available,
            score.fits,
            score.in_flight,
            score.running,
            score.cache_fill,
            score.conversations,
        )
    });
    json(&short.collect::<Vec<ShortScore>>())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("numbers and words fit into JSON")
}

/// Scores explain a decision; where they cannot be read, the request is still worth showing.
fn lengthen(scores: &str) -> Vec<api::Score> {
    let short: Vec<ShortScore> = serde_json::from_str(scores).unwrap_or_default();
    let scores = short.into_iter().map(
        |(replica, available, fits, in_flight, running, cache_fill, conversations)| api::Score {
            replica,
            available,
            fits,
            in_flight,
            running,
            cache_fill,
            conversations,
        },
    );
    scores.collect()
}
