//! The figures as a table for people, with the project's own goals beside them.

use std::fmt::Write as _;

use crate::measure::{Cell, Memory, Results, kind};

/// What is to be reached: nginx's CPU time at 200 KB and on streams at most doubled, at most 0.8 ms
/// added to the median first byte at 200 KB and 20 requests a second.
const CPU_RATIO_MAX: f64 = 2.0;
const ADDED_TTFB_MS_MAX: f64 = 0.8;

pub(crate) fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:>8} {:>9} {:<10} {:>20} {:>9} {:>14} {:>9}",
        "body", "reply", "through", "CPU s/1000 requests", "x nginx", "added p50 ms", "p99 ms"
    );
    for cell in &results.cells {
        let nginx = same_shape(results, cell, "nginx").and_then(|c| c.cpu_s_per_1000_requests);
        let ratio = cell
            .cpu_s_per_1000_requests
            .zip(nginx)
            .map(|(cpu, nginx)| cpu / nginx);
        let _ = writeln!(
            out,
            "{:>8} {:>9} {:<10} {:>20} {:>9} {:>14} {:>9.2}",
            size(cell.body_bytes),
            kind(cell.stream),
            cell.target,
            figure(cell.cpu_s_per_1000_requests, 3),
            figure(ratio, 2),
            figure(added_ms(results, cell), 2),
            cell.ttfb_ms_p99,
        );
    }
    out.push('\n');
    for memory in &results.memory {
        let _ = writeln!(out, "{}", memory_line(memory));
    }
    out.push('\n');
    goals(results, &mut out);
    out
}

fn memory_line(memory: &Memory) -> String {
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let passes: Vec<String> = memory
        .rss_bytes_after_pass
        .iter()
        .map(|&bytes| format!("{:.1}", mib(bytes)))
        .collect();
    let first = memory
        .rss_bytes_after_pass
        .first()
        .copied()
        .unwrap_or_default();
    let grown = first.saturating_sub(memory.rss_bytes_before);
    format!(
        "{:<10} memory: {:.1} MiB; with {} sessions {:.2} KB more each; after each pass over them: {} MiB",
        memory.target,
        mib(memory.rss_bytes_before),
        memory.sessions,
        grown as f64 / 1_000.0 / memory.sessions as f64,
        passes.join(", "),
    )
}

fn goals(results: &Results, out: &mut String) {
    for cell in results
        .cells
        .iter()
        .filter(|cell| cell.target == "lm-warden")
    {
        let at_200_kb = size(cell.body_bytes) == "200 KB";
        let nginx = same_shape(results, cell, "nginx").and_then(|c| c.cpu_s_per_1000_requests);
        let ratio = cell
            .cpu_s_per_1000_requests
            .zip(nginx)
            .map(|(cpu, nginx)| cpu / nginx);
        let what = format!("{}, {}", size(cell.body_bytes), kind(cell.stream));
        if let Some(ratio) = ratio.filter(|_| at_200_kb || cell.stream) {
            goal(
                out,
                &format!("{what}: CPU over nginx's"),
                ratio,
                CPU_RATIO_MAX,
            );
        }
        if let Some(added) = added_ms(results, cell).filter(|_| at_200_kb) {
            goal(
                out,
                &format!("{what}: added TTFB p50, ms"),
                added,
                ADDED_TTFB_MS_MAX,
            );
        }
    }
}

fn goal(out: &mut String, what: &str, value: f64, max: f64) {
    let verdict = if value <= max { "reached" } else { "MISSED" };
    let _ = writeln!(out, "goal {verdict}: {what} {value:.2} (at most {max})");
}

fn added_ms(results: &Results, cell: &Cell) -> Option<f64> {
    let direct = same_shape(results, cell, "direct").filter(|_| cell.target != "direct")?;
    Some(cell.ttfb_ms_p50 - direct.ttfb_ms_p50)
}

fn same_shape<'a>(results: &'a Results, cell: &Cell, target: &str) -> Option<&'a Cell> {
    results.cells.iter().find(|other| {
        other.target == target
            && other.stream == cell.stream
            && size(other.body_bytes) == size(cell.body_bytes)
    })
}

fn size(bytes: usize) -> String {
    match bytes {
        0..10_000 => format!("{} KB", (bytes + 500) / 1_000),
        10_000..900_000 => format!("{} KB", (bytes + 5_000) / 10_000 * 10),
        _ => format!("{} MB", (bytes + 500_000) / 1_000_000),
    }
}

fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}
