//! What the service manager is told (systemd's `sd_notify` protocol): ready, reloading, stopping, and
//! at the pace that the unit asks for, that the service still lives.
//!
//! "Lives" means that requests can be decided: a heartbeat is sent only after every model's router
//! could be locked. Without a service manager nothing is sent. A message that cannot be sent is
//! logged and no more: what it would have changed is the manager's view, not the service.

use std::{env, ffi::OsStr, io, os::unix::net::UnixDatagram, sync::Arc, time::Duration};

use nix::time::{ClockId, clock_gettime};

use crate::fleet::Fleet;

/// The line to the service manager.
#[derive(Debug)]
pub(super) struct Notifier {
    socket: Option<UnixDatagram>,
    /// A longer silence is taken for a hang.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// As the environment of the process says.
    pub(super) fn from_environment() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|path| {
            let socket = connect(&path);
            if let Err(error) = &socket {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be reached: the service manager hears nothing");
            }
            socket.ok()
        });
        let number = |name| env::var(name).ok().and_then(|text| text.parse().ok());
        let is_meant =
            number("WATCHDOG_PID").is_none_or(|pid: u64| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|us| is_meant && *us > 0);
        Self {
            socket,
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    /// It listens, and engines that were adopted serve.
    pub(super) fn ready(&self) {
        self.send("READY=1");
    }

    /// The configuration is being read again; `ready` ends it.
    pub(super) fn reloading(&self) {
        let now_us = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map(|now| Duration::from(now).as_micros())
            .unwrap_or_default();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// It drains.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Sends heartbeats until this is dropped.
    pub(super) async fn beat(self: Arc<Self>, fleet: Arc<Fleet>) {
        let Some(watchdog) = self.watchdog else {
            return;
        };
        let mut ticks = tokio::time::interval(watchdog / 2);
        loop {
            ticks.tick().await;
            for model in &fleet.models {
                drop(model.router.lock());
            }
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::warn!(%error, message, "the service manager cannot be told");
        }
    }
}

/// A path, or after an `@` a name in Linux's abstract namespace.
fn connect(address: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold the service up.
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = address.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};
        socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?;
        return Ok(socket);
    }
    socket.connect(address)?;
    Ok(socket)
}

#[cfg(test)]
// Clippy takes only the test functions themselves for tests.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    fn line(watchdog: Option<Duration>) -> (UnixDatagram, Notifier) {
        let (manager, socket) = UnixDatagram::pair().unwrap();
        manager
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let socket = Some(socket);
        (manager, Notifier { socket, watchdog })
    }

    fn heard(manager: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn states_are_told_one_by_one() {
        let (manager, notifier) = line(None);
        notifier.ready();
        notifier.reloading();
        notifier.stopping();
        assert_eq!(heard(&manager), "READY=1");
        let reloading = heard(&manager);
        let since_boot_us = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
        assert!(since_boot_us.unwrap().parse::<u64>().unwrap() > 0);
        assert_eq!(heard(&manager), "STOPPING=1");
    }

    #[test]
    fn a_name_in_the_abstract_namespace_and_a_path_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let socket = connect(path.as_os_str()).unwrap();
        socket.send(b"READY=1").unwrap();
        assert_eq!(heard(&manager), "READY=1");
        assert!(connect(OsStr::new("@lm-warden/no-such-name")).is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_heartbeat_stops_while_a_router_is_stuck() {
        let demo = Config::load(None, &Overrides::default()).unwrap();
        let fleet = Arc::new(Fleet::new(&demo, routing::Time(0)));
        let (manager, notifier) = line(Some(Duration::from_millis(2)));
        let stuck = fleet.models[0].router.lock();
        let beats = tokio::spawn(Arc::new(notifier).beat(Arc::clone(&fleet)));
        manager.set_nonblocking(true).unwrap();
        assert!(manager.recv(&mut [0; 16]).is_err());
        manager.set_nonblocking(false).unwrap();
        drop(stuck);
        assert_eq!(heard(&manager), "WATCHDOG=1");
        beats.abort();
    }
}
