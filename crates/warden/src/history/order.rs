//! The order of a list of requests, and a place in it.

use std::cmp::Ordering;

use super::{
    store::micros,
    words::{self, ENDS, ROUTES},
};

/// A place in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(super) arrived_us: u64,
    pub(super) id: u128,
}

/// An order: by a column, falling or rising. Unknown figures come last either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// By what.
    pub by: Column,
    /// Largest (for times: youngest) first.
    pub falling: bool,
}

impl Default for Sort {
    fn default() -> Self {
        Self {
            by: Column::Arrived,
            falling: true,
        }
    }
}

/// What can order a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// When it arrived.
    Arrived,
    /// Its conversation's id.
    Conversation,
    /// Turn of its conversation.
    Turn,
    /// The rule's name.
    Route,
    /// Replica.
    Replica,
    /// Wait in the warden.
    Queue,
    /// Time to the first byte.
    Ttfb,
    /// Time to the end.
    Total,
    /// Prompt tokens.
    Prompt,
    /// Cached prompt tokens.
    Cached,
    /// Completion tokens.
    Completion,
    /// How it ended, by name.
    End,
}

/// The API's names, and the file's.
const ORDERS: [(Column, &str, &str); 12] = [
    (Column::Arrived, "t", "arrived_us"),
    (Column::Conversation, "conversation", "conversation"),
    (Column::Turn, "turn", "turn"),
    (Column::Route, "route", "route"),
    (Column::Replica, "replica", "replica"),
    (Column::Queue, "queue_ms", "queue_ms"),
    (Column::Ttfb, "ttfb_ms", "ttfb_ms"),
    (Column::Total, "total_ms", "total_ms"),
    (Column::Prompt, "prompt_tokens", "prompt_tokens"),
    (Column::Cached, "cached_tokens", "cached_tokens"),
    (Column::Completion, "completion_tokens", "completion_tokens"),
    (Column::End, "end", "ending"),
];

impl Sort {
    /// As the API writes it: `ttfb_ms` rising, `-ttfb_ms` falling.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix('-').unwrap_or(text);
        let (by, ..) = ORDERS.iter().find(|(_, one, _)| *one == name)?;
        Some(Self {
            by: *by,
            falling: name.len() < text.len(),
        })
    }

    /// The names that [`Self::parse`] takes.
    pub fn names() -> Vec<&'static str> {
        ORDERS.iter().map(|(_, name, _)| *name).collect()
    }

    pub(super) fn sql(self) -> String {
        let falling = if self.falling { " DESC" } else { "" };
        let found = ORDERS.iter().find(|(by, ..)| *by == self.by);
        match found {
            None | Some((Column::Arrived, ..)) => format!("arrived_us{falling}, id{falling}"),
            Some((.., column)) => {
                format!("{column} IS NULL, {column}{falling}, arrived_us DESC, id DESC")
            }
        }
    }

    pub(super) fn compare(self, a: &api::Request, b: &api::Request) -> Ordering {
        let way = |order: Ordering| if self.falling { order.reverse() } else { order };
        let arrival = || Cursor::of(b).cmp(&Cursor::of(a));
        if self.by == Column::Arrived {
            return way(Cursor::of(a).cmp(&Cursor::of(b)));
        }
        match (self.key(a), self.key(b)) {
            (Some(a), Some(b)) => way(a.partial_cmp(&b).unwrap_or(Ordering::Equal)),
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
        .then_with(arrival)
    }

    fn key(self, request: &api::Request) -> Option<Key> {
        let number = |figure: Option<u64>| figure.map(|figure| Key::Number(figure as f64));
        let word = |word: Option<&str>| word.map(|word| Key::Word(word.to_owned()));
        match self.by {
            Column::Arrived => Some(Key::Number(request.t)),
            Column::Conversation => word(request.conversation.as_deref()),
            Column::Turn => number(request.turn.map(u64::from)),
            Column::Route => word(request.route.and_then(|route| words::word(&ROUTES, &route))),
            Column::Replica => number(request.replica.map(u64::from)),
            Column::Queue => request.queue_ms.map(Key::Number),
            Column::Ttfb => request.ttfb_ms.map(Key::Number),
            Column::Total => request.total_ms.map(Key::Number),
            Column::Prompt => number(request.prompt_tokens),
            Column::Cached => number(request.cached_tokens),
            Column::Completion => number(request.completion_tokens),
            Column::End => word(request.end.and_then(|end| words::word(&ENDS, &end))),
        }
    }
}

#[derive(Debug, PartialEq, PartialOrd)]
enum Key {
    Number(f64),
    Word(String),
}

impl Cursor {
    pub(super) fn of(request: &api::Request) -> Self {
        Self {
            arrived_us: micros(request.t),
            id: u128::from_str_radix(&request.id, 16).unwrap_or_default(),
        }
    }

    /// As the API gives it.
    pub fn parse(text: &str) -> Option<Self> {
        let (arrived_us, id) = text.split_once('-')?;
        Some(Self {
            arrived_us: arrived_us.parse().ok()?,
            id: u128::from_str_radix(id, 16).ok()?,
        })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{:x}", self.arrived_us, self.id)
    }
}
