//! The configuration file as it is written: everything optional, nothing checked. The documentation
//! comments are the descriptions in the JSON schema.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of lm-warden.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// The warden itself.
    #[serde(default)]
    pub(super) server: Server,
    /// Who may use it.
    #[serde(default)]
    pub(super) auth: Auth,
    /// What is kept of requests.
    #[serde(default)]
    pub(super) history: History,
    /// The served models, at least one.
    #[serde(default)]
    pub(super) models: Vec<Model>,
}

/// What is kept of requests, in history.sqlite in the data directory.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    /// Days after which a request is removed. Default 30.
    pub(super) days_max: Option<i64>,
    /// Size of the file, in bytes, past which the oldest requests are removed. Default 2147483648
    /// (2 GiB).
    pub(super) bytes_max: Option<i64>,
}

/// The warden itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    /// Address of the APIs, pages and metrics; other than loopback only with keys. Default
    /// 127.0.0.1:8484.
    pub(super) listen: Option<String>,
    /// Directory for what outlives a restart. Default: $XDG_STATE_HOME/lm-warden.
    pub(super) data_dir: Option<PathBuf>,
    /// Largest request body, in bytes. Default 67108864 (64 MiB).
    pub(super) body_bytes_max: Option<i64>,
    /// All bodies held at once, in bytes; past it requests get 503. Default 1073741824 (1 GiB).
    pub(super) buffered_bytes_max: Option<i64>,
    /// Whether vLLM engines are stopped when the warden ends. Default false: they go on and are
    /// adopted by the next warden, with their cache.
    pub(super) stop_engines: Option<bool>,
    /// TLS towards clients. The files are followed while the service runs. Default: none.
    pub(super) tls: Option<Tls>,
}

/// TLS towards clients.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    /// PEM file with the certificate, followed by those of its issuers.
    pub(super) cert: PathBuf,
    /// PEM file with its private key, without a passphrase.
    pub(super) key: PathBuf,
}

/// Who may use the warden.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Auth {
    /// Whether a request without a key is refused (`lm-warden key add` makes keys). Default: true,
    /// unless a loopback address listens.
    pub(super) required: Option<bool>,
    /// Whether each key has a prefix cache of its own (vLLM's `cache_salt`, from vLLM 0.32 on), so
    /// that no tenant can tell by the time to first byte what others have asked. It costs the
    /// prefixes that keys have in common: each key reads and keeps its own copy. Default false.
    pub(super) cache_salt: Option<bool>,
}

/// A served model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    /// What clients ask for.
    pub(super) name: String,
    /// Other names it answers to; a * in one stands for any text.
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    /// What runs the model.
    pub(super) engine: Engine,
    /// How conversations are routed.
    #[serde(default)]
    pub(super) routing: Routing,
}

/// Who runs the engine.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EngineKind {
    /// vLLM, started and supervised by the warden.
    Vllm,
    /// It runs elsewhere.
    Attached,
    /// A simulated engine, started by the warden.
    Simulated,
}

