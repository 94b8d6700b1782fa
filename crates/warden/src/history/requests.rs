//! Lists of requests: filters, order and page, over those in the file and those that are not there
//! yet.
//!
//! In the order of arrival everything can be reached, page by page; what is rare (any route but the
//! usual, any end but the good one) by an index of its own, since it would be searched for long. Any other order, and the search
//! for words, looks at the youngest [`WINDOW`] only, since no index serves them; the answer says so.

use routing::Time;
use rusqlite::{Connection, ToSql};

use super::{
    order::{Column, Cursor, Sort},
    request_row::{self, COLUMNS},
    store::{ended_us, int},
    words::{self, ENDS, ROUTES},
};

/// Requests that are looked at where no index helps, and the most that are counted.
pub const WINDOW: u64 = 50_000;

/// Which requests, in which order.
#[derive(Debug, Clone, Default)]
pub struct RequestsQuery {
    /// Of this model only.
    pub model: Option<String>,
    /// Whose session's or conversation's shown id begins so (lower-case hex).
    pub session: Option<String>,
    /// Of one of these sessions (shown ids, whole).
    pub sessions: Option<Vec<String>>,
    /// Routed by this rule.
    pub route: Option<api::Route>,
    /// Ended so.
    pub end: Option<api::RequestEnd>,
    /// Has not ended, so that none is in the file.
    pub in_flight: bool,
    /// On this replica.
    pub replica: Option<u16>,
    /// Ended at or after this.
    pub ended_from: Option<Time>,
    /// Ended before this.
    pub ended_to: Option<Time>,
    /// One of the texts holds this, in lower case.
    pub words: Option<String>,
    /// Arrived before the request at this place.
    pub before: Option<Cursor>,
    /// The order.
    pub sort: Sort,
    /// So many are left out first.
    pub offset: u64,
    /// At most so many.
    pub limit: u64,
}

/// Rows of the file, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Found {
    rows: Vec<api::Request>,
    matching: u64,
}

/// Conditions with their values, in the order of the question marks.
#[derive(Default)]
struct Conditions {
    sql: Vec<&'static str>,
    values: Vec<Box<dyn ToSql>>,
}

impl Conditions {
    fn add(&mut self, sql: &'static str, value: impl ToSql + 'static) {
        self.sql.push(sql);
        self.values.push(Box::new(value));
    }

    fn and(&self) -> String {
        if self.sql.is_empty() {
            return "1".to_owned();
        }
        self.sql.join(" AND ")
    }
}

/// Which of the indexes of rare things helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unusual {
    Route,
    End,
}

impl RequestsQuery {
    /// Whether a request that is not in the file belongs to the list.
    fn matches(&self, request: &api::Request) -> bool {
        let begins =
            |id: &Option<String>, with: &str| id.as_ref().is_some_and(|id| id.starts_with(with));
        let ended = request.end.is_some().then(|| ended_us(request));
        self.model
            .as_ref()
            .is_none_or(|model| request.model.as_ref() == Some(model))
            && self
                .session
                .as_ref()
                .is_none_or(|id| begins(&request.session, id) || begins(&request.conversation, id))
            && self.sessions.as_ref().is_none_or(|sessions| {
                request
                    .session
                    .as_ref()
                    .is_some_and(|id| sessions.contains(id))
            })
            && self.route.is_none_or(|route| request.route == Some(route))
            && self.end.is_none_or(|end| request.end == Some(end))
            && !(self.in_flight && request.end.is_some())
            && self
                .replica
                .is_none_or(|replica| request.replica == Some(replica))
            && self
                .ended_from
                .is_none_or(|from| ended.is_some_and(|ended| ended >= from.0))
            && self
                .ended_to
                .is_none_or(|to| ended.is_some_and(|ended| ended < to.0))
            && self
                .before
                .is_none_or(|before| Cursor::of(request) < before)
            && self.words.as_ref().is_none_or(|words| says(request, words))
    }

    fn is_windowed(&self) -> bool {
        self.words.is_some() || self.sort.by != Column::Arrived
    }

    /// What leads to few rows, where the query asks for something unusual. A session leads to fewer.
    fn unusual(&self) -> Option<Unusual> {
        if self.session.is_some() || self.sessions.is_some() || self.is_windowed() {
            return None;
        }
        let is_route = self.route.is_some_and(|route| route != api::Route::Sticky);
        let is_end = (self.end).is_some_and(|end| end != api::RequestEnd::Complete);
        match (is_route, is_end) {
            (true, _) => Some(Unusual::Route),
            (false, true) => Some(Unusual::End),
            (false, false) => None,
        }
    }

