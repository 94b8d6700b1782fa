//! A vLLM engine's settings, resolved.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Serialize;

use super::model::{Secret, as_seconds};

/// A vLLM that the warden starts and supervises.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Vllm {
    /// The model to load.
    pub model: String,
    /// The vllm program: a path, or a name in `PATH`.
    pub executable: PathBuf,
    /// `--dtype`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Replicas.
    pub data_parallel_size: u16,
    /// Cards per replica.
    pub tensor_parallel_size: u16,
    /// Concurrent sequences per replica.
    pub max_num_seqs: u32,
    /// Cards; `None` leaves the choice to vLLM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Vec<u32>>,
    /// How the replicas are spread over servers.
    pub layout: Layout,
    /// Host memory per replica for evicted KV cache, GiB.
    pub kv_offload_gib: u32,
    /// `--tool-call-parser`; "off" is `None`.
    #[serde(serialize_with = "or_off")]
    pub tool_call_parser: Option<String>,
    /// Further arguments.
    pub args: Vec<String>,
    /// Further environment variables.
    pub env: BTreeMap<String, String>,
    /// Loopback port of the (first) server; `None` is a free one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// When it is started.
    pub start: Start,
    /// Idle time after which an engine on demand is stopped; `None` for one that always runs.
    #[serde(
        rename = "idle_stop_s",
        serialize_with = "in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub idle_stop: Option<Duration>,
    /// How long a start may take.
    #[serde(rename = "start_s_max", serialize_with = "as_seconds")]
    pub start_max: Duration,
    /// Name of the variable with the engine's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The key itself; never printed.
    #[serde(skip)]
    pub api_key: Option<Secret>,
}

impl Vllm {
    /// How many vLLM servers there are.
    pub fn servers(&self) -> u16 {
        match self.layout {
            Layout::Ranks => 1,
            Layout::Servers => self.data_parallel_size,
        }
    }

    /// The cards it uses: as configured, or those that vLLM takes by itself.
    pub fn cards(&self) -> Vec<u32> {
        let count = u32::from(self.data_parallel_size) * u32::from(self.tensor_parallel_size);
        match &self.gpus {
            Some(gpus) => gpus.iter().copied().take(count as usize).collect(),
            None => (0..count).collect(),
        }
    }

    /// Data-parallel ranks of each server.
    pub fn ranks_per_server(&self) -> u16 {
        match self.layout {
            Layout::Ranks => self.data_parallel_size,
            Layout::Servers => 1,
        }
    }
}

/// How replicas are spread over vLLM servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// One server; the replicas are its data-parallel ranks and live and die together.
    Ranks,
    /// One server per replica.
    Servers,
}

/// When an engine is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// With the warden.
    Always,
    /// With the first request.
    OnDemand,
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn or_off<S: serde::Serializer>(parser: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(parser.as_deref().unwrap_or("off"))
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn in_seconds<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    as_seconds(&duration.unwrap_or_default(), serializer)
}
