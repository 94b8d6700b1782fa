//! Processes as the system shows them: who one is, whether it still lives, and how all that it
//! started is ended.
//!
//! A pid alone names nobody, since pids are used again. A process of ours is known by its pid, the
//! time it was started and the boot it was started in; and it carries a mark in its environment.
//!
//! What a dead server leaves behind (engine cores that hold a card's memory) is found by its process
//! group, and by the mark where it has left that. The mark alone would not do: vLLM's engine cores
//! overwrite their environment with a title.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

/// The environment variable with the mark.
pub(super) const MARK: &str = "LM_WARDEN_ENGINE";
/// How often an adopted process is looked at.
const POLL: Duration = Duration::from_millis(200);
/// How long killed processes may take to be gone: a card's memory is freed in the kernel.
const SWEEP_MAX: Duration = Duration::from_secs(15);

/// Which process it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// Clock ticks after the boot.
    started_ticks: u64,
    boot_id: String,
}

impl Identity {
    /// The process that has this pid now; `None` where there is none, or no `/proc`.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let stat = Stat::of(pid)?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(Self {
            pid,
            started_ticks: stat.started_ticks,
            boot_id: boot_id.trim().to_owned(),
        })
    }

    /// Whether that very process still runs. One that has ended and was not waited for does not.
    pub(super) fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| !stat.is_zombie)
            && Self::of(self.pid).as_ref() == Some(self)
    }

    /// Returns once it is gone.
    pub(super) async fn gone(&self) {
        while self.is_alive() {
            tokio::time::sleep(POLL).await;
        }
    }
}

struct Stat {
    is_zombie: bool,
    group: u32,
    started_ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Fields 3, 5 and 22 of `proc_pid_stat(5)`; the second is a name that may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok()?;
        let started_ticks = fields.nth(16)?.parse().ok()?;
        Some(Self {
            is_zombie: matches!(state, "Z" | "X"),
            group,
            started_ticks,
        })
    }
}

/// Sends a signal to the process group that this process leads. One that is gone gets none.
pub(super) fn signal_group(leader: u32, signal: Signal) {
    match killpg(nix_pid(leader), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::error!(leader, %signal, %error, "a signal could not be sent"),
    }
}

/// Kills what is left of a server whose own process is gone: the rest of the process group that it
/// `leader` led, and whatever carries the mark. Returns once nothing is left, or the bound is
/// reached; then how many are. Blocks.
pub(super) fn sweep(mark: &str, leader: Option<u32>) -> usize {
    let deadline = Instant::now() + SWEEP_MAX;
    loop {
        let left = remains(mark, leader);
        if left.is_empty() || Instant::now() >= deadline {
            return left.len();
        }
        for pid in left {
            // One that went by itself in between is no trouble.
            let _ = kill(nix_pid(pid), Signal::SIGKILL);
        }
        std::thread::sleep(POLL / 4);
    }
}

fn remains(mark: &str, leader: Option<u32>) -> Vec<u32> {
    // A pid is not used again while its group has members, so a group without its leader is still
    // the one it was; but a process that has the pid now leads another group.
    let is_ours = |leader: &u32| Stat::of(*leader).is_none_or(|stat| stat.is_zombie);
    let group = leader.filter(is_ours);
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let Some(stat) = Stat::of(*pid).filter(|stat| !stat.is_zombie) else {
                return false;
            };
            group == Some(stat.group) || carries(*pid, mark)
        })
        .collect()
}

fn nix_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed())
}

/// Whether the process carries the mark.
pub(super) fn carries(pid: u32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
        environ
            .split(|b| *b == 0)
            .any(|entry| entry == wanted.as_bytes())
    })
}

#[cfg(all(test, target_os = "linux"))]
// Clippy takes only the test functions themselves for tests.
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::process::CommandExt as _,
        process::{Child, Command, Stdio},
    };

    use super::*;

    fn sleeper(mark: &str) -> Child {
        Command::new("sleep")
            .arg("600")
            .env(MARK, mark)
            .process_group(0)
            .spawn()
            .unwrap()
    }

    /// `exec` gives a child its environment some time after `spawn` has returned its pid.
    fn until_marked(pid: u32, mark: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !carries(pid, mark) {
            assert!(Instant::now() < deadline, "{pid} never carried {mark}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) Z 9 (b) S 1 5 6 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 31415 1 1";
        let stat = Stat::parse(stat).unwrap();
        assert!(!stat.is_zombie);
        assert_eq!((stat.group, stat.started_ticks), (5, 31_415));
        assert!(Stat::parse("7 (a").is_none());
    }

    #[tokio::test]
    async fn a_process_is_alive_until_it_has_ended_even_if_nobody_waits_for_it() {
        let mut child = sleeper("identity");
        let identity = Identity::of(child.id()).unwrap();
        assert!(identity.is_alive());
        let stranger = Identity {
            started_ticks: identity.started_ticks + 1,
            ..identity.clone()
        };
        assert!(
            !stranger.is_alive(),
            "a pid that is used again is another process"
        );
        signal_group(child.id(), Signal::SIGKILL);
        identity.gone().await;
        child.wait().unwrap();
    }

    #[test]
    fn a_sweep_ends_what_carries_the_mark_and_nothing_else() {
        let (mut ours, mut strangers) = (sleeper("mark-1"), sleeper("mark-2"));
        until_marked(ours.id(), "mark-1");
        until_marked(strangers.id(), "mark-2");
        assert_eq!(
            sweep("mark-1", Some(strangers.id())),
            0,
            "its pid is a stranger's now"
        );
        assert!(!ours.wait().unwrap().success());
        assert!(strangers.try_wait().unwrap().is_none());
        strangers.kill().unwrap();
        strangers.wait().unwrap();
    }

    #[test]
    fn a_sweep_finds_what_has_lost_its_mark_by_the_group_of_its_leader() {
        let script = format!("env -u {MARK} sleep 600 & echo $!; exec sleep 600");
        let mut leader = Command::new("sh")
            .args(["-c", &script])
            .env(MARK, "mark-3")
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = leader.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let member = Identity::of(line.trim().parse().unwrap()).unwrap();
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert!(member.is_alive());
        assert_eq!(sweep("mark-3", Some(leader.id())), 0);
        assert!(!member.is_alive());
    }
}
