//! The environment that points Claude Code at a warden.
//!
//! Every model name that it may ask for is set to the same model, its own telemetry is off, and two
//! settings serve the prefix cache: no billing block at the start of the prompt (it changes with
//! every request in some versions), and headers that tell main turns from side requests.

use serde::Deserialize;

use super::{Client, ClientError};
use crate::fetch::path_segment;

/// A variable and its value.
pub type Variable = (&'static str, String);

/// What is read of `GET /v1/models`, which a client's key opens as well as an admin's.
#[derive(Deserialize)]
struct Listed {
    data: Vec<Id>,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

/// The environment for a model, or for the first one that the warden serves.
pub async fn environment(
    client: &Client,
    model: Option<&str>,
) -> Result<Vec<Variable>, ClientError> {
    let model = if let Some(asked) = model {
        let path = format!("/v1/models/{}", path_segment(asked));
        let body = client.bytes(&path).await?;
        client.parse::<Id>(&body)?.id
    } else {
        let body = client.bytes("/v1/models").await?;
        let first = client.parse::<Listed>(&body)?.data.into_iter().next();
        first.ok_or(ClientError::NoModel)?.id
    };
    Ok(variables(client, &model))
}

fn variables(client: &Client, model: &str) -> Vec<Variable> {
    let fixed = |name, value: &str| (name, value.to_owned());
    let mut variables = vec![
        fixed("ANTHROPIC_BASE_URL", client.url()),
        // Claude Code starts only with a key, and a warden that requires none takes any.
        fixed("ANTHROPIC_AUTH_TOKEN", client.key().unwrap_or("none")),
        // Else a key of the user's own would be sent here.
        fixed("ANTHROPIC_API_KEY", ""),
        fixed("ANTHROPIC_MODEL", model),
        fixed("ANTHROPIC_SMALL_FAST_MODEL", model),
        fixed("ANTHROPIC_DEFAULT_HAIKU_MODEL", model),
        fixed("ANTHROPIC_DEFAULT_SONNET_MODEL", model),
        fixed("ANTHROPIC_DEFAULT_OPUS_MODEL", model),
        fixed("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
        fixed("CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1"),
        fixed("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        fixed("DISABLE_TELEMETRY", "1"),
    ];
    if let Some(issuers) = client.issuers() {
        let path = std::path::absolute(issuers).unwrap_or_else(|_| issuers.to_owned());
        variables.push(fixed("NODE_EXTRA_CA_CERTS", &path.to_string_lossy()));
    }
    variables
}

/// Lines for a shell to evaluate.
pub fn as_shell(environment: &[Variable]) -> String {
    let line = |(name, value): &Variable| format!("export {name}={}\n", quoted(value));
    let lines: Vec<String> = environment.iter().map(line).collect();
    lines.concat()
}

/// A value as every POSIX shell reads it back.
pub(crate) fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}
