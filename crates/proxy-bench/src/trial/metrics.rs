//! What lm-warden counts, read from its `/metrics`.

use std::net::SocketAddr;

use anyhow::Context as _;

use crate::client::Connection;

/// One scrape.
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) async fn of(warden: SocketAddr) -> anyhow::Result<Self> {
        let body = Connection::open(warden).await?.get("/metrics").await?;
        Ok(Self(String::from_utf8(body.to_vec()).context("no text")?))
    }

    /// Sum of a family's samples, of those whose labels hold this text.
    pub(crate) fn sum(&self, family: &str, labels: &str) -> u64 {
        let samples = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix(family)?;
            let (with, value) = rest.strip_prefix('{')?.rsplit_once("} ")?;
            with.contains(labels).then(|| value.parse::<f64>().ok())?
        });
        samples.sum::<f64>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn samples_of_a_family_add_up() {
        let text = "# HELP a x\na{model=\"m\",status=\"200\"} 3\na{status=\"499\"} 2\nab{status=\"200\"} 9\n";
        let metrics = Metrics(text.to_owned());
        assert_eq!(metrics.sum("a", ""), 5);
        assert_eq!(metrics.sum("a", "status=\"200\""), 3);
    }
}
