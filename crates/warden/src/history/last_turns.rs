//! How each conversation was served last, for who begins without having seen it.

use std::collections::HashMap;

use routing::{ReplicaIndex, Route, ServedTurn, Time};
use rusqlite::{Connection, params};

use super::{
    requests::WINDOW,
    store::int,
    words::{self, ROUTES},
};

/// The last turn of every conversation that took one among the youngest [`WINDOW`] requests since
/// `since`, by model and shown id. Side requests and what did not end well are left out, and so is what was not measured.
pub(super) fn ask(
    connection: &Connection,
    since: Time,
) -> rusqlite::Result<HashMap<(String, String), ServedTurn>> {
    let mut statement = connection.prepare(
        "SELECT model, conversation, replica, route, arrived_us, ended_us, prompt_tokens, \
            cached_tokens
         FROM (SELECT * FROM requests WHERE arrived_us >= ?1
               ORDER BY arrived_us DESC, id DESC LIMIT ?2)
         WHERE conversation IS NOT NULL AND model IS NOT NULL AND prompt_tokens IS NOT NULL
            AND ending = 'complete' AND side IS NOT 1
         ORDER BY arrived_us DESC, id DESC",
    )?;
    let mut rows = statement.query(params![int(since.0), int(WINDOW)])?;
    let mut last = HashMap::new();
    while let Some(row) = rows.next()? {
        let route: Option<String> = row.get(3)?;
        let Some(route) = route.and_then(|route| words::value(&ROUTES, &route)) else {
            continue;
        };
        let replica: Option<u16> = row.get(2)?;
        let time = |column| row.get::<_, i64>(column).map(|us| Time(us as u64));
        let turn = ServedTurn {
            replica: replica.map(ReplicaIndex),
            route: rule(route),
            arrived: time(4)?,
            ended: time(5)?,
            prompt_tokens: row.get::<_, i64>(6)? as u64,
            cached_tokens: row.get::<_, Option<i64>>(7)?.map(|tokens| tokens as u64),
        };
        last.entry((row.get(0)?, row.get(1)?)).or_insert(turn);
    }
    Ok(last)
}

fn rule(route: api::Route) -> Route {
    match route {
        api::Route::Pinned => Route::Pinned,
        api::Route::Balanced => Route::Balanced,
        api::Route::New => Route::New,
        api::Route::Sticky => Route::Sticky,
        api::Route::Spilled => Route::Spilled,
        api::Route::Moved => Route::Moved,
    }
}
