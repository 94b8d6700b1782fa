//! `lm-warden engine` as a process of its own.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use serde_json::Value;

use super::{Url, binary};

/// A running engine. Its standard input is a pipe, so that it ends with the test whatever befalls that.
pub(crate) struct EngineProcess {
    pub(crate) child: Child,
    pub(crate) url: Url,
}

impl EngineProcess {
    /// Starts it and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = binary()
            .args(["engine", "--exit-with-stdin"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        let url = Url(ready["listening"].as_str().unwrap().to_owned());
        Self { child, url }
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
