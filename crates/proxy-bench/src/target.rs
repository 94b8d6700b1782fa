//! The proxies under comparison: their configurations, and how they are started.
//!
//! All do the same work: four replicas on their own URLs, chosen by the session header, upstream
//! connections kept alive, streams passed on as they arrive. nginx's body buffer is larger than any
//! body here, so that it never writes one to disk.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::body;
use crate::client::{Caller, Connection, Sessions};
use crate::process::Running;

/// One way to reach the mock engine.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// None where no proxy stands between.
    pub(crate) process: Option<Running>,
    /// Holds its configuration, its log, and the data of lm-warden.
    dir: Option<tempfile::TempDir>,
}

/// Writes a proxy's configuration into a folder and returns the command that serves it.
type Setup = fn(&Path, SocketAddr, &[SocketAddr], &Path) -> anyhow::Result<Command>;

impl Target {
    /// Starts all targets (or those named in `only`) and waits until each answers. A proxy whose
    /// program is missing is left out, with a line on stderr.
    pub(crate) async fn start_all(
        engine: &[SocketAddr],
        warden: &Path,
        only: &[String],
    ) -> anyhow::Result<Vec<Self>> {
        let direct = *engine.first().context("the mock engine has no port")?;
        let mut targets = vec![Self {
            name: "direct",
            address: direct,
            process: None,
            dir: None,
        }];
        let setups: [(&'static str, Setup); 3] = [
            ("nginx", nginx),
            ("haproxy", haproxy),
            ("lm-warden", lm_warden),
        ];
        for (name, setup) in setups {
            if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
                continue;
            }
            match Self::start(name, setup, engine, warden).await {
                Ok(target) => targets.push(target),
                Err(error) => eprintln!("SKIPPED: {name}: {error:#}"),
            }
        }
        Ok(targets)
    }

    /// lm-warden alone, before these engines.
    pub(crate) async fn warden(engines: &[SocketAddr], binary: &Path) -> anyhow::Result<Self> {
        Self::start("lm-warden", lm_warden, engines, binary).await
    }

    /// Where its files are.
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_ref().map(tempfile::TempDir::path)
    }

    async fn start(
        name: &'static str,
        setup: Setup,
        engine: &[SocketAddr],
        warden: &Path,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = dir.path().join("log");
        let process = Running::start(&mut setup(dir.path(), address, engine, warden)?, &log)?;
        let target = Self {
            name,
            address,
            process: Some(process),
            dir: Some(dir),
        };
        let anybody = Sessions::new(1).caller(0);
        match target.answers(&anybody).await {
            Ok(()) => Ok(target),
            Err(error) => bail!(
                "{error:#}\n{}",
                std::fs::read_to_string(log).unwrap_or_default()
            ),
        }
    }

    /// Waits until it answers this caller, for 10 s at most.
    pub(crate) async fn answers(&self, caller: &Caller) -> anyhow::Result<()> {
        let body = body::messages(1_000, false);
        let mut last = None;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let answered = async {
                Connection::open(self.address)
                    .await?
                    .turn(caller, &body)
                    .await
            };
            match answered.await {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(last
            .context("never tried")?
            .context("not ready within 10 s"))
    }
}

fn nginx(
    dir: &Path,
    listen: SocketAddr,
    engine: &[SocketAddr],
    _: &Path,
) -> anyhow::Result<Command> {
    let servers: Vec<String> = engine.iter().map(|at| format!("server {at};")).collect();
    let servers = servers.join("\n    ");
    let user = if is_root() { "user root;" } else { "" };
    let here = dir.display();
    let config = format!(
        "daemon off;\nworker_processes auto;\n{user}\npid {here}/pid;\nerror_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 1000000;
  client_body_buffer_size 2m;
  client_max_body_size 64m;
  client_body_temp_path {here}/body;
  proxy_temp_path {here}/proxy;
  fastcgi_temp_path {here}/fastcgi;
  uwsgi_temp_path {here}/uwsgi;
  scgi_temp_path {here}/scgi;
  upstream engine {{
    hash $http_x_claude_code_session_id consistent;
    {servers}
    keepalive 256;
    keepalive_requests 1000000;
  }}
  server {{
    listen {listen} backlog=1024;
    tcp_nodelay on;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}\n"
    );
    let path = dir.join("nginx.conf");
    std::fs::write(&path, config)?;
    let mut command = Command::new(in_sbin("nginx"));
    command.arg("-c").arg(path).arg("-p").arg(dir);
    Ok(command)
}

fn haproxy(
    dir: &Path,
    listen: SocketAddr,
    engine: &[SocketAddr],
    _: &Path,
) -> anyhow::Result<Command> {
    let servers: Vec<String> = engine
        .iter()
        .enumerate()
        .map(|(at, address)| format!("  server replica{at} {address}"))
        .collect();
    let servers = servers.join("\n");
    let config = format!(
        "global\n  maxconn 4096\n
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  option http-no-delay
  http-reuse always
frontend in
  bind {listen}
  default_backend engine
backend engine
  balance hdr(x-claude-code-session-id)
  hash-type consistent
{servers}
"
    );
    let path = dir.join("haproxy.cfg");
    std::fs::write(&path, config)?;
    let mut command = Command::new(in_sbin("haproxy"));
    command.arg("-db").arg("-f").arg(path);
    Ok(command)
}

fn lm_warden(
    dir: &Path,
    listen: SocketAddr,
    engine: &[SocketAddr],
    warden: &Path,
) -> anyhow::Result<Command> {
    let urls: Vec<String> = engine.iter().map(|at| format!("\"http://{at}\"")).collect();
    let config = format!(
        "[server]\nlisten = \"{listen}\"\ndata_dir = \"{}\"\n
[[models]]\nname = \"bench\"\n
[models.engine]\nkind = \"attached\"\nurls = [{}]\nmax_num_seqs = 256\n",
        dir.display(),
        urls.join(", ")
    );
    let path = dir.join("warden.toml");
    std::fs::write(&path, config)?;
    anyhow::ensure!(
        warden.exists(),
        "{} is not built (make build)",
        warden.display()
    );
    let mut command = Command::new(warden);
    command.arg("serve").arg("--config").arg(path);
    Ok(command)
}

/// Debian puts servers where only root's path looks.
fn in_sbin(program: &str) -> String {
    let path = format!("/usr/sbin/{program}");
    if Path::new(&path).exists() {
        path
    } else {
        program.to_owned()
    }
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")))
}
