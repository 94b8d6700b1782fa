//! A warden as a process, and what its API and its engines show.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
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

    /// Writes the configuration of model "m".
    pub(super) fn configure(&self, engine: &str, routing: &str) {
        let model = self.model_tables("m", engine);
        self.configure_models(&[model, format!("[models.routing]\n{routing}\n")]);
    }

    /// Writes the configuration of these models.
    pub(super) fn configure_models(&self, models: &[String]) {
        let (port, here) = (self.port, self.dir.path().display());
        let server =
            format!("[server]\nlisten = \"127.0.0.1:{port}\"\ndata_dir = \"{here}/data\"\n");
        fs::write(self.config(), server + &models.concat()).unwrap();
    }

    /// The tables of a model that the fake vLLM serves.
    pub(super) fn model_tables(&self, name: &str, engine: &str) -> String {
        let fake = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/supervision/fake_vllm.sh"
        );
        let here = self.dir.path().display();
        let binary = env!("CARGO_BIN_EXE_lm-warden");
        format!(
            "[[models]]\nname = \"{name}\"\n[models.engine]\nkind = \"vllm\"\n\
             model = \"{here}/model\"\nexecutable = \"{fake}\"\n{engine}\n\
             [models.engine.env]\nLM_WARDEN = \"{binary}\"\nOF_TEST = \"{here}\"\n"
        )
    }

    pub(super) fn config(&self) -> PathBuf {
        self.dir.path().join("warden.toml")
    }

    /// Starts a warden here; the next after one that has ended, or was killed.
    pub(super) fn serve(&self, arguments: &[&str]) -> Warden {
        self.serve_at(Stdio::null(), arguments)
    }

    /// The same, with this for its standard input.
    pub(super) fn serve_at(&self, stdin: Stdio, arguments: &[&str]) -> Warden {
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
            .stdin(stdin)
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

    /// The recorded process of a model's first server.
    pub(super) fn pid_of(&self, model: &str) -> Option<u32> {
        let models = fs::read_dir(self.data_dir().join("engines")).ok()?;
        let paths = models.filter_map(|model| Some(model.ok()?.path().join("server-0.json")));
        let mut records =
            paths.filter_map(|path| serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok());
        let record = records.find(|record| record["model"] == model)?;
        record["process"]["pid"].as_u64().map(|pid| pid as u32)
    }

    /// The port of the first server.
    pub(super) fn engine_port(&self) -> u16 {
        let (_, record) = self.record(0).unwrap();
        let record: Value = serde_json::from_str(&record).unwrap();
        record["port"].as_u64().unwrap() as u16
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
        self.turn_with("m", session)
    }

    /// One turn of a conversation with a model.
    pub(super) fn turn_with(&self, model: &str, session: &str) -> Answer {
        let header = format!("x-session-id: {session}\r\n");
        self.request("POST", "/v1/messages", &header, &turn_body(model))
    }

    /// A turn that nobody waits for; it is there as long as the connection is.
    pub(super) fn begin_turn(&self, session: &str) -> TcpStream {
        let header = format!("x-session-id: {session}\r\n");
        send(
            self.port,
            "POST",
            "/v1/messages",
            (&header, &turn_body("m")),
        )
    }

    /// A turn of the model "m" that streams, as its lines come.
    pub(super) fn stream(&self) -> impl Iterator<Item = String> + use<> {
        let body = turn_body("m").replace("{\"model\"", "{\"stream\":true,\"model\"");
        let stream = send(self.port, "POST", "/v1/messages", ("", &body));
        stream.set_read_timeout(Some(SOON)).unwrap();
        BufReader::new(stream).lines().map(Result::unwrap)
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        request(self.port, method, path, (headers, body))
    }

    /// State of a model, and why.
    pub(super) fn state_of(&self, model: &str) -> (String, String) {
        let model = self.get(&format!("/api/v1/models/{model}")).json();
        let text = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
        (text("state"), text("state_reason"))
    }

    /// State of the model, and why.
    pub(super) fn state(&self) -> (String, String) {
        self.state_of("m")
    }

    /// Waits until the model is in this state; the reason.
    pub(super) fn until(&self, wanted: &str) -> String {
        soon(wanted, || {
            let (state, reason) = self.state();
            (state == wanted).then_some(reason)
        })
    }
}

fn turn_body(model: &str) -> String {
    format!(
        r#"{{"model":"{model}","max_tokens":4,"messages":[{{"role":"user","content":"Hello"}}]}}"#
    )
}

/// Sends a request to a port of this machine: further headers (each with its line's end) and body.
fn send(port: u16, method: &str, path: &str, (headers, body): (&str, &str)) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

/// The answer to a request.
pub(super) fn request(port: u16, method: &str, path: &str, content: (&str, &str)) -> Answer {
    let mut stream = send(port, method, path, content);
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
