//! Idle connections by address, kept for less time than the engine keeps them.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Waker},
    time::Duration,
};

use http::HeaderValue;
use tokio::time::Instant;

use super::{Link, Network, scarcity::is_ours};

/// Bounds of the pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolSettings {
    /// How long a connection may lie idle. vLLM's server closes it after 5 s; one that we close
    /// first can never be found stale.
    pub idle_max: Duration,
    /// Idle connections kept per address; a further one is closed.
    pub idle_per_target_max: usize,
    /// How long a connect may take.
    pub connect_timeout: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            idle_max: Duration::from_secs(4),
            idle_per_target_max: 256,
            connect_timeout: Duration::from_secs(3),
        }
    }
}

/// Why no connection could be made. Another replica may be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The configured address is none: ours to report, no retry helps.
    #[error("\"{url}\" is not an address of the form http://host:port")]
    Address {
        /// As configured.
        url: String,
    },
    /// Refused, unreachable, or no such host.
    #[error("cannot connect to {authority}: {source}")]
    Io {
        /// Host and port.
        authority: String,
        /// What the system said.
        source: io::Error,
    },
    /// Ours: this process can open no further connection. Says nothing of the replica.
    #[error("no further connection can be opened here at the moment: {source}")]
    Scarcity {
        /// What the system said.
        source: io::Error,
    },
    /// No answer in time.
    #[error("no connection to {authority} within {timeout:?}")]
    Timeout {
        /// Host and port.
        authority: String,
        /// The bound.
        timeout: Duration,
    },
}

/// One engine address.
#[derive(Debug)]
pub struct Target {
    host: Box<str>,
    port: u16,
    authority: HeaderValue,
    settings: PoolSettings,
    network: Network,
    /// Most recently used last.
    idle: Mutex<Vec<(Instant, Box<Link>)>>,
}

impl Target {
    fn parse(url: &str, settings: PoolSettings, network: Network) -> Option<Self> {
        let authority = url.strip_prefix("http://")?.trim_end_matches('/');
        let parsed: http::uri::Authority = authority.parse().ok()?;
        Some(Self {
            host: parsed.host().trim_matches(['[', ']']).into(),
            port: parsed.port_u16().unwrap_or(80),
            authority: HeaderValue::from_str(authority).ok()?,
            settings,
            network,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// What to send as `Host`.
    pub fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    /// A connection that was used before and still looks open, if there is one.
    pub fn reuse(&self) -> Option<Box<Link>> {
        // Nobody waits on an idle connection, so whether the engine has closed it is asked here.
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let (since, mut link) = self.take()?;
            if since.elapsed() < self.settings.idle_max && link.is_idle(&mut cx) {
                link.mark_reused();
                return Some(link);
            }
        }
    }

    /// The connection used last, of the caller's own thread if it has any.
    fn take(&self) -> Option<(Instant, Box<Link>)> {
        let mut idle = self.idle();
        match idle.iter().rposition(|(_, link)| link.is_at_home()) {
            Some(index) => Some(idle.remove(index)),
            None => idle.pop(),
        }
    }

    /// A fresh connection.
    pub async fn connect(&self) -> Result<Box<Link>, ConnectError> {
        let connect = async {
            let stream = self.network.connect(&self.host, self.port).await?;
            Link::open(stream).await.map_err(io::Error::other)
        };
        let timeout = self.settings.connect_timeout;
        match tokio::time::timeout(timeout, connect).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(source)) if is_ours(&source) => Err(ConnectError::Scarcity { source }),
            Ok(Err(source)) => Err(ConnectError::Io {
                authority: self.name(),
                source,
            }),
            Err(_) => Err(ConnectError::Timeout {
                authority: self.name(),
                timeout,
            }),
        }
    }

    fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Takes back a connection that is ready for another request.
    pub(super) fn put(&self, link: Box<Link>) {
        let mut idle = self.idle();
        if idle.len() < self.settings.idle_per_target_max {
            idle.push((Instant::now(), link));
        }
    }

    /// Closes what has been idle too long; false when nothing is left.
    fn sweep(&self) -> bool {
        let mut idle = self.idle();
        let fresh = idle.partition_point(|(since, _)| since.elapsed() >= self.settings.idle_max);
        idle.drain(..fresh);
        !idle.is_empty()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Instant, Box<Link>)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All addresses.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    network: Network,
    targets: Mutex<HashMap<Box<str>, Arc<Target>>>,
}

impl Pool {
    /// An empty pool. Needs a running runtime: a small task closes idle connections, until the
    /// pool is dropped.
    pub fn new(settings: PoolSettings) -> Arc<Self> {
        Self::over(settings, Network::Tcp)
    }

    /// The same, its connections made over this network.
    pub fn over(settings: PoolSettings, network: Network) -> Arc<Self> {
        let pool = Arc::new(Self {
            settings,
            network,
            targets: Mutex::new(HashMap::new()),
        });
        tokio::spawn(sweep_every_second(Arc::downgrade(&pool)));
        pool
    }

    /// The address behind a replica's URL.
    pub fn target(&self, url: &str) -> Result<Arc<Target>, ConnectError> {
        let mut targets = self.targets();
        if let Some(target) = targets.get(url) {
            return Ok(Arc::clone(target));
        }
        let Some(target) = Target::parse(url, self.settings, self.network.clone()) else {
            return Err(ConnectError::Address {
                url: url.to_owned(),
            });
        };
        let target = Arc::new(target);
        targets.insert(url.into(), Arc::clone(&target));
        Ok(target)
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Target>>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Engines come back on new ports, so an address without connections and users is forgotten.
    fn sweep(&self) {
        self.targets()
            .retain(|_, target| target.sweep() || Arc::strong_count(target) > 1);
    }
}

async fn sweep_every_second(pool: Weak<Pool>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tick.tick().await;
        let Some(pool) = pool.upgrade() else { return };
        pool.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |url: &str, expected: Option<(&str, u16, &str)>| {
            let target = Target::parse(url, PoolSettings::default(), Network::Tcp);
            let found = target
                .as_ref()
                .map(|t| (&*t.host, t.port, t.authority.to_str().unwrap()));
            assert_eq!(found, expected, "{url}");
        };
        check(
            "http://127.0.0.1:8000",
            Some(("127.0.0.1", 8000, "127.0.0.1:8000")),
        );
        check("http://gpu-box/", Some(("gpu-box", 80, "gpu-box")));
        check("http://[::1]:8000", Some(("::1", 8000, "[::1]:8000")));
        check("https://gpu-box:8000", None);
        check("gpu-box:8000", None);
        check("http://gpu-box:8000/path", None);
        check("http://", None);
    }
}
