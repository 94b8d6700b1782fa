//! Four mock replicas, each a process that can be killed, stopped and started again at its address,
//! and a warden before them.

use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, ensure};

use crate::{client::Sessions, mock::Child, target::Target};

/// Replicas of a trial, as the peers were measured with.
pub(crate) const REPLICAS: usize = 4;

/// See the module.
pub(crate) struct Fleet {
    pub(crate) warden: Target,
    engines: Vec<Option<Child>>,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Fleet {
    pub(crate) async fn start(binary: &Path) -> anyhow::Result<Self> {
        let engines: Vec<Child> = (0..REPLICAS)
            .map(|_| Child::start(1))
            .collect::<anyhow::Result<_>>()?;
        let addresses: Vec<SocketAddr> = engines.iter().map(|child| child.ports[0]).collect();
        let warden = Target::warden(&addresses, binary).await?;
        Ok(Self {
            warden,
            engines: engines.into_iter().map(Some).collect(),
            addresses,
        })
    }

    /// Makes a key for each of so many owners, and waits until the warden knows them.
    pub(crate) async fn make_keys(
        &self,
        binary: &Path,
        owners: usize,
    ) -> anyhow::Result<Vec<String>> {
        let data_dir = self.warden.dir().context("the warden has a folder")?;
        let keys = (0..owners)
            .map(|owner| key(binary, data_dir, &format!("owner-{owner}")))
            .collect::<anyhow::Result<Vec<_>>>()?;
        // Where the last one is known, all are.
        let last = Sessions::of(keys[keys.len() - 1..].to_vec(), 1).caller(0);
        self.warden.answers(&last).await?;
        Ok(keys)
    }

    /// kill -9.
    pub(crate) fn kill(&mut self, replica: usize) {
        self.engines[replica] = None;
    }

    /// Starts a killed one again where it was.
    pub(crate) async fn restart(&mut self, replica: usize) -> anyhow::Result<()> {
        let address = self.addresses[replica];
        // The kernel may still hold the port for a moment.
        for _ in 0..50 {
            if let Ok(child) = Child::start_at(address) {
                self.engines[replica] = Some(child);
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("no mock engine could be started again at {address}")
    }

    /// Stops it in mid-step, as a hung driver does: it listens, and nothing moves.
    pub(crate) fn wedge(&self, replica: usize) -> anyhow::Result<()> {
        self.engine(replica)?.signal("-STOP")
    }

    pub(crate) fn unwedge(&self, replica: usize) -> anyhow::Result<()> {
        self.engine(replica)?.signal("-CONT")
    }

    fn engine(&self, replica: usize) -> anyhow::Result<&Child> {
        self.engines[replica].as_ref().context("it was killed")
    }
}

fn key(binary: &Path, data_dir: &Path, name: &str) -> anyhow::Result<String> {
    let made = Command::new(binary)
        .args(["key", "add", "--json", "--name", name])
        .arg("--data-dir")
        .arg(data_dir)
        .output()?;
    let told = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "no key could be made: {told}");
    let made: serde_json::Value = serde_json::from_slice(&made.stdout)?;
    let key = made["key"].as_str().context("a key is told once")?;
    Ok(key.to_owned())
}
