//! `lm-warden logs`: an engine's last lines, and those that follow.

use std::time::Duration;

use super::{Client, ClientError, out};
use crate::fetch::path_segment;

/// How often a follower asks.
const INTERVAL: Duration = Duration::from_millis(500);
/// Lines asked for at once while following.
const LINES_MAX: u16 = 2000;

/// Prints the last lines of a model's engine; with `follow`, the next ones until it is interrupted.
pub async fn print(
    client: &Client,
    model: Option<&str>,
    lines: u16,
    follow: bool,
) -> Result<(), ClientError> {
    let models = client.models().await?.models;
    let known = || models.iter().map(|model| model.name.as_str());
    let name = match model {
        None => known().next().unwrap_or_default(),
        Some(asked) => {
            known()
                .find(|name| *name == asked)
                .ok_or_else(|| ClientError::UnknownModel {
                    asked: asked.to_owned(),
                    known: known().collect::<Vec<_>>().join(", "),
                })?
        }
    };
    let path = format!("/api/v1/models/{}/logs", path_segment(name));
    let (mut after, mut limit) = (0, lines);
    loop {
        let body = client
            .bytes(&format!("{path}?after={after}&limit={limit}"))
            .await?;
        let logs: api::Logs = client.parse(&body)?;
        out(&render(&logs));
        after = logs.lines.last().map_or(after, |line| line.number);
        limit = LINES_MAX;
        if !follow {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// Lines as they are; where several servers print, each begins with its number.
fn render(logs: &api::Logs) -> String {
    let several = logs.lines.iter().any(|line| line.server > 0);
    let line = |line: &api::LogLine| {
        if several {
            format!("[server {}] {}\n", line.server, line.text)
        } else {
            format!("{}\n", line.text)
        }
    };
    logs.lines.iter().map(line).collect()
}
