//! What a stretch of time comes to: tokens, requests and times to the first byte, by the rule that
//! routed them. The one place where an ended request becomes numbers for charts.

use std::time::Duration;

use api::{Point, RequestEnd, Route, RouteFigures, StatsSummary};

use super::{distribution::Distribution, words::ROUTES};

/// Of requests that one rule routed (or of all).
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) requests: u64,
    pub(super) cached_tokens: u64,
    pub(super) computed_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) unmeasured: u64,
    pub(super) ttfb: Distribution,
}

impl Figures {
    /// Counts an ended request.
    pub(super) fn count(&mut self, request: &api::Request) {
        self.requests += 1;
        match request.prompt_tokens {
            Some(prompt) => {
                let (cached, computed) = vllm::split_prompt(prompt, request.cached_tokens);
                self.cached_tokens = self.cached_tokens.saturating_add(cached);
                self.computed_tokens = self.computed_tokens.saturating_add(computed);
                self.completion_tokens = self
                    .completion_tokens
                    .saturating_add(request.completion_tokens.unwrap_or(0));
            }
            // What never reached the engine was not for it to measure.
            None if request.end == Some(RequestEnd::Refused) => {}
            None => self.unmeasured += 1,
        }
        if let Some(ttfb_ms) = request.ttfb_ms {
            self.ttfb.add(Duration::from_micros((ttfb_ms * 1e3) as u64));
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.computed_tokens = self.computed_tokens.saturating_add(other.computed_tokens);
        self.completion_tokens = self
            .completion_tokens
            .saturating_add(other.completion_tokens);
        self.unmeasured += other.unmeasured;
        self.ttfb.merge(&other.ttfb);
    }
}

/// The same, told apart by rule; the last place is for requests that no rule routed.
#[derive(Debug, Default)]
pub(super) struct ByRoute([Option<Figures>; ROUTES.len() + 1]);

impl ByRoute {
    pub(super) fn of(&mut self, route: Option<Route>) -> &mut Figures {
        let place = ROUTES.iter().position(|(one, _)| Some(*one) == route);
        self.0[place.unwrap_or(ROUTES.len())].get_or_insert_default()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(theirs);
            }
        }
    }

    fn all(&self) -> Figures {
        let mut all = Figures::default();
        for figures in self.0.iter().flatten() {
            all.merge(figures);
        }
        all
    }

    fn routes(&self) -> Vec<RouteFigures> {
        let routes = ROUTES.iter().map(|(route, _)| Some(*route)).chain([None]);
        let some = routes.zip(&self.0).filter_map(|(route, figures)| {
            let figures = figures.as_ref()?;
            Some(RouteFigures {
                route,
                requests: figures.requests,
                ttfb_ms_p50: figures.ttfb.quantile_ms(0.5),
                ttfb_ms_p95: figures.ttfb.quantile_ms(0.95),
            })
        });
        some.collect()
    }

    /// As a step of a chart that begins at `t_s` and lasts `step_s`.
    pub(super) fn point(&self, t_s: u64, step_s: u64) -> Point {
        let all = self.all();
        let some = |figure: u64| (all.requests > 0).then_some(figure);
        let per_s = |figure: u64| some(figure).map(|figure| figure as f64 / step_s as f64);
        Point {
            t: t_s as f64,
            prompt_tokens_cached: some(all.cached_tokens),
            prompt_tokens_computed: some(all.computed_tokens),
            completion_tokens: some(all.completion_tokens),
            requests: some(all.requests),
            unmeasured_requests: some(all.unmeasured),
            prompt_tokens_cached_per_s: per_s(all.cached_tokens),
            prompt_tokens_computed_per_s: per_s(all.computed_tokens),
            completion_tokens_per_s: per_s(all.completion_tokens),
            ttfb_ms_p50: all.ttfb.quantile_ms(0.5),
            ttfb_ms_p95: all.ttfb.quantile_ms(0.95),
            routes: self.routes(),
        }
    }

    pub(super) fn summary(&self) -> StatsSummary {
        let all = self.all();
        let prompt = all.cached_tokens.saturating_add(all.computed_tokens);
        StatsSummary {
            cache_hit_percent: (prompt > 0)
                .then(|| 100.0 * all.cached_tokens as f64 / prompt as f64),
            prompt_tokens_cached: all.cached_tokens,
            prompt_tokens_computed: all.computed_tokens,
            completion_tokens: all.completion_tokens,
            requests: all.requests,
            unmeasured_requests: all.unmeasured,
            ttfb_ms_p50: all.ttfb.quantile_ms(0.5),
            ttfb_ms_p95: all.ttfb.quantile_ms(0.95),
            routes: self.routes(),
        }
    }
}
