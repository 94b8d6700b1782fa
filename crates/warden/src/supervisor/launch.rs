//! How one vLLM server is started: program, arguments, environment. Keys go by the environment,
//! never by a command line that every user can read.

use std::{collections::BTreeMap, fs::File, io, net::TcpListener, path::PathBuf, process::Stdio};

use tokio::process::{Child, Command};
use twox_hash::XxHash3_64;
use vllm::serve::ServeCommand;

use super::process::MARK;
use crate::config::{Layout, Vllm};

/// Variables of the warden's own environment that are no engine's business.
const PRIVATE: [&str; 6] = [
    "LM_WARDEN_KEY",
    "LM_WARDEN_URL",
    "NOTIFY_SOCKET",
    "VLLM_API_KEY",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// One server's command.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    program: PathBuf,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
}

impl Launch {
    /// The command of the `server`-th server of a model.
    pub(super) fn new(name: &str, engine: &Vllm, server: u16, port: u16) -> Self {
        let names = [name.to_owned()];
        let serve = ServeCommand {
            model: &engine.model,
            served_names: &names,
            port,
            dtype: engine.dtype.as_deref(),
            data_parallel_size: engine.ranks_per_server(),
            tensor_parallel_size: engine.tensor_parallel_size,
            max_num_seqs: engine.max_num_seqs,
            kv_offload_gib: engine.kv_offload_gib,
            tool_call_parser: engine.tool_call_parser.as_deref(),
            args: &engine.args,
        };
        let mut env = BTreeMap::new();
        // Otherwise Python holds lines back when it prints into a file.
        env.insert("PYTHONUNBUFFERED".to_owned(), "1".to_owned());
        if let Some(cards) = visible(engine, server) {
            // By default CUDA counts the fastest card first, and nvidia-smi does not.
            env.insert("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned());
            env.insert("CUDA_VISIBLE_DEVICES".to_owned(), cards);
        }
        env.extend(engine.env.clone());
        if let Some(key) = &engine.api_key {
            env.insert("VLLM_API_KEY".to_owned(), key.0.clone());
        }
        Self {
            program: engine.executable.clone(),
            argv: serve.argv(),
            env,
        }
    }

    /// A hash that is the same as long as the command is.
    pub(super) fn hash(&self) -> u64 {
        let mut text = format!("{}\0", self.program.display());
        for arg in &self.argv {
            text.push_str(arg);
            text.push('\0');
        }
        for (name, value) in &self.env {
            text.extend([name.as_str(), "=", value.as_str(), "\0"]);
        }
        XxHash3_64::oneshot(text.as_bytes())
    }

    /// Starts it in a process group of its own, which a signal to the warden's does not reach.
    pub(super) fn spawn(&self, log: File, mark: &str) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.argv);
        for name in PRIVATE {
            command.env_remove(name);
        }
        command
            .envs(&self.env)
            .env(MARK, mark)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(false)
            .spawn()
    }
}

/// Whether a model's servers are started with the one as with the other. What only the warden goes
/// by (how long a start may take) is no difference.
pub(super) fn is_same(name: &str, before: &Vllm, after: &Vllm) -> bool {
    let hashes = |engine: &Vllm| -> Vec<u64> {
        let servers = 0..engine.servers();
        servers
            .map(|server| Launch::new(name, engine, server, 0).hash())
            .collect()
    };
    before.port == after.port && hashes(before) == hashes(after)
}

/// `CUDA_VISIBLE_DEVICES` of one server.
fn visible(engine: &Vllm, server: u16) -> Option<String> {
    let cards_per_replica = usize::from(engine.tensor_parallel_size);
    let gpus = engine.gpus.as_ref()?;
    let cards = match engine.layout {
        Layout::Ranks => &gpus[..usize::from(engine.data_parallel_size) * cards_per_replica],
        Layout::Servers => {
            let first = usize::from(server) * cards_per_replica;
            &gpus[first..first + cards_per_replica]
        }
    };
    let cards: Vec<String> = cards.iter().map(u32::to_string).collect();
    Some(cards.join(","))
}

