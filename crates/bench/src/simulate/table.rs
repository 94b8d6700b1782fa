//! The table of a run: one line per policy and load.

use crate::results::ResultCell;
use std::io::Write;

/// A column: heading, figure, decimals.
const COLUMNS: [(&str, &str, usize); 12] = [
    ("sess/h", "sessions_per_hour", 0),
    ("tok/min", "output_tokens_per_min", 0),
    ("TTFB p50", "ttfb_s_p50", 2),
    ("p95 s", "ttfb_s_p95", 2),
    ("mean s", "ttfb_s_mean", 2),
    ("wait/sess", "session_wait_s_mean", 1),
    ("busy", "replicas_busy", 2),
    ("hit %", "prefix_hit_percent", 1),
    ("vLLM's", "prefix_hit_percent_vllm", 1),
    ("own %", "own_hit_percent", 1),
    ("stayed %", "stayed_percent", 1),
    ("preempt", "preemptions", 1),
];

pub(super) fn print(cells: &[ResultCell], out: &mut impl Write) -> std::io::Result<()> {
    write!(out, "{:<15}{:>5}", "policy", "sess")?;
    for (heading, ..) in COLUMNS {
        write!(out, "{heading:>10}")?;
    }
    writeln!(out)?;
    for cell in cells {
        write!(out, "{:<15}{:>5}", cell.policy, cell.sessions)?;
        for (_, figure, decimals) in COLUMNS {
            write!(out, "{:>10}", number(cell.mean(figure), decimals))?;
        }
        writeln!(out)?;
        if cell.runs > 1 {
            write!(out, "{:<20}", "  +-")?;
            for (_, figure, decimals) in COLUMNS {
                write!(out, "{:>10}", number(cell.sd(figure), decimals))?;
            }
            writeln!(out)?;
        }
        print_bounds(cell, out)?;
    }
    writeln!(out)?;
    let runs = cells.first().map_or(0, |cell| cell.runs);
    writeln!(
        out,
        "Means of {runs} runs, standard deviations under them (+-). TTFB at the client,"
    )?;
    writeln!(
        out,
        "seconds; hit: by usage, and by vLLM's own counters, which count a blocked request"
    )?;
    writeln!(
        out,
        "again at each step; own: without the prefix that all sessions share.\n"
    )
}

fn print_bounds(cell: &ResultCell, out: &mut impl Write) -> std::io::Result<()> {
    let Some(tokens) = cell.mean("bound_output_tokens_per_min") else {
        return Ok(());
    };
    let hits = number(cell.mean("bound_prefix_hit_percent"), 1);
    writeln!(
        out,
        "  at most           {:>10}{tokens:>10.0}{:>60}",
        "", hits
    )
}

/// A number, or a dash where there is none.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}
