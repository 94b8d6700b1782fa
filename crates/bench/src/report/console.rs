//! The table in the terminal: the published columns, each off → on.

use std::{collections::BTreeSet, io::Write};

use super::columns::COLUMNS;
use crate::results::{ResultCell, Results};

const WIDTH: usize = 17;

/// Prints the results: per policy that is not the engine's own balancer one table against it.
pub fn print(results: &Results, out: &mut impl Write) -> std::io::Result<()> {
    let policies: BTreeSet<&str> = results.cells.iter().map(|c| c.policy.as_str()).collect();
    let off = policies.contains("balanced").then_some("balanced");
    let on: Vec<&str> = policies
        .into_iter()
        .filter(|policy| *policy != "balanced")
        .collect();
    match off {
        Some(off) if !on.is_empty() => {
            for on in on {
                table(results, Some(off), on, out)?;
            }
        }
        Some(off) => table(results, None, off, out)?,
        None => {
            for on in on {
                table(results, None, on, out)?;
            }
        }
    }
    writeln!(
        out,
        "Mean over the runs, standard deviation (±) below where there are several. TTFB: to the first \
         event\nthat is no ping. Hits: by the engine's counters of queries and hits, as published; by \
         usage: of the prompt\ntokens of whole replies; own: without the prefix that all sessions \
         share."
    )?;
    for warning in results.settings["warnings"]
        .as_array()
        .into_iter()
        .flatten()
    {
        writeln!(out, "warning: {}", warning.as_str().unwrap_or_default())?;
    }
    Ok(())
}

fn table(
    results: &Results,
    off: Option<&str>,
    on: &str,
    out: &mut impl Write,
) -> std::io::Result<()> {
    match off {
        Some(off) => writeln!(out, "{off} → {on}\n")?,
        None => writeln!(out, "{on}\n")?,
    }
    write!(out, "{:>8}", "sessions")?;
    for column in &COLUMNS {
        write!(out, "{:>WIDTH$}", column.heading)?;
    }
    writeln!(out)?;
    let find = |policy: &str, cell: &ResultCell| {
        results
            .cells
            .iter()
            .find(|other| other.policy == policy && other.sessions == cell.sessions)
    };
    for cell in results.cells.iter().filter(|cell| cell.policy == on) {
        let arms = match off {
            Some(off) => Arms::Both(find(off, cell), cell),
            None => Arms::One(cell),
        };
        line(&cell.sessions.to_string(), arms, ResultCell::mean, out)?;
        if cell.runs > 1 || arms.off().is_some_and(|off| off.runs > 1) {
            line("±", arms, ResultCell::sd, out)?;
        }
        let lost = |name| {
            let of = |cell: Option<&ResultCell>| cell.and_then(|c| c.mean(name)).unwrap_or(0.0);
            of(arms.off()) + of(Some(cell))
        };
        if lost("failed") + lost("censored") > 0.0 {
            writeln!(
                out,
                "{:>8}  {:.1} turns failed and {:.1} were cut at a stage's end (both arms together)",
                "",
                lost("failed"),
                lost("censored")
            )?;
        }
    }
    writeln!(out)
}

/// What stands in a line.
#[derive(Clone, Copy)]
enum Arms<'a> {
    /// Off, where this load was measured with it, and on.
    Both(Option<&'a ResultCell>, &'a ResultCell),
    One(&'a ResultCell),
}

impl<'a> Arms<'a> {
    fn off(self) -> Option<&'a ResultCell> {
        match self {
            Self::Both(off, _) => off,
            Self::One(_) => None,
        }
    }
}

type Read = fn(&ResultCell, &str) -> Option<f64>;

fn line(first: &str, arms: Arms<'_>, read: Read, out: &mut impl Write) -> std::io::Result<()> {
    write!(out, "{first:>8}")?;
    for column in &COLUMNS {
        let number = |cell: Option<&ResultCell>| {
            let value = cell.and_then(|cell| read(cell, column.figure));
            value.map_or("-".to_owned(), |value| {
                format!("{value:.*}", column.decimals)
            })
        };
        let text = match arms {
            Arms::Both(off, on) => format!("{} → {}", number(off), number(Some(on))),
            Arms::One(cell) => number(Some(cell)),
        };
        // By characters: an arrow is one, though three bytes.
        write!(
            out,
            "{}{text}",
            " ".repeat(WIDTH.saturating_sub(text.chars().count()))
        )?;
    }
    writeln!(out)
}
