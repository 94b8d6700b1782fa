//! The ports that the warden and its engines need.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use super::{Finding, vllm_engines};
use crate::config::Config;

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![own(config.server.listen)];
    for (model, engine) in vllm_engines(config) {
        let Some(first) = engine.port else {
            continue;
        };
        for port in first..first + engine.servers() {
            findings.push(engines(model, port));
        }
    }
    findings
}

fn own(address: SocketAddr) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok("port", format!("{address} is free for the warden")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Finding::warning(
            "port",
            format!("{address} is in use"),
            "that is as it should be where lm-warden runs already (lm-warden status); otherwise end what listens there, or set server.listen",
        ),
        Err(error) => Finding::problem(
            "port",
            format!("{address} cannot be listened on ({error})"),
            "set server.listen to an address of this machine and a port over 1023",
        ),
    }
}

fn engines(model: &str, port: u16) -> Finding {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Finding::ok(
            "port",
            format!("{port} is free for vLLM of model \"{model}\""),
        ),
        Err(error) => Finding::warning(
            "port",
            format!("{port}, for vLLM of model \"{model}\", is in use ({error})"),
            "that is as it should be where this model runs already; otherwise end what listens there, or leave port out",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_port_in_use_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        assert_eq!(own(address).level, Level::Warning);
        assert_eq!(engines("m", address.port()).level, Level::Warning);
        drop(listener);
        assert_eq!(own(address).level, Level::Ok);
    }
}
