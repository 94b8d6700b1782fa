//! What signals mean to the service. SIGTERM drains and leaves vLLM to the next warden; so does
//! SIGINT, unless it comes from a terminal, where it means "end all of it"; a second one ends at
//! once. SIGHUP reads the configuration and the certificate again.

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};

use super::notify::Notifier;
use crate::{
    gateway::{DrainHandle, Drained, Tls},
    reload::Reloader,
    supervisor::Supervisor,
};

/// The signals, asked for before anything else, so that none is missed.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    End,
    Interrupt,
    Reload,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Wanted {
        tokio::select! {
            _ = self.terminate.recv() => Wanted::End,
            _ = self.interrupt.recv() => Wanted::Interrupt,
            _ = self.hangup.recv() => Wanted::Reload,
        }
    }

    async fn end(&mut self) {
        while self.next().await == Wanted::Reload {}
    }
}

/// Follows the signals.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) signals: Signals,
    pub(super) handle: DrainHandle,
    pub(super) reloader: Arc<Reloader>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) stops_engines: bool,
}

impl Follower {
    /// Serves until the service has drained; `None` where it ended by itself, which is a bug.
    pub(super) async fn until(&mut self, served: &mut JoinHandle<Drained>) -> Option<Drained> {
        let mut is_draining = false;
        loop {
            let wanted = tokio::select! {
                drained = &mut *served => return drained.ok(),
                wanted = self.signals.next() => wanted,
            };
            match wanted {
                Wanted::Reload => self.reload(),
                Wanted::End | Wanted::Interrupt if is_draining => {
                    tracing::warn!("second signal: ending at once");
                    self.handle.abort();
                }
                Wanted::End | Wanted::Interrupt => {
                    is_draining = true;
                    let at_terminal = wanted == Wanted::Interrupt && io::stdin().is_terminal();
                    self.stops_engines |= at_terminal;
                    self.notifier.stopping();
                    self.handle.drain();
                }
            }
        }
    }

    fn reload(&self) {
        let (reloader, notifier) = (Arc::clone(&self.reloader), Arc::clone(&self.notifier));
        let tls = self.tls.clone();
        notifier.reloading();
        tokio::task::spawn_blocking(move || {
            if let Some(tls) = tls {
                tls.read_again();
            }
            if let Err(error) = reloader.reload() {
                tracing::error!("SIGHUP: {error}");
            }
            notifier.ready();
        });
    }

    /// Stops the engines, or leaves them. Another signal stops waiting for them.
    pub(super) async fn end(&mut self, supervisor: &Supervisor) {
        let stops_engines = self.stops_engines;
        tokio::select! {
            () = supervisor.end(stops_engines) => {}
            () = self.signals.end() => {
                tracing::warn!("another signal: engines that still end are left to do so");
            }
        }
    }
}