    /// What an index helps with, and what it does not. A `+` keeps the database from taking an index
    /// that leads to more rows; an unusual one has to be named as its index is.
    fn conditions(&self) -> (Conditions, Conditions) {
        let (mut first, mut then) = (Conditions::default(), Conditions::default());
        let unusual = self.unusual();
        if let Some(model) = &self.model {
            let sql = unusual.map_or("model = ?", |_| "+model = ?");
            first.add(sql, model.clone());
        }
        if let Some(id) = &self.session {
            let past = format!("{id}g"); // behind every hex digit
            first.add(
                "(session >= ? AND session < ? OR conversation >= ? AND conversation < ?)",
                id.clone(),
            );
            first.values.push(Box::new(past.clone()));
            first.values.push(Box::new(id.clone()));
            first.values.push(Box::new(past));
        }
        if let Some(sessions) = &self.sessions {
            first.add(
                "session IN (SELECT value FROM json_each(?))",
                serde_json::json!(sessions).to_string(),
            );
        }
        if let Some(from) = self.ended_from {
            first.add("ended_us >= ?", int(from.0));
        }
        if let Some(to) = self.ended_to {
            first.add("ended_us < ?", int(to.0));
        }
        if let Some(before) = self.before {
            first.add("(arrived_us, id) < (?, ?)", int(before.arrived_us));
            first
                .values
                .push(Box::new(before.id.to_be_bytes().to_vec()));
        }
        if let Some(route) = self.route {
            let sql = match unusual {
                Some(Unusual::Route) => "route = ? AND route <> 'sticky'",
                _ => "route = ?",
            };
            then.add(sql, words::word(&ROUTES, &route));
        }
        if let Some(end) = self.end {
            let sql = match unusual {
                Some(Unusual::End) => "ending = ? AND ending <> 'complete'",
                _ => "ending = ?",
            };
            then.add(sql, words::word(&ENDS, &end));
        }
        if let Some(replica) = self.replica {
            then.add("replica = ?", i64::from(replica));
        }
        if let Some(words) = &self.words {
            then.add(
                "instr(lower(concat_ws(char(10), lower(hex(id)), conversation, session, agent, \
                 model, reason, api, route, ending)), ?) > 0",
                words.clone(),
            );
        }
        (first, then)
    }

    /// The table to select from, with all conditions, and the values.
    fn source(&self) -> (String, Vec<Box<dyn ToSql>>) {
        let (first, then) = self.conditions();
        let (sql, then_sql) = (first.and(), then.and());
        let values = first.values.into_iter().chain(then.values).collect();
        let source = if self.is_windowed() {
            format!(
                "(SELECT * FROM requests WHERE {sql} ORDER BY arrived_us DESC, id DESC \
                 LIMIT {WINDOW}) WHERE {then_sql}"
            )
        } else {
            format!("requests WHERE {sql} AND {then_sql}")
        };
        (source, values)
    }

    /// Rows from `skip` on, at most `take`.
    pub(super) fn ask(
        &self,
        connection: &Connection,
        skip: u64,
        take: u64,
    ) -> rusqlite::Result<Found> {
        let (source, values) = self.source();
        let order = self.sort.sql();
        let list =
            format!("SELECT {COLUMNS} FROM {source} ORDER BY {order} LIMIT {take} OFFSET {skip}");
        let parameters = || rusqlite::params_from_iter(&values);
        let rows = connection
            .prepare_cached(&list)?
            .query_map(parameters(), request_row::read)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let count = format!("SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT {WINDOW})");
        let matching: i64 = connection
            .prepare_cached(&count)?
            .query_row(parameters(), |row| row.get(0))?;
        Ok(Found {
            rows,
            matching: matching as u64,
        })
    }

    /// How the database goes about it, a line per step.
    pub(super) fn plan(&self, connection: &Connection) -> rusqlite::Result<String> {
        let (source, values) = self.source();
        let order = self.sort.sql();
        let explain =
            format!("EXPLAIN QUERY PLAN SELECT {COLUMNS} FROM {source} ORDER BY {order} LIMIT 50");
        let mut statement = connection.prepare(&explain)?;
        let steps = statement.query_map(rusqlite::params_from_iter(&values), |row| {
            row.get::<_, String>(3)
        })?;
        Ok(steps.collect::<rusqlite::Result<Vec<_>>>()?.join("\n"))
    }

    /// Those of `unwritten` that belong to the list, in its order.
    pub(super) fn select(&self, unwritten: Vec<api::Request>) -> Vec<api::Request> {
        let mut chosen: Vec<_> = unwritten
            .into_iter()
            .filter(|request| self.matches(request))
            .collect();
        chosen.sort_by(|a, b| self.sort.compare(a, b));
        chosen
    }

    /// The page, out of the rows from `skip` on and of what is not in the file (`chosen`).
    pub(super) fn page(&self, chosen: Vec<api::Request>, skip: u64, found: Found) -> api::Requests {
        let Found { rows, matching } = found;
        // A request that reached the file between the two looks is in both.
        let chosen: Vec<_> = chosen
            .into_iter()
            .filter(|request| rows.iter().all(|row| row.id != request.id))
            .collect();
        let matching = matching + chosen.len() as u64;
        let mut merged = chosen;
        merged.extend(rows);
        merged.sort_by(|a, b| self.sort.compare(a, b));
        let page: Vec<_> = merged
            .into_iter()
            .skip((self.offset - skip) as usize)
            .take(self.limit as usize)
            .collect();
        let rest = matching > self.offset + page.len() as u64;
        let next = (rest && self.sort == Sort::default())
            .then(|| page.last().map(|last| Cursor::of(last).to_string()));
        api::Requests {
            requests: page,
            matching,
            matching_at_least: matching >= WINDOW,
            next: next.flatten(),
        }
    }
}

fn says(request: &api::Request, words: &str) -> bool {
    let route = request.route.and_then(|route| words::word(&ROUTES, &route));
    let end = request.end.and_then(|end| words::word(&ENDS, &end));
    let texts = [
        Some(request.id.as_str()),
        request.conversation.as_deref(),
        request.session.as_deref(),
        request.agent.as_deref(),
        request.model.as_deref(),
        request.reason.as_deref(),
        Some(request.api.as_str()),
        route,
        end,
    ];
    let mut texts = texts.into_iter().flatten();
    texts.any(|text| text.to_lowercase().contains(words))
}
