//! What helps where the wanted sessions outgrow the cache: leases, host memory, or both.

use super::columns;
use super::run::run_seeds;
use super::{SimulateError, figures};
use crate::results::ResultCell;
use sim::experiment::{Experiment, Level};
use sim::policy::PolicyKind;
use std::io::Write;

/// Room beyond the mean contexts: sessions grow past their mean, and do not spread evenly.
const MARGIN: f64 = 1.25;

/// Whole GiB of host memory for each replica that keep the contexts of so many sessions:
/// the value for `kv_offload_gib`, vLLM's `--kv-offloading-size`, which counts per engine.
pub fn host_gib(kv_bytes_per_token: u64, context_tokens: u32, sessions: u32, replicas: u16) -> u32 {
    let per_replica = sessions.div_ceil(u32::from(replicas.max(1)));
    let tokens = f64::from(per_replica) * f64::from(context_tokens);
    let gib = tokens * kv_bytes_per_token as f64 / f64::from(1 << 30);
    (gib * MARGIN).ceil() as u32
}

/// The wanted sessions under each combination.
#[derive(Debug)]
pub(super) struct Relief {
    pub(super) host_gib: u32,
    rows: Vec<(PolicyKind, u32, ResultCell)>,
}

impl Relief {
    /// Simulates `sessions` with and without each of the two.
    pub(super) fn of(
        experiment: &Experiment,
        (sessions, host_gib): (u32, u32),
        seeds: u32,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, SimulateError> {
        let mut rows = Vec::new();
        for gib in [0, host_gib] {
            for policy in [PolicyKind::Affinity, PolicyKind::Leases] {
                let one = Experiment {
                    profile: experiment.profile.clone().with_host_gib(f64::from(gib)),
                    levels: vec![Level::closed(sessions)],
                    policies: vec![policy],
                    ..experiment.clone()
                };
                let runs = run_seeds(&one, 1, seeds, progress)?;
                let runs: Vec<_> = runs.iter().map(|cells| &cells[0]).collect();
                rows.push((policy, gib, figures::result_cell("farm", None, &runs)));
            }
        }
        Ok(Self { host_gib, rows })
    }

    /// Whether leases make any difference without host memory.
    fn leases_begin(&self) -> bool {
        let [(_, _, affinity), (_, _, leases), ..] = self.rows.as_slice() else {
            return false;
        };
        columns::of(affinity) != columns::of(leases)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        self.rows
            .iter()
            .map(|(_, gib, cell)| serde_json::json!({"host_gib_per_replica": gib, "cell": cell}))
            .collect()
    }

    pub(super) fn print(&self, replicas: u16, out: &mut impl Write) -> std::io::Result<()> {
        let in_all = self.host_gib * u32::from(replicas);
        let leases = if self.leases_begin() {
            "leases, or "
        } else {
            ""
        };
        writeln!(
            out,
            "\nWhat helps: {leases}{} GiB of host memory for each replica ({in_all} GiB in all;\n\
             kv_offload_gib = {}, vLLM's --kv-offloading-size).",
            self.host_gib, self.host_gib
        )?;
        if leases.is_empty() {
            writeln!(
                out,
                "Leases would not begin: too little is lost that they could have kept."
            )?;
        }
        writeln!(out)?;
        writeln!(out, "{:<26}{}", "", columns::heading())?;
        for (policy, gib, cell) in &self.rows {
            let words = match gib {
                0 => policy.as_str().to_owned(),
                gib => format!("{}, {gib} GiB", policy.as_str()),
            };
            writeln!(out, "{words:<26}{}", columns::of(cell))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_holds_each_replicas_share_of_the_contexts_with_a_margin() {
        // 4 sessions of 58,000 tokens of 64 KiB are 14.2 GiB.
        assert_eq!(host_gib(65_536, 58_000, 26, 7), 18);
        assert_eq!(host_gib(147_456, 12_000, 1, 4), 3);
    }
}