/// What runs the model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    /// "vllm": started and supervised here. "attached": runs elsewhere. "simulated": a simulated
    /// engine, started here.
    pub(super) kind: EngineKind,
    /// Attached: the vLLM server whose replicas are its data-parallel ranks.
    pub(super) url: Option<String>,
    /// Attached: vLLM servers, one replica each.
    pub(super) urls: Option<Vec<String>>,
    /// Replicas to start, behind `url` or to simulate (vLLM's --data-parallel-size). Default 1.
    pub(super) data_parallel_size: Option<i64>,
    /// Concurrent sequences per replica (vLLM's --max-num-seqs). Default 32; an attached engine's
    /// must be written.
    pub(super) max_num_seqs: Option<i64>,
    /// vLLM and attached: name of the environment variable that holds the engine's API key.
    pub(super) api_key_env: Option<String>,
    /// Simulated: the hardware and model to simulate. Default demo.
    pub(super) profile: Option<String>,
    /// Simulated: how many times faster than the hardware. Default 1.0.
    pub(super) speed: Option<f64>,
    /// vLLM: the model to load, a name or a folder.
    pub(super) model: Option<String>,
    /// vLLM: the vllm program. Default "vllm", looked up in PATH.
    pub(super) executable: Option<PathBuf>,
    /// vLLM: --dtype. Default: vLLM's own choice.
    pub(super) dtype: Option<String>,
    /// vLLM: cards per replica (--tensor-parallel-size). Default 1.
    pub(super) tensor_parallel_size: Option<i64>,
    /// vLLM: cards, in the order of the replicas (`CUDA_VISIBLE_DEVICES`). Default: all.
    pub(super) gpus: Option<Vec<i64>>,
    /// vLLM: "ranks" (one server with data-parallel ranks) or "servers" (a server per replica).
    /// Default "ranks".
    pub(super) layout: Option<Layout>,
    /// vLLM: host memory per replica for evicted KV cache, in GiB (--kv-offloading-size). Default 0.
    pub(super) kv_offload_gib: Option<i64>,
    /// vLLM: --tool-call-parser: "auto" (by the model's name), "off", or a parser's name. Default
    /// "auto".
    pub(super) tool_call_parser: Option<String>,
    /// vLLM: further arguments, put last. Before 0.32 vLLM keeps system messages within a
    /// conversation where they stand, and the prefix cache whole, only with `"--chat-template",
    /// "FILE"` here, naming a template that takes them.
    pub(super) args: Option<Vec<String>>,
    /// vLLM: further environment variables.
    pub(super) env: Option<BTreeMap<String, String>>,
    /// vLLM: its loopback port; the servers of a "servers" layout count up from it. Default: a free
    /// one.
    pub(super) port: Option<i64>,
    /// vLLM: "always", or "on-demand" (with the first request). Default "always".
    pub(super) start: Option<Start>,
    /// vLLM on demand: seconds without a request after which it is stopped. Default 1800.
    pub(super) idle_stop_s: Option<i64>,
    /// vLLM: seconds that a start may take. Default 1800.
    pub(super) start_s_max: Option<i64>,
}

/// How replicas are spread over vLLM servers.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Layout {
    /// One server; the replicas are its data-parallel ranks.
    Ranks,
    /// One server per replica.
    Servers,
}

/// When an engine is started.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Start {
    /// With the warden.
    Always,
    /// With the first request.
    OnDemand,
}

/// How conversations are routed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Routing {
    /// Whether conversations return to the replica that served them. Default true.
    pub(super) affinity: Option<bool>,
    /// Requests in flight on a replica above which its conversations spill: "auto" (a quarter of
    /// `max_num_seqs`) or a number. Default "auto".
    pub(super) spill_threshold: Option<Threshold>,
    /// Whether conversations may be made to wait where their contexts outgrow the caches: "auto" (where
    /// affinity demonstrably thrashes) or "off". Default "auto".
    pub(super) leases: Option<Leases>,
    /// Turns that a conversation keeps its place in a cache while others wait: "auto" (3) or a number.
    /// Default "auto".
    pub(super) lease_turns: Option<Turns>,
    /// Longest wait, in seconds, that a request is let into by its prediction; twice that for streams.
    /// Past it requests get 429. Default 240.
    pub(super) queue_wait_s_max: Option<i64>,
    /// Seconds without a request after which a conversation is forgotten. Default 3600.
    pub(super) session_idle_s: Option<i64>,
}

/// Whether leases may be used.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Leases {
    /// Where affinity demonstrably thrashes.
    Auto,
    /// Never.
    Off,
}

/// "auto" or a number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "lease_turns must be \"auto\" or a whole number of turns"
)]
pub(super) enum Turns {
    Turns(i64),
    Word(String),
}

/// "auto" or a number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "spill_threshold must be \"auto\" or a whole number of requests"
)]
pub(super) enum Threshold {
    Requests(i64),
    Word(String),
}
