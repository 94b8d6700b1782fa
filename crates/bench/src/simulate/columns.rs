//! The columns in which a plan shows how a number of sessions fares.

use super::table::number;
use crate::results::ResultCell;

/// Name in the results, heading, width and decimals.
const COLUMNS: [(&str, &str, usize, usize); 5] = [
    ("prefix_hit_percent", "hit %", 10, 1),
    ("own_hit_percent", "own %", 10, 1),
    ("ttfb_s_p50", "TTFB p50 s", 12, 2),
    ("ttfb_s_p95", "TTFB p95 s", 12, 2),
    ("output_tokens_per_min", "tokens/min", 14, 0),
];

pub(super) fn heading() -> String {
    let headings = COLUMNS.map(|(_, heading, width, _)| format!("{heading:>width$}"));
    headings.concat()
}

pub(super) fn of(cell: &ResultCell) -> String {
    let figures = COLUMNS
        .map(|(name, _, width, decimals)| format!("{:>width$}", number(cell.mean(name), decimals)));
    figures.concat()
}
