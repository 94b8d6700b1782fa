//! `lm-warden reload`: the configuration is read again, and what that changed is said.

use super::{Client, ClientError, out};

/// Asks for it, and prints what changed.
pub async fn run(client: &Client) -> Result<(), ClientError> {
    let body = client.post("/api/v1/reload").await?;
    let reloaded: api::Reloaded = client.parse(&body)?;
    out(&render(&reloaded));
    Ok(())
}

fn render(reloaded: &api::Reloaded) -> String {
    let line = |what: &str, models: &[String]| match models {
        [] => String::new(),
        models => format!("{what}: {}\n", models.join(", ")),
    };
    let text = line("routing changed", &reloaded.routing)
        + &line(
            "engines restart with their new settings",
            &reloaded.restarted,
        );
    if text.is_empty() {
        return "no routing has changed, and no engine has to restart\n".to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_said_by_model() {
        let reloaded = |routing: &[&str], restarted: &[&str]| api::Reloaded {
            routing: routing.iter().map(ToString::to_string).collect(),
            restarted: restarted.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(
            render(&reloaded(&[], &[])),
            "no routing has changed, and no engine has to restart\n"
        );
        assert_eq!(
            render(&reloaded(&["a", "b"], &["b"])),
            "routing changed: a, b\nengines restart with their new settings: b\n"
        );
    }
}
