//! The environment that points Claude Code at a warden.
//!
//! Every model name that it may ask for is set to the same model, its own telemetry is off, and two
//! settings serve the prefix cache: no billing block at the start of the prompt (it changes with
//! every request in some versions), and headers that tell main turns from side requests.

use super::{Client, ClientError};

/// A variable and its value.
pub type Variable = (&'static str, String);

/// The environment for a model, or for the first one that the warden serves.
pub async fn environment(
    client: &Client,
    model: Option<&str>,
) -> Result<Vec<Variable>, ClientError> {
    let served = client.models().await?.models;
    let model = choose(&served, model)?;
    Ok(variables(client.url(), model))
}

/// The name to ask for: any that the warden answers to.
fn choose<'a>(served: &'a [api::Model], asked: Option<&'a str>) -> Result<&'a str, ClientError> {
    let unknown = |asked: &str| ClientError::UnknownModel {
        asked: asked.to_owned(),
        known: known(served),
    };
    let Some(asked) = asked else {
        let first = served.first().map(|model| model.name.as_str());
        return first.ok_or_else(|| unknown(""));
    };
    let answers = served.iter().any(|model| {
        model.name == asked
            || model
                .aliases
                .iter()
                .any(|alias| match alias.strip_suffix('*') {
                    Some(begin) => asked.starts_with(begin),
                    None => alias == asked,
                })
    });
    if answers {
        Ok(asked)
    } else {
        Err(unknown(asked))
    }
}

fn known(served: &[api::Model]) -> String {
    let names: Vec<&str> = served
        .iter()
        .flat_map(|model| std::iter::once(&model.name).chain(&model.aliases))
        .map(String::as_str)
        .collect();
    names.join(", ")
}

fn variables(url: &str, model: &str) -> Vec<Variable> {
    let fixed = |name, value: &str| (name, value.to_owned());
    vec![
        fixed("ANTHROPIC_BASE_URL", url),
        // Claude Code starts only with a key, and the warden takes any while it has none.
        fixed("ANTHROPIC_AUTH_TOKEN", "none"),
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
    ]
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
