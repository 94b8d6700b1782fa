//! The published table, which the model is held against.

use crate::policy::PolicyKind;
use crate::run::Figures;

const TABLE: &str = include_str!("../../data/published-four-cards.csv");

/// One published row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PublishedRow {
    /// Sessions in parallel.
    pub sessions: u32,
    /// Whether affinity was on.
    pub affinity: bool,
    /// Its figures; those that were not published are `None` or 0.
    pub figures: Figures,
}

/// All rows, in the published order.
pub fn published_rows() -> Vec<PublishedRow> {
    TABLE
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(row)
        .collect()
}

/// The row that a policy's cell is compared with: vLLM's balancer with "off", everything else with
/// "on".
pub fn published_row(policy: PolicyKind, sessions: u32) -> Option<PublishedRow> {
    let affinity = policy != PolicyKind::Balanced;
    published_rows()
        .into_iter()
        .find(|row| row.sessions == sessions && row.affinity == affinity)
}

fn row(line: &str) -> PublishedRow {
    let fields: Vec<&str> = line.split(',').collect();
    let number = |index: usize| fields[index].parse::<f64>().ok();
    let needed = |index| number(index).expect("the published table is complete");
    PublishedRow {
        sessions: needed(0) as u32,
        affinity: fields[1] == "on",
        figures: Figures {
            sessions_per_hour: needed(2),
            output_tokens_per_min: needed(3),
            ttfb_s_p50: number(4),
            ttfb_s_p95: number(5),
            replicas_busy: needed(6),
            prefix_hit_percent_vllm: number(7),
            stayed_percent: number(8),
            ..Figures::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_both_arms_at_five_levels() {
        let rows = published_rows();
        assert_eq!(rows.len(), 10);
        let row = published_row(PolicyKind::AffinityGauge, 24).unwrap();
        assert_eq!(row.figures.ttfb_s_p50, Some(13.14));
        assert_eq!(row.figures.stayed_percent, Some(89.1));
        assert_eq!(
            published_row(PolicyKind::Balanced, 4)
                .unwrap()
                .figures
                .stayed_percent,
            None
        );
        assert_eq!(published_row(PolicyKind::Balanced, 5), None);
    }

    /// What `workload::published` says of its answers: within the rounding to a tenth of a token a
    /// second, every published figure is a whole number of answers of 256 tokens in 3 minutes.
    #[test]
    fn every_published_throughput_is_a_whole_number_of_full_answers() {
        for row in published_rows() {
            let tokens = row.figures.output_tokens_per_min * 3.0;
            let off = (tokens - (tokens / 256.0).round() * 256.0).abs();
            assert!(off <= 9.0, "{row:?}: {off} tokens off");
        }
    }
}
