//! The columns that all reports share: the published ones, and own hits beside the raw ones.

/// A column: heading, figure, decimals, and whether it was published.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) figure: &'static str,
    pub(super) decimals: usize,
    published: bool,
}

const fn column(
    heading: &'static str,
    figure: &'static str,
    decimals: usize,
    published: bool,
) -> Column {
    Column {
        heading,
        figure,
        decimals,
        published,
    }
}

pub(super) const COLUMNS: [Column; 9] = [
    column("sessions/h", "sessions_per_hour", 0, true),
    column("out tok/min", "output_tokens_per_min", 0, true),
    column("TTFB p50 s", "ttfb_s_p50", 2, true),
    column("TTFB p95 s", "ttfb_s_p95", 2, true),
    column("busy", "replicas_busy", 2, true),
    column("hits %", "prefix_hit_percent_vllm", 1, true),
    column("by usage %", "prefix_hit_percent", 1, false),
    column("own hits %", "own_hit_percent", 1, false),
    column("stayed %", "stayed_percent", 1, true),
];

/// Whether the published table has the figure.
pub(super) fn is_published(figure: &str) -> bool {
    COLUMNS
        .iter()
        .any(|column| column.published && column.figure == figure)
}
