//! What the user asked for.

use std::path::PathBuf;

use tokio_rustls::rustls::ClientConfig;

use super::Api;

/// Arguments of `bench ab` and `bench run`, as they were typed.
#[derive(Debug, Clone)]
pub struct BenchRequest {
    /// The server, such as `http://127.0.0.1:8484`.
    pub url: String,
    /// Whom to trust where the URL is an `https` one.
    pub tls: ClientConfig,
    /// The key to ask it with.
    pub key: Option<String>,
    /// The model.
    pub model: String,
    /// Which API the sessions speak.
    pub api: Api,
    /// Sessions in parallel, one stage each.
    pub sessions: Vec<u32>,
    /// Sessions an hour that arrive on their own, one stage each; instead of `sessions`.
    pub rate: Vec<u32>,
    /// Length of a stage, e.g. `3m`.
    pub stage: String,
    /// How long a stage's last turns may take after it.
    pub drain: String,
    /// The arms in their order: `off`, `on`, `leases`. One arm's runs ignore it.
    pub order: Vec<String>,
    /// How many times the order is run.
    pub repeat: u32,
    /// The same prompts in each arm, as the published run had them.
    pub same_seed: bool,
    /// Decides the prompts; drawn where `None`, so that no run finds another's prompts cached.
    pub seed: Option<u64>,
    /// Recorded shapes to replay.
    pub trace: Option<PathBuf>,
    /// Tokens at which a replayed session ends; default: what the model takes.
    pub context: Option<String>,
    /// Factor on a replay's pauses.
    pub time_scale: Option<f64>,
    /// Sizes of a synthetic session.
    pub shape: Shape,
}

/// Sizes of a synthetic session, tokens; the default is the published measurement's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// System prompt, the same for all sessions.
    pub shared_tokens: u32,
    /// Own first message.
    pub first_tokens: u32,
    /// Turns after the first.
    pub further_turns: u32,
    /// New tokens of each.
    pub further_tokens: u32,
    /// Most tokens of an answer.
    pub output_tokens: u32,
}

impl Default for Shape {
    fn default() -> Self {
        let published = sim::workload::Published::default();
        Self {
            shared_tokens: published.shared_tokens,
            first_tokens: published
                .first_tokens_min
                .midpoint(published.first_tokens_max),
            further_turns: published.further_turns,
            further_tokens: published.further_tokens,
            output_tokens: published.output_tokens,
        }
    }
}
