//! A running `lm-warden serve` for a test, on a free port and in a folder of its own.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::TcpStream;

/// How long a start or a stop may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service; it ends with this value.
pub(crate) struct Service {
    child: Child,
    pub(crate) address: SocketAddr,
    dir: tempfile::TempDir,
}

impl Service {
    /// Starts it with these `[[models]]` and waits until one of them serves.
    pub(crate) async fn start(models: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let config = dir.path().join("warden.toml");
        let data_dir = dir.path().join("data");
        let server = format!(
            "[server]\nlisten = \"{address}\"\ndata_dir = \"{}\"\n",
            data_dir.display()
        );
        std::fs::write(&config, server + models).expect("a written config");
        let log = File::create(dir.path().join("log")).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_lm-warden"))
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a started service");
        let mut service = Self {
            child,
            address,
            dir,
        };
        service.wait_ready().await;
        service
    }

    async fn wait_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let ready = || {
            Request::get("/ready")
                .body(Full::default())
                .expect("a request")
        };
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                let log = std::fs::read_to_string(self.dir.path().join("log"));
                panic!(
                    "lm-warden ended while it started: {status}\n{}",
                    log.unwrap_or_default()
                );
            }
            if let Ok(reply) = self.try_send(ready()).await
                && reply.status() == StatusCode::OK
            {
                return;
            }
            assert!(Instant::now() < deadline, "not ready within {PATIENCE:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends a request on a connection of its own and reads the whole reply.
    /// The JSON at a path of the operators' API.
    pub(crate) async fn get(&self, path: &str) -> serde_json::Value {
        let request = Request::get(path).body(Full::default());
        let reply = self.send(request.expect("a request")).await;
        assert_eq!(reply.status(), StatusCode::OK, "{path}");
        serde_json::from_slice(reply.body()).expect("JSON")
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Bytes> {
        self.try_send(request).await.expect("a whole reply")
    }

    async fn try_send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let host = self.address.to_string().parse().expect("a header");
        request.headers_mut().insert("host", host);
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        connection.abort();
        Ok(Response::from_parts(parts, body))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Asked, not killed: its simulated engines end with it only if it ends them.
        let pid = i32::try_from(self.child.id()).expect("a pid");
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
