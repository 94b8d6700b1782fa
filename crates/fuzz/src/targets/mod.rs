//! One file per kind of bytes.

mod config;
mod headers;
mod metrics;
mod reply;
mod request;

/// A kind of outside bytes and what must hold of them.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its folder of kept inputs.
    pub name: &'static str,
    /// Panics where a law is broken.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    Target {
        name: "request",
        run: request::run,
    },
    Target {
        name: "reply",
        run: reply::run,
    },
    Target {
        name: "headers",
        run: headers::run,
    },
    Target {
        name: "metrics",
        run: metrics::run,
    },
    Target {
        name: "startup",
        run: headers::startup,
    },
    Target {
        name: "config",
        run: config::run,
    },
    Target {
        name: "journal",
        run: warden::fuzzing::journal,
    },
    Target {
        name: "record",
        run: warden::fuzzing::engine_record,
    },
];
