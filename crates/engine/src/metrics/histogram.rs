//! A histogram with fixed buckets, and the buckets that vLLM uses.

/// `time_to_first_token_seconds`.
pub(super) const FIRST_TOKEN_S: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
/// `inter_token_latency_seconds`.
pub(super) const INTER_TOKEN_S: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
/// `e2e_request_latency_seconds` and the request's phases.
pub(super) const REQUEST_LATENCY_S: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
/// `iteration_tokens_total`.
pub(super) const ITERATION_TOKENS: [f64; 13] = [
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];

/// 1, 2, 5, 10, 20, 50, … up to `max`.
pub(super) fn one_two_five(max: u32) -> Vec<f64> {
    let decades = (0..).map(|exponent| 10_f64.powi(exponent));
    decades
        .flat_map(|decade| [decade, 2.0 * decade, 5.0 * decade])
        .take_while(|bound| *bound <= f64::from(max))
        .collect()
}

#[derive(Debug, Clone)]
pub(super) struct Histogram {
    bounds: Vec<f64>,
    /// Per bucket, not yet cumulated; the last is above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: Vec<f64>) -> Self {
        Self {
            counts: vec![0; bounds.len() + 1],
            bounds,
            sum: 0.0,
        }
    }

    pub(super) fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Upper bounds with the count of all values up to each; the last is infinite.
    pub(super) fn cumulated(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        });
        bounds.zip(counts)
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_on_a_bound_count_below_it() {
        let mut histogram = Histogram::new(vec![1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 9.0] {
            histogram.observe(value);
        }
        let cumulated: Vec<_> = histogram.cumulated().collect();
        assert_eq!(cumulated, [(1.0, 2), (2.0, 3), (f64::INFINITY, 4)]);
        assert!((histogram.sum() - 12.0).abs() < 1e-9);
    }

    #[test]
    fn token_buckets_end_at_the_models_length() {
        assert_eq!(one_two_five(60), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    }
}
