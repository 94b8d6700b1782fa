//! Filter, order and page of the list of conversations. All of them are in memory, so any order may
//! be asked for.

use std::cmp::Ordering;

use serde::Deserialize;

use crate::operators::{
    error::ApiError,
    requests::{limit, offset, words},
};

#[derive(Debug, Deserialize)]
pub(in crate::operators) struct Parameters {
    limit: Option<usize>,
    offset: Option<u64>,
    sort: Option<String>,
    pub(super) model: Option<String>,
    replica: Option<u16>,
    q: Option<String>,
}

type Compare = fn(&api::Conversation, &api::Conversation) -> Ordering;

/// The orders by their names, smallest first.
const ORDERS: [(&str, Compare); 10] = [
    ("last_active", |a, b| {
        a.last_active.total_cmp(&b.last_active)
    }),
    ("id", |a, b| a.id.cmp(&b.id)),
    ("model", |a, b| a.model.cmp(&b.model)),
    ("replica", |a, b| a.replica.cmp(&b.replica)),
    ("turns", |a, b| a.turns.cmp(&b.turns)),
    ("in_flight", |a, b| a.in_flight.cmp(&b.in_flight)),
    ("context_tokens", |a, b| {
        a.context_tokens.cmp(&b.context_tokens)
    }),
    ("own_tokens", |a, b| a.own_tokens.cmp(&b.own_tokens)),
    ("last_route", |a, b| a.last_route.cmp(&b.last_route)),
    ("named_by", |a, b| a.named_by.cmp(&b.named_by)),
];

/// What is asked for.
pub(super) struct Query {
    limit: usize,
    offset: usize,
    compare: Compare,
    falling: bool,
    replica: Option<u16>,
    words: Option<String>,
}

impl Query {
    pub(super) fn parse(parameters: &Parameters) -> Result<Self, ApiError> {
        let sort = parameters.sort.as_deref().unwrap_or("-last_active");
        let name = sort.strip_prefix('-').unwrap_or(sort);
        let Some((_, compare)) = ORDERS.iter().find(|(one, _)| *one == name) else {
            let names: Vec<&str> = ORDERS.iter().map(|(name, _)| *name).collect();
            return Err(ApiError::Invalid(format!(
                "sort = \"{sort}\": must be one of {}, with - before it for the largest first",
                names.join(", ")
            )));
        };
        Ok(Self {
            limit: limit(parameters.limit)?,
            offset: offset(parameters.offset)? as usize,
            compare: *compare,
            falling: name.len() < sort.len(),
            replica: parameters.replica,
            words: parameters.q.as_deref().map(words).transpose()?,
        })
    }

    pub(super) fn page(&self, known: Vec<api::Conversation>) -> api::Conversations {
        let total = known.len() as u64;
        let mut found: Vec<_> = known.into_iter().filter(|one| self.matches(one)).collect();
        let matching = found.len() as u64;
        found.sort_by(|a, b| {
            let order = (self.compare)(a, b);
            let order = if self.falling { order.reverse() } else { order };
            let youngest = || b.last_active.total_cmp(&a.last_active);
            order.then_with(youngest).then_with(|| a.id.cmp(&b.id))
        });
        let page = found.into_iter().skip(self.offset).take(self.limit);
        api::Conversations {
            conversations: page.collect(),
            matching,
            total,
        }
    }

    fn matches(&self, one: &api::Conversation) -> bool {
        let texts = [
            Some(&one.id),
            Some(&one.session),
            one.agent.as_ref(),
            Some(&one.model),
            Some(&one.named_by),
        ];
        let says = |words: &String| {
            let mut texts = texts.iter().flatten();
            texts.any(|text| text.to_lowercase().contains(words))
        };
        self.replica.is_none_or(|replica| one.replica == replica)
            && self.words.as_ref().is_none_or(says)
    }
}
