//! Runs a real etcd server, Debian's `etcd-server`, for one test.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// A server in a temporary folder. Dropping the value kills it, even after a panic.
pub(crate) struct Etcd {
    child: Option<Child>,
    folder: PathBuf,
    port: u16,
    arguments: Vec<String>,
    scheme: &'static str,
}

impl Etcd {
    /// A running server. Without etcd on this host, prints a message and returns `None`.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with("http", |_| Vec::new()).await
    }

    /// As [`start`](Self::start), with more arguments for etcd. The arguments may name files in the
    /// server's folder.
    pub(crate) async fn start_with(
        scheme: &'static str,
        arguments: impl Fn(&Path) -> Vec<String>,
    ) -> Option<Self> {
        let installed =
            Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_ok();
        if !installed {
            assert!(
                std::env::var_os("CI_REFUSES_SKIPS").is_none(),
                "etcd is missing: apt-get install etcd-server"
            );
            eprintln!("skipped: etcd is missing (Debian package etcd-server)");
            return None;
        }
        let folder = folder();
        let arguments = arguments(&folder);
        let mut server = Self { child: None, folder, port: free_port(), arguments, scheme };
        for _ in 0..ATTEMPTS {
            if server.started().await {
                return Some(server);
            }
            let _ = fs::remove_dir_all(server.folder.join("data"));
            server.port = free_port();
        }
        panic!("etcd does not start:\n{}", server.log());
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts the process again with its existing data.
    pub(crate) async fn run(&mut self) {
        for _ in 0..ATTEMPTS {
            if self.started().await {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
        panic!("etcd does not start again:\n{}", self.log());
    }

    /// Starts the process. Returns `false` if it ends because another program has taken its port.
    async fn started(&mut self) -> bool {
        let peers = format!("http://127.0.0.1:{}", free_port());
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(self.folder.join("data"))
            .args(["--listen-client-urls", &self.url(), "--advertise-client-urls", &self.url()])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(self.folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        self.child = Some(child);
        for _ in 0..1000 {
            if self.log().contains("ready to serve client requests") {
                return true;
            }
            if self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.kill();
        false
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Kills the process and removes its data.
    pub(crate) fn lose(&mut self) {
        self.kill();
        fs::remove_dir_all(self.folder.join("data")).unwrap();
    }

    /// Posts `request` to a server without TLS; returns the answer.
    pub(crate) async fn call(&self, path: &str, request: Value) -> Value {
        call(self.port, path, "", request).await
    }

    /// Writes a key directly; returns the revision.
    pub(crate) async fn put(&self, key: &str, value: &[u8]) -> u64 {
        let request = json!({ "key": STANDARD.encode(key), "value": STANDARD.encode(value) });
        revision(&self.call("/v3/kv/put", request).await)
    }

    /// Deletes a key directly.
    pub(crate) async fn delete(&self, key: &str) {
        self.call("/v3/kv/deleterange", json!({ "key": STANDARD.encode(key) })).await;
    }

    /// The value of a key, as text.
    pub(crate) async fn get(&self, key: &str) -> Option<String> {
        let answer = self.call("/v3/kv/range", json!({ "key": STANDARD.encode(key) })).await;
        let value = answer["kvs"][0]["value"].as_str()?;
        Some(String::from_utf8(STANDARD.decode(value).unwrap()).unwrap())
    }

    /// Compacts all history before the current revision.
    pub(crate) async fn compact(&self) {
        let now =
            revision(&self.call("/v3/kv/range", json!({ "key": STANDARD.encode("x") })).await);
        self.call("/v3/kv/compaction", json!({ "revision": now.to_string() })).await;
    }
}

/// Posts `request` with a login token to a server on loopback.
pub(crate) async fn call(port: u16, path: &str, token: &str, request: Value) -> Value {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let body = request.to_string();
    let token =
        if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
    let head = format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\n{token}\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{path}: {answer}");
    serde_json::from_str(body).unwrap()
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Number of attempts to start a server. Another program may take a free port first.
const ATTEMPTS: usize = 10;

fn revision(answer: &Value) -> u64 {
    answer["header"]["revision"].as_str().unwrap().parse().unwrap()
}

fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder =
        std::env::temp_dir().join(format!("tidegate-etcd-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port at which no program listens.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