/// The port of a server: the configured one, or one that is free now.
pub(super) fn port(engine: &Vllm, server: u16) -> io::Result<u16> {
    match engine.port {
        Some(first) => Ok(first + server),
        None => Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()),
    }
}

#[cfg(test)]
// Clippy takes only the test functions themselves for tests.
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use crate::config::{Config, Engine, Overrides};

    pub(in crate::supervisor) fn engine(more: &str) -> Vllm {
        let text = format!(
            "[[models]]\nname = \"m\"\n[models.engine]\nkind = \"vllm\"\nmodel = \"Qwen/Qwen3-4B\"\n{more}"
        );
        let overrides = Overrides {
            data_dir: Some("/state".into()),
            ..Overrides::default()
        };
        match Config::parse(&text, &overrides)
            .unwrap()
            .models
            .remove(0)
            .engine
        {
            Engine::Vllm(engine) => engine,
            other => panic!("{other:?}"),
        }
    }

    fn env<'a>(launch: &'a Launch, name: &str) -> Option<&'a str> {
        launch.env.get(name).map(String::as_str)
    }

    #[test]
    fn ranks_see_all_their_cards_and_servers_their_own() {
        let cards = "data_parallel_size = 2\ntensor_parallel_size = 2\ngpus = [4, 5, 6, 7]";
        let ranks = Launch::new("m", &engine(cards), 0, 8000);
        assert_eq!(env(&ranks, "CUDA_VISIBLE_DEVICES"), Some("4,5,6,7"));
        let servers = engine(&format!("{cards}\nlayout = \"servers\""));
        let second = Launch::new("m", &servers, 1, 8001);
        assert_eq!(env(&second, "CUDA_VISIBLE_DEVICES"), Some("6,7"));
        assert!(second.argv.join(" ").contains("--data-parallel-size 1"));
        assert_eq!(
            env(&Launch::new("m", &engine(""), 0, 1), "CUDA_VISIBLE_DEVICES"),
            None
        );
    }

    #[test]
    fn the_hash_follows_the_command_and_the_key_stays_out_of_the_arguments() {
        let plain = engine("");
        let hash = |engine: &Vllm| Launch::new("m", engine, 0, 8000).hash();
        let mut keyed = plain.clone();
        keyed.api_key = Some(crate::config::Secret("s3cret".to_owned()));
        assert_eq!(hash(&plain), hash(&plain.clone()));
        assert_ne!(hash(&plain), hash(&keyed));
        assert_ne!(hash(&plain), hash(&engine("env = { A = \"1\" }")));
        let launch = Launch::new("m", &keyed, 0, 8000);
        assert!(!launch.argv.join(" ").contains("s3cret"));
        assert_eq!(env(&launch, "VLLM_API_KEY"), Some("s3cret"));
    }

    #[test]
    fn only_what_a_server_is_started_with_makes_a_difference() {
        let before = engine("gpus = [0, 1]");
        for (more, same) in [
            ("gpus = [0, 1]\nstart_s_max = 60", true),
            // The second card is left over.
            ("gpus = [0, 2]", true),
            ("gpus = [1, 0]", false),
            ("gpus = [0, 1]\nport = 9100", false),
            ("gpus = [0, 1]\nargs = [\"--seed\", \"1\"]", false),
        ] {
            assert_eq!(is_same("m", &before, &engine(more)), same, "{more}");
        }
    }

    #[test]
    fn servers_count_up_from_the_configured_port() {
        let servers = engine("port = 9100\nlayout = \"servers\"\ndata_parallel_size = 2");
        assert_eq!(port(&servers, 1).unwrap(), 9101);
        assert_ne!(port(&engine(""), 0).unwrap(), 0);
    }
}
