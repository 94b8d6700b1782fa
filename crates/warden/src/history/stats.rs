//! Figures over time, out of the roll-ups: no question about any stretch of time reads a single
//! request.

use routing::Time;
use rusqlite::{Connection, ToSql, named_params};

use super::{
    figures::ByRoute,
    store::{STEPS_S, int, merge_row},
    words::{self, MARKS, ROUTES},
};
use crate::clock::epoch_s;

/// Points of one answer.
pub const POINTS_MAX: u64 = 1_500;
/// Marks of one answer, the youngest.
const MARKS_MAX: u64 = 200;

/// What is asked.
#[derive(Debug, Clone)]
pub struct StatsQuery {
    /// The last step is the one that this falls into.
    pub now: Time,
    /// A multiple of `step_s`, at most [`POINTS_MAX`] times as long.
    pub range_s: u64,
    /// A multiple of 10 s.
    pub step_s: u64,
    /// `None` for all together.
    pub model: Option<String>,
}

impl StatsQuery {
    /// The roll-ups that a step is made of.
    fn rollup_s(&self) -> u64 {
        let divides = |(rollup_s, _): &&(u64, _)| self.step_s.is_multiple_of(*rollup_s);
        let coarsest = STEPS_S.iter().rev().find(divides);
        coarsest.map_or(STEPS_S[0].0, |(rollup_s, _)| *rollup_s)
    }

    /// How far back the roll-ups of this step reach, in seconds; `None`: as far as requests do.
    pub fn reach_s(&self) -> Option<u64> {
        let rollup_s = self.rollup_s();
        let kept = STEPS_S.iter().find(|(step_s, _)| *step_s == rollup_s);
        kept.and_then(|(_, kept_s)| *kept_s)
    }

    /// Begin of the first step and end of the last, in epoch seconds.
    fn span_s(&self) -> (u64, u64) {
        let now_s = self.now.0 / 1_000_000;
        let end_s = now_s - now_s % self.step_s + self.step_s;
        (end_s.saturating_sub(self.range_s), end_s)
    }

    pub(super) fn ask(&self, connection: &Connection) -> rusqlite::Result<api::Stats> {
        let (begin_s, end_s) = self.span_s();
        let steps = (self.range_s / self.step_s).min(POINTS_MAX) as usize;
        let mut points: Vec<ByRoute> = (0..steps).map(|_| ByRoute::default()).collect();
        let mut statement = connection.prepare_cached(self.sql())?;
        let (rollup_s, begin, end) = (int(self.rollup_s()), int(begin_s), int(end_s));
        let mut asked: Vec<(&str, &dyn ToSql)> =
            vec![(":rollup", &rollup_s), (":begin", &begin), (":end", &end)];
        if self.model.is_some() {
            asked.push((":model", &self.model));
        }
        let mut rows = statement.query(&asked[..])?;
        while let Some(row) = rows.next()? {
            let t_s: i64 = row.get(0)?;
            let place = (t_s as u64).saturating_sub(begin_s) / self.step_s;
            if let Some(point) = points.get_mut(place as usize) {
                let route = words::value(&ROUTES, row.get_ref(1)?.as_str()?);
                merge_row(point.of(route), row, 2)?;
            }
        }
        let mut all = ByRoute::default();
        for point in &points {
            all.merge(point);
        }
        let starts = (begin_s..).step_by(self.step_s as usize);
        Ok(api::Stats {
            range_s: self.range_s,
            step_s: self.step_s,
            model: self.model.clone(),
            points: starts
                .zip(&points)
                .map(|(t_s, point)| point.point(t_s, self.step_s))
                .collect(),
            summary: all.summary(),
            marks: self.marks(connection, begin_s)?,
        })
    }

    fn sql(&self) -> &'static str {
        if self.model.is_some() {
            "SELECT t_s, route, requests, cached_tokens, computed_tokens, completion_tokens,
                unmeasured, ttfb
             FROM rollups
             WHERE step_s = :rollup AND t_s >= :begin AND t_s < :end AND model = :model"
        } else {
            "SELECT t_s, route, requests, cached_tokens, computed_tokens, completion_tokens,
                unmeasured, ttfb
             FROM rollups WHERE step_s = :rollup AND t_s >= :begin AND t_s < :end"
        }
    }

    /// Those of the model, and those of the warden itself.
    fn marks(&self, connection: &Connection, begin_s: u64) -> rusqlite::Result<Vec<api::Mark>> {
        let mut statement = connection.prepare_cached(
            "SELECT at_us, kind, model, text FROM marks
             WHERE at_us >= :begin AND (:model IS NULL OR model IS NULL OR model = :model)
             ORDER BY at_us DESC LIMIT :limit",
        )?;
        let asked = named_params! {
            ":begin": int(begin_s.saturating_mul(1_000_000)),
            ":model": self.model,
            ":limit": int(MARKS_MAX),
        };
        let rows = statement.query_map(asked, |row| {
            let kind: String = row.get(1)?;
            let at_us: i64 = row.get(0)?;
            let mark = words::value(&MARKS, &kind).map(|kind| api::Mark {
                t: epoch_s(Time(at_us as u64)),
                kind,
                model: row.get(2).unwrap_or_default(),
                text: row.get(3).unwrap_or_default(),
            });
            Ok(mark)
        })?;
        let mut marks = Vec::new();
        for mark in rows {
            marks.extend(mark?);
        }
        marks.reverse();
        Ok(marks)
    }

    /// How the database goes about it, a line per step.
    pub(super) fn plan(&self, connection: &Connection) -> rusqlite::Result<String> {
        let explain = format!("EXPLAIN QUERY PLAN {}", self.sql());
        let mut statement = connection.prepare(&explain)?;
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        Ok(steps.collect::<rusqlite::Result<Vec<_>>>()?.join("\n"))
    }
}
