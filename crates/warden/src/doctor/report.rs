//! Findings on a terminal, or as JSON.

use std::io::{self, IsTerminal as _};

use serde::Serialize;

use super::{Finding, Level};
use crate::commands::out;

/// Prints the findings, the gravest last, so that they are what is seen.
pub fn print(findings: &[Finding]) {
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    out(&render(findings, colour));
}

/// Prints the findings as `{"findings": […]}`.
pub fn print_json(findings: &[Finding]) {
    #[derive(Serialize)]
    struct Report<'a> {
        findings: &'a [Finding],
    }
    let json = serde_json::to_string_pretty(&Report { findings });
    out(&(json.expect("findings are plain JSON") + "\n"));
}

fn render(findings: &[Finding], colour: bool) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.level);
    sorted
        .iter()
        .map(|finding| lines(finding, colour))
        .collect()
}

fn lines(finding: &Finding, colour: bool) -> String {
    let (word, code) = match finding.level {
        Level::Ok => ("ok", "32"),
        Level::Warning => ("warning", "33"),
        Level::Problem => ("problem", "31"),
    };
    let word = format!("{word:<8}");
    let word = if colour {
        format!("\x1b[{code}m{word}\x1b[0m")
    } else {
        word
    };
    let mend = finding.mend.as_ref();
    let mend = mend.map_or_else(String::new, |mend| format!("         → {mend}\n"));
    format!("{word} {}: {}\n{mend}", finding.check, finding.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_comes_last_with_what_to_do() {
        let findings = [
            Finding::problem("port", "is taken", "free it"),
            Finding::ok("time", "is right"),
        ];
        assert_eq!(
            render(&findings, false),
            "ok       time: is right\nproblem  port: is taken\n         → free it\n"
        );
    }
}
