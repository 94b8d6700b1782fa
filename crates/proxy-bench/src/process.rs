//! CPU time and memory of a process and all its descendants, from `/proc`.
//!
//! nginx works in children of the process that was started, so a figure of that process alone would
//! flatter it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// Kernel ticks per second in `/proc/PID/stat`: 100 on every Linux that this is built for (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// A started program that ends with this value.
pub(crate) struct Running(Child);

impl Running {
    /// Starts a program, its output going to `log`.
    pub(crate) fn start(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let out = fs::File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        Ok(Self(child))
    }

    /// User and system time that it and its descendants have used so far, in seconds.
    pub(crate) fn cpu_s(&self) -> anyhow::Result<f64> {
        Ok(self
            .tree()?
            .iter()
            .map(|stat| stat.ticks as f64)
            .sum::<f64>()
            / TICKS_PER_S)
    }

    /// Resident memory of it and its descendants, in bytes.
    pub(crate) fn rss_bytes(&self) -> anyhow::Result<u64> {
        let mut total = 0;
        for stat in self.tree()? {
            let status = fs::read_to_string(format!("/proc/{}/status", stat.pid))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kb = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
            total += kb.context("no VmRSS")?.parse::<u64>()? * 1024;
        }
        Ok(total)
    }

    /// Descriptors that the process itself has open.
    pub(crate) fn open_files(&self) -> anyhow::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.0.id()))?.count())
    }

    fn tree(&self) -> anyhow::Result<Vec<Stat>> {
        let all: HashMap<u32, Stat> = fs::read_dir("/proc")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Stat::read(pid).map(|stat| (pid, stat)))
            .collect();
        anyhow::ensure!(
            all.contains_key(&self.0.id()),
            "process {} has ended",
            self.0.id()
        );
        let root = self.0.id();
        Ok(all
            .values()
            .filter(|stat| descends(&all, stat.pid, root))
            .copied()
            .collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM first: nginx's master has to stop its workers itself.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        for _ in 0..50 {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Clone, Copy)]
struct Stat {
    pid: u32,
    parent: u32,
    /// User and system time of all its threads.
    ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(pid: u32, text: &str) -> Option<Self> {
        // The program's name stands in parentheses and may hold any character.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: number(1)? as u32,
            ticks: number(11)? + number(12)?,
        })
    }
}

fn descends(all: &HashMap<u32, Stat>, pid: u32, root: u32) -> bool {
    let mut at = pid;
    while at != root {
        match all.get(&at) {
            Some(stat) if stat.parent != at => at = stat.parent,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::Stat;

    #[test]
    fn a_stat_line_is_read_past_a_name_with_parentheses() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194560 90 0 0 0 12 30 0 0 20 0 4 0 100 1 2";
        let stat = Stat::parse(7, line).expect("parses");
        assert_eq!((stat.pid, stat.parent, stat.ticks), (7, 1, 42));
    }
}
