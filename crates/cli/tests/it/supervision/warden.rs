//! A warden as a process, and what its API and its engines show.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

/// Everything here takes a second or two on an idle machine.
const SOON: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// A folder for a configuration, its state and a "model"; engines that run from it are ended with it.
pub(super) struct Place {
    dir: TempDir,
    port: u16,
}

/// A running warden.
pub(super) struct Warden {
    child: Child,
    port: u16,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(prefix.as_str()))
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// What `look` gives once it gives something.
pub(super) fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(POLL);
    }
}

impl Place {
    /// With this in the tables of model "m" and its engine.
    pub(super) fn new(engine: &str) -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            port: TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port(),
        };
        fs::create_dir(place.model()).unwrap();
        place.configure(engine, "");
        place
    }

    pub(super) fn model(&self) -> PathBuf {
        self.dir.path().join("model")
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Writes the configuration.
    pub(super) fn configure(&self, engine: &str, routing: &str) {
        let fake = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/supervision/fake_vllm.sh"
        );
        let (port, here) = (self.port, self.dir.path().display());
        let binary = env!("CARGO_BIN_EXE_lm-warden");
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\ndata_dir = \"{here}/data\"\n\
             [[models]]\nname = \"m\"\n[models.engine]\nkind = \"vllm\"\n\
             model = \"{here}/model\"\nexecutable = \"{fake}\"\n{engine}\n\
             [models.engine.env]\nLM_WARDEN = \"{binary}\"\nOF_TEST = \"{here}\"\n\
             [models.routing]\n{routing}\n"
        );
        fs::write(self.config(), text).unwrap();
    }

    pub(super) fn config(&self) -> PathBuf {
        self.dir.path().join("warden.toml")
    }

    /// Starts a warden here; the next after one that has ended, or was killed.
    pub(super) fn serve(&self, arguments: &[&str]) -> Warden {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_lm-warden"))
            .arg("serve")
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut warden = Warden {
            child,
            port: self.port,
        };
        soon("the warden listens", || {
            assert!(
                warden.child.try_wait().unwrap().is_none(),
                "it ended: {}",
                self.log()
            );
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
        warden
    }

    /// What the wardens here logged.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The recorded process of a server; `None` while there is none.
    pub(super) fn pid(&self, server: u16) -> Option<u32> {
        let (_, record) = self.record(server)?;
        let record: Value = serde_json::from_str(&record).ok()?;
        record["process"]["pid"].as_u64().map(|pid| pid as u32)
    }

    /// As if another process had the pid of the first server now.
    pub(super) fn rewrite_pid(&self, from: u32, to: u32) {
        let (path, record) = self.record(0).unwrap();
        let changed = record.replace(&format!("\"pid\": {from},"), &format!("\"pid\": {to},"));
        assert_ne!(changed, record);
        fs::write(path, changed).unwrap();
    }

    fn record(&self, server: u16) -> Option<(PathBuf, String)> {
        let models = fs::read_dir(self.data_dir().join("engines")).ok()?;
        let paths = models.filter_map(|model| Some(model.ok()?.path()));
        let mut records = paths.map(|path| path.join(format!("server-{server}.json")));
        records.find_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
    }

    /// Every process of this place's engines, by their environment.
    pub(super) fn processes(&self) -> Vec<u32> {
        let ours = format!("OF_TEST={}", self.dir.path().display());
        let entries = fs::read_dir("/proc").unwrap();
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid: &u32| {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ
                    .split(|byte| *byte == 0)
                    .any(|entry| entry == ours.as_bytes())
            })
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Warden {
    /// Sends a signal and waits for the end; its exit code.
    pub(super) fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        let child = &mut self.child;
        soon("the warden ends", || child.try_wait().unwrap()).code()
    }

    /// A command that asks this warden: its exit code and output.
    pub(super) fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_lm-warden"))
            .args(arguments)
            .env("LM_WARDEN_URL", format!("http://127.0.0.1:{}", self.port))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            output.status.code(),
            text + &String::from_utf8_lossy(&output.stderr),
        )
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "", "")
    }

    pub(super) fn post(&self, path: &str) -> Answer {
        self.request("POST", path, "", "")
    }

    /// One turn of a conversation.
    pub(super) fn turn(&self, session: &str) -> Answer {
        let body = r#"{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"Hello"}]}"#;
        let header = format!("x-session-id: {session}\r\n");
        self.request("POST", "/v1/messages", &header, body)
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or_else(|| panic!("no answer: {text:?}")),
            head: head.replace('\r', ""),
            body: body.to_owned(),
        }
    }

    /// State of the model, and why.
    pub(super) fn state(&self) -> (String, String) {
        let model = self.get("/api/v1/models/m").json();
        let text = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
        (text("state"), text("state_reason"))
    }

    /// Waits until the model is in this state; the reason.
    pub(super) fn until(&self, wanted: &str) -> String {
        soon(wanted, || {
            let (state, reason) = self.state();
            (state == wanted).then_some(reason)
        })
    }
}
