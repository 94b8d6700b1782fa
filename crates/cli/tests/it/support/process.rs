//! `lm-warden serve` as a process of its own.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use super::{Url, binary, until};

/// Four fast simulated replicas.
pub(crate) const CONFIG: &str = r#"
[[models]]
name = "demo"
aliases = ["claude-*"]
[models.engine]
kind = "simulated"
data_parallel_size = 4
speed = 1000.0
"#;

/// For [`Warden::limited`]: what the simulated engine cannot take, and the warden cannot know of.
pub(crate) const REFUSED_BY_THE_ENGINE: &str = r"export VLLM_SERVER_DEV_MODE=$(printf '\377')";

/// On a free port.
const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// A running warden, killed when dropped.
#[derive(Debug)]
pub(crate) struct Warden {
    child: Child,
    pub(crate) url: Url,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Warden {
    /// Starts it with four fast replicas and waits until they serve.
    pub(crate) fn start(directory: &Path) -> Self {
        Self::with(directory, CONFIG).ready()
    }

    /// Starts it with a configuration and waits until it listens. All its files are in the
    /// directory.
    pub(crate) fn with(directory: &Path, config: &str) -> Self {
        let file = directory.join("warden.toml");
        fs::write(&file, config).unwrap();
        let file = file.to_str().unwrap().to_owned();
        Self::spawn(directory, &["--config", &file])
    }

    /// Starts it with these arguments.
    pub(crate) fn spawn(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = binary();
        command.args(SERVE).args(arguments);
        Self::run(directory, command)
    }

    /// Starts it with four fast replicas behind a shell's words, e.g. `ulimit -n 64`.
    pub(crate) fn limited(directory: &Path, words: &str) -> Self {
        Self::behind(directory, Command::new("sh"), words)
    }

    /// The same with file systems of its own to mount, where this machine allows that.
    pub(crate) fn secluded(directory: &Path, words: &str) -> Option<Self> {
        let mut shell = Command::new("unshare");
        shell.arg("-rm");
        let allowed = shell.arg("true").stderr(Stdio::null()).status();
        if !allowed.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: this machine allows no namespace (unshare -rm)");
            return None;
        }
        let mut shell = Command::new("unshare");
        shell.args(["-rm", "sh"]);
        Some(Self::behind(directory, shell, words))
    }

    fn behind(directory: &Path, mut command: Command, words: &str) -> Self {
        let file = directory.join("warden.toml");
        fs::write(&file, CONFIG).unwrap();
        let program = binary();
        command
            .args(["-c", &format!("{words}; exec \"$0\" \"$@\"")])
            .arg(program.get_program())
            .args(SERVE)
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::null());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self::run(directory, command)
    }

    fn run(directory: &Path, mut command: Command) -> Self {
        let mut child = command
            .env("XDG_STATE_HOME", directory)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A group of its own, as a shell gives it.
            .process_group(0)
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let lines = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let mut warden = Self {
            child,
            url: Url(String::new()),
            log,
            reader: Some(reader),
        };
        warden.url = Url(warden.logged("serves at "));
        warden
    }

    /// Waits until all models serve.
    pub(crate) fn ready(self) -> Self {
        self.await_state("ready");
        self
    }

    /// Waits until the first model has this state; gives back the reason.
    pub(crate) fn await_state(&self, state: &str) -> String {
        until(&format!("the state {state}: {:#?}", self.log()), || {
            let model = &self.url.get("/api/v1/models")["models"][0];
            let reason = model["state_reason"].as_str().unwrap_or_default();
            (model["state"] == state).then(|| reason.to_owned())
        })
    }

    /// Waits for a log line with this text; gives back the word after it.
    pub(crate) fn logged(&self, text: &str) -> String {
        until(&format!("{text:?} in the log"), || self.last_logged(text))
    }

    /// The word after the last occurrence of the text in the log.
    pub(crate) fn last_logged(&self, text: &str) -> Option<String> {
        let log = self.log.lock().unwrap();
        let found = log.iter().rev().find_map(|line| line.split_once(text))?;
        let word = found.1.split_whitespace().next().unwrap_or_default();
        Some(word.to_owned())
    }

    /// Where the simulated engine listens.
    pub(crate) fn engine(&self) -> Url {
        Url(self.logged("the simulated engine serves model=demo url="))
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// To it and all that it started in its group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        killpg(Pid::from_raw(pid), signal).unwrap();
    }

    /// kill -9 of all that it started.
    pub(crate) fn kill_children(&self) {
        let own = self.child.id();
        for entry in fs::read_dir("/proc").unwrap() {
            let name = entry.unwrap().file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // The program's name stands in parentheses and may hold any character.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' '));
            if fields.and_then(|mut fields| fields.nth(1)?.parse().ok()) == Some(own) {
                // It may have ended meanwhile.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    /// A path as the warden sees it.
    pub(crate) fn inside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.child.id()));
        root.join(path.strip_prefix("/").unwrap())
    }

    /// Its resident memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() << 10
    }

    /// Its descriptors.
    pub(crate) fn open_files(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        files.unwrap().count()
    }

    /// Sum of the samples that begin so in `/metrics`.
    pub(crate) fn counted(&self, sample: &str) -> u64 {
        let reply = self.url.ask("GET /metrics", "", "");
        let samples = reply.body.lines().filter(|line| line.starts_with(sample));
        let values = samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        values.sum()
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let status = until("the warden's end", || self.child.try_wait().unwrap());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        status
    }

    /// Asks it to end, and waits.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.ended();
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The files of homes, all together.
pub(crate) fn homes_bytes(directory: &Path) -> u64 {
    let homes: PathBuf = directory.join("lm-warden/homes");
    let files = fs::read_dir(homes).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum()
}
