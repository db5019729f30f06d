//! Tests the daemon through its socket, with a gateway that has no ports.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::plane::Opened;
use super::seats::Seats;
use super::*;
use crate::api::Classes;
use crate::client;

mod agent;
mod guarantees;
mod limits;
mod occupied;
mod save;
mod slow;
mod trunks;
mod warnings;

const NOTHING: &str = "[gateway]\nlan = \"lan\"\nwan = \"wan\"\n";

/// The policy file `NOTHING` with one more policy, whose mean rate is `mean`.
fn web(mean: &str) -> String {
    format!(
        "{NOTHING}[[policy]]\nname = \"web\"\naction = \"shape\"\nmatch = {{ dst = \"10.0.0.0/8\" }}\n\
         profile = {{ mean = \"{mean}\", burst = \"64 KiB\" }}\n"
    )
}

/// A new folder for one test.
fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = env::temp_dir().join(format!("tidegate-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A daemon that answers on a socket in a folder of its own.
struct Fixture {
    daemon: Arc<Daemon>,
    folder: PathBuf,
    server: JoinHandle<()>,
    /// The connections of its control socket.
    seats: Arc<Seats>,
}

impl Fixture {
    /// A daemon that runs `text`, which is also in its policy file.
    async fn new(text: &str) -> Self {
        Self::with(text, folder(), Opened::default)
    }

    /// As [`new`](Self::new), with other `limits` of connections.
    fn limited(text: &str, limits: Limits) -> Self {
        Self::start(text, folder(), limits, Opened::default)
    }

    /// As [`new`](Self::new), in the folder `folder` and with the ports that `open` opens.
    fn with(text: &str, folder: PathBuf, open: impl FnOnce() -> Opened + Send + 'static) -> Self {
        Self::start(text, folder, Limits::control(1_024), open)
    }

    fn start(
        text: &str,
        folder: PathBuf,
        limits: Limits,
        open: impl FnOnce() -> Opened + Send + 'static,
    ) -> Self {
        let file = folder.join("policy.toml");
        fs::write(&file, text).unwrap();
        let documents = Documents::gather(&file, text.to_owned()).unwrap();
        let agent = Agent::new(Store::new(folder.join("sets")));
        Self::of(documents, folder, limits, open, agent)
    }

    /// A daemon that runs `documents`. `agent` follows their sources.
    fn of(
        documents: Documents,
        folder: PathBuf,
        limits: Limits,
        open: impl FnOnce() -> Opened + Send + 'static,
        agent: Agent,
    ) -> Self {
        let (config, _) = documents.parse(None);
        let installed = Installed::read(documents, config.unwrap()).unwrap();
        let plane = Plane::start(&installed, |_, _, _| Ok(open())).unwrap();
        let daemon = Daemon::new(plane, installed, false, Losses::default(), agent);
        let socket = Socket::open(&folder.join("socket")).unwrap();
        let server = ControlServers::new(daemon.clone(), socket, None, [limits; 2]);
        let seats = server.seats[0].clone();
        let server = tokio::spawn(server.serve());
        Self { daemon, folder, server, seats }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn file(&self) -> PathBuf {
        self.folder.join("policy.toml")
    }

    async fn get<T: DeserializeOwned + Send + 'static>(&self, path: &'static str) -> T {
        let socket = self.socket();
        tokio::task::spawn_blocking(move || client::get(&socket, path)).await.unwrap().unwrap()
    }

    async fn post<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &'static str,
        body: impl Serialize + Send + 'static,
    ) -> anyhow::Result<T> {
        let socket = self.socket();
        tokio::task::spawn_blocking(move || client::post(&socket, path, &body)).await.unwrap()
    }

    async fn change(&self, class: &str, body: Value) -> anyhow::Result<Classes> {
        let (socket, path) = (self.socket(), format!("/v1/classes/{class}"));
        let patch = move || client::patch(&socket, &path, &body);
        tokio::task::spawn_blocking(patch).await.unwrap()
    }

    async fn delete(&self, path: &str) -> anyhow::Result<Classes> {
        let (socket, path) = (self.socket(), path.to_owned());
        tokio::task::spawn_blocking(move || client::delete(&socket, &path)).await.unwrap()
    }

    async fn apply(&self, text: &str, confirm_ms: Option<u64>) -> anyhow::Result<Applied> {
        let proposal = Proposal {
            file: "new.toml".to_owned(),
            text: text.to_owned(),
            included: Vec::new(),
            confirm_ms,
            save: false,
        };
        self.post("/v1/apply", proposal).await
    }

    async fn plan(&self, text: &str) -> Vec<String> {
        let proposal = Proposal {
            file: "new.toml".to_owned(),
            text: text.to_owned(),
            included: Vec::new(),
            confirm_ms: None,
            save: false,
        };
        let plan: Plan = self.post("/v1/plan", proposal).await.unwrap();
        plan.changes.iter().map(ToString::to_string).collect()
    }

    /// Polls the status until `wanted` accepts it.
    async fn until(&self, wanted: impl Fn(&Status) -> bool) -> Status {
        for _ in 0..1_000 {
            let status: Status = self.get("/v1/status").await;
            if wanted(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never came to that")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.server.abort();
        self.daemon.stop();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The error code of a refused request.
fn code<T>(answer: anyhow::Result<T>) -> Code {
    let Err(error) = answer else { panic!("it was not refused") };
    error.downcast::<Failure>().unwrap().code
}

#[tokio::test]
async fn plan_lists_the_changes_that_apply_makes() {
    let fixture = Fixture::new(&web("5 Mbit/s")).await;
    let text = web("8 Mbit/s");
    let change = "~ policy web profile: mean 5 Mbit/s, burst 64 KiB -> mean 8 Mbit/s, burst 64 KiB";
    assert_eq!(fixture.plan(&text).await, [change]);
    let applied = fixture.apply(&text, None).await.unwrap();
    assert_eq!(applied.changes.iter().map(ToString::to_string).collect::<Vec<_>>(), [change]);
    assert_eq!(fixture.plan(&text).await, [""; 0]);
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!((status.generation, status.file.as_str()), (applied.generation, "new.toml"));
    assert_eq!(
        fixture.plan(NOTHING).await,
        [
            "- policy web: ack_control none; action shape; allocation logical-partitions; match dst 10.0.0.0/8; mode \
          enforce; priority 0; profile mean 8 Mbit/s, burst 64 KiB; queue fq-codel"
        ]
    );
}

#[tokio::test]
async fn an_unconfirmed_change_is_rolled_back() {
    let fixture = Fixture::new(NOTHING).await;
    let applied = fixture.apply(&web("5 Mbit/s"), Some(100)).await.unwrap();
    assert_eq!(code(fixture.apply(NOTHING, None).await), Code::Unconfirmed);
    let status = fixture.until(|status| status.unconfirmed_ms.is_none()).await;
    assert_eq!(fixture.plan(NOTHING).await, [""; 0]);
    assert!(status.generation > applied.generation && status.alarms.len() == 1);
    assert_eq!(
        code(fixture.post::<Applied>("/v1/confirm", json!({})).await),
        Code::NothingToConfirm
    );
}

#[tokio::test]
async fn a_confirmed_change_stays() {
    let fixture = Fixture::new(NOTHING).await;
    let text = web("5 Mbit/s");
    fixture.apply(&text, Some(200)).await.unwrap();
    fixture.post::<Applied>("/v1/confirm", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(fixture.plan(&text).await, [""; 0]);
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms.is_empty() && status.unconfirmed_ms.is_none());
}

#[tokio::test]
async fn an_invalid_file_is_refused_and_changes_nothing() {
    let fixture = Fixture::new(&web("5 Mbit/s")).await;
    let before: Status = fixture.get("/v1/status").await;
    assert_eq!(code(fixture.apply(&web("5 Mbps"), None).await), Code::UnknownUnit);
    let larger = NOTHING.to_owned() + "packets = 2000\n";
    assert_eq!(code(fixture.apply(&larger, None).await), Code::NeedsRestart);
    let after: Status = fixture.get("/v1/status").await;
    assert_eq!(before.generation, after.generation);
    assert_eq!(fixture.plan(&web("5 Mbit/s")).await, [""; 0]);
}

#[tokio::test]
async fn the_rate_of_the_link_can_change_at_run_time() {
    let fixture = Fixture::new(NOTHING).await;
    let limited = NOTHING.to_owned() + "rate = { up = \"8 Mbit/s\" }\n";
    let applied = fixture.apply(&limited, None).await.unwrap();
    let changes: Vec<_> = applied.changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes, ["~ gateway rate up: not limited -> 8 Mbit/s"]);
}

#[tokio::test]
async fn a_reload_applies_a_valid_file_and_ignores_an_invalid_one() {
    let fixture = Fixture::new(NOTHING).await;
    fs::write(fixture.file(), web("5 Mbit/s")).unwrap();
    fixture.daemon.reload().await;
    assert_eq!(fixture.plan(&web("5 Mbit/s")).await, [""; 0]);
    fs::write(fixture.file(), "broken").unwrap();
    fixture.daemon.reload().await;
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms[0].contains("TG0001"), "{:?}", status.alarms);
    assert_eq!(fixture.plan(&web("5 Mbit/s")).await, [""; 0]);
    fs::write(fixture.file(), NOTHING).unwrap();
    fixture.daemon.reload().await;
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms.is_empty());
}

/// Catches: a reload that blocks on a FIFO, or that reads a file without a size limit.
#[tokio::test]
async fn a_policy_file_that_has_become_a_fifo_or_too_large_is_refused_at_a_reload() {
    let fixture = Fixture::new(&web("5 Mbit/s")).await;
    fs::remove_file(fixture.file()).unwrap();
    mkfifo(&fixture.file(), Mode::S_IRWXU).unwrap();
    // This writer would unblock a reader of the FIFO. The test then fails instead of hanging.
    let fifo = fixture.file();
    let writer = tokio::task::spawn_blocking(move || {
        thread::park_timeout(Duration::from_millis(300));
        let open =
            fs::File::options().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(fifo);
        open.is_ok()
    });
    fixture.daemon.reload().await;
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms[0].contains("a FIFO"), "{:?}", status.alarms);
    assert!(!writer.await.unwrap(), "the FIFO was opened");

    fs::remove_file(fixture.file()).unwrap();
    fs::File::create(fixture.file()).unwrap().set_len((64 << 20) + 1).unwrap();
    fixture.daemon.reload().await;
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms[0].contains("TG0211"), "{:?}", status.alarms);
    assert_eq!(fixture.plan(&web("5 Mbit/s")).await, [""; 0]);
}

#[tokio::test]
async fn a_socket_belongs_to_one_gateway_and_a_stale_socket_is_replaced() {
    let fixture = Fixture::new(NOTHING).await;
    let refused = Socket::open(&fixture.socket()).err().map(|failure| failure.code);
    assert_eq!(refused, Some(Code::AlreadyRuns));
    let stale = fixture.folder.join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists() && Socket::open(&stale).is_ok());
    // The socket that was opened and dropped leaves no file behind.
    assert!(!stale.exists());
}

#[tokio::test]
async fn a_file_that_is_not_a_socket_is_never_replaced() {
    let fixture = Fixture::new(NOTHING).await;
    let refused = Socket::open(&fixture.file()).err().map(|failure| failure.code);
    assert_eq!(refused, Some(Code::NoSocket));
    assert_eq!(fs::read_to_string(fixture.file()).unwrap(), NOTHING);
}

#[tokio::test]
async fn an_alarm_about_a_file_ends_when_another_file_is_applied() {
    let fixture = Fixture::new(NOTHING).await;
    fs::remove_file(fixture.file()).unwrap();
    fixture.daemon.reload().await;
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms[0].contains("TG0101"), "{:?}", status.alarms);
    fixture.apply(&web("5 Mbit/s"), None).await.unwrap();
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms.is_empty(), "{:?}", status.alarms);
}

/// Catches: a policy without packets that no report mentions.
#[tokio::test]
async fn a_policy_without_a_packet_is_named_as_idle() {
    let fixture = Fixture::new(&web("5 Mbit/s")).await;
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!((status.aggregates.len(), status.idle_policies), (0, vec!["web".to_owned()]));
}

/// Catches: a status that names only the running file; a reload that reads the file of the start
/// instead of the running file.
#[tokio::test]
async fn after_another_file_was_applied_the_file_of_a_restart_is_named() {
    let fixture = Fixture::new(NOTHING).await;
    let (own, other) = (fixture.file(), fixture.folder.join("other.toml"));
    let shown = |path: &Path| path.display().to_string();
    let propose = |file: &Path, text: &str| json!({ "file": shown(file), "text": text, "included": [], "confirm_ms": null });
    fs::write(&other, web("6 Mbit/s")).unwrap();
    let applied: Applied =
        fixture.post("/v1/apply", propose(&other, &web("5 Mbit/s"))).await.unwrap();
    assert_eq!(applied.restart_reads, Some(shown(&own)));
    fixture.daemon.reload().await;
    assert_eq!(fixture.plan(&web("6 Mbit/s")).await, [""; 0]);
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!((status.file, status.started_file), (shown(&other), shown(&own)));
    let applied: Applied = fixture.post("/v1/apply", propose(&own, NOTHING)).await.unwrap();
    assert_eq!(applied.restart_reads, None);
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!(status.file, status.started_file);
}

/// Catches: an alarm about a rollback that stays after another file was applied.
#[tokio::test]
async fn a_new_file_ends_the_alarm_about_a_rollback() {
    let fixture = Fixture::new(NOTHING).await;
    fixture.apply(&web("5 Mbit/s"), Some(100)).await.unwrap();
    fixture.until(|status| !status.alarms.is_empty()).await;
    fixture.apply(&web("6 Mbit/s"), None).await.unwrap();
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!(status.alarms, [""; 0]);
}

#[tokio::test]
async fn only_the_user_of_the_gateway_may_use_the_socket() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(NOTHING).await;
    let mode = fs::metadata(fixture.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Sends `request`, and reads until the server closes the connection. Returns the answer.
async fn exchange(socket: PathBuf, request: String) -> String {
    let exchange = move || {
        let mut stream = UnixStream::connect(socket).unwrap();
        // The result is ignored: the server may close the connection before it has read everything.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    tokio::task::spawn_blocking(exchange).await.unwrap()
}

/// Catches: an unknown path without an error in the usual form; a malformed body answered with the
/// text of the HTTP library.
#[tokio::test]
async fn clients_that_hang_or_send_invalid_or_large_requests_disturb_no_other() {
    let fixture = Fixture::new(&web("5 Mbit/s")).await;
    let socket = fixture.socket();
    let mut hanging = UnixStream::connect(&socket).unwrap();
    hanging.write_all(b"POST /v1/apply HT").unwrap();
    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let huge = "x".repeat((64 << 20) + 1);
    let cases = [
        ("\0\u{1}\u{2} nonsense\r\n\r\n".to_owned(), "400", ""),
        (post("/v1/apply", "{"), "400", "TG0209"),
        (post("/v1/apply", "{\"file\": 3}"), "422", "TG0209"),
        (post("/v1/apply", &huge), "413", "TG0211"),
        (post("/v1/status", "{}"), "404", "TG0209"),
        (post("/v2/status", "{}"), "404", "TG0209"),
    ];
    for (request, status, code) in cases {
        let start: String = request.chars().take(40).collect();
        let answer = exchange(socket.clone(), request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{start}: {answer}");
        assert!(answer.contains(code), "{start}: {answer}");
    }
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!(status.generation, 1);
}

#[tokio::test]
async fn every_answer_carries_the_version_of_its_schema() {
    let fixture = Fixture::new(NOTHING).await;
    for path in ["/v1/status", "/v1/flows?most=3"] {
        let answer: Value = fixture.get(path).await;
        assert_eq!(answer["schema_version"], 1, "{path}");
    }
    let answer: Value = fixture
        .post(
            "/v1/explain",
            json!({ "dst": "10.0.0.1", "protocol": "tcp",
        "dscp": "DF", "direction": "up" }),
        )
        .await
        .unwrap();
    assert_eq!((&answer["schema_version"], &answer["policy"]), (&json!(1), &Value::Null));
}

#[test]
fn row_3_of_table_1_precedes_row_1_for_its_destination() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/table1.toml");
    let text = fs::read_to_string(path).unwrap();
    let config = crate::config::parse("table1.toml", &text, None).0.unwrap();
    let ask = |dst: &str| {
        let question = Question {
            src: Some("128.34.16.4".to_owned()),
            dst: Some(dst.to_owned()),
            protocol: "tcp".to_owned(),
            dscp: "DF".to_owned(),
            direction: "up".to_owned(),
            ..Question::default()
        };
        explain(&config, &question).unwrap()
    };
    let explained = ask("141.213.8.108");
    assert_eq!(explained.policy.as_deref(), Some("row3"));
    assert_eq!(
        explained.why,
        "row3 and row1 have the same priority, and row3 is more specific: it pins 64 bits of the \
         header, row1 32"
    );
    let row2 = explained.policies.iter().find(|it| it.policy == "row2").unwrap();
    assert_eq!(row2.differs_in.as_deref(), Some("src"));
    assert_eq!(ask("141.213.8.109").policy.as_deref(), Some("row1"));
}

#[tokio::test]
async fn classes_are_shown_and_changed_while_they_run() {
    let text = format!(
        "{NOTHING}rate = {{ up = \"10 Mbit/s\", down = \"20 Mbit/s\" }}\n\
         [[class]]\nname = \"office\"\nguarantee = \"6 Mbit/s\"\n"
    );
    let fixture = Fixture::new(&text).await;
    let classes: Classes = fixture.get("/v1/classes").await;
    let names: Vec<_> =
        classes.classes.iter().map(|it| (it.name.as_str(), it.direction.name())).collect();
    assert_eq!(
        names,
        [("default", "up"), ("office", "up"), ("default", "down"), ("office", "down")]
    );

    let changed = fixture.change("office", json!({ "guarantee": { "up": "7 Mbit/s" } })).await;
    let rates: Vec<_> = changed.unwrap().classes.iter().map(|it| it.guarantee.bps()).collect();
    assert_eq!(rates, [7_000_000, 6_000_000]);
    let ceilings = async |to: &str| {
        let changed = fixture.change("office", json!({ "ceiling": { "down": to } })).await;
        changed
            .unwrap()
            .classes
            .iter()
            .map(|it| it.ceiling.map(|rate| rate.bps()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ceilings("8 Mbit/s").await, [None, Some(8_000_000)]);
    assert_eq!(ceilings("none").await, [None, None]);
    for (name, body, code) in [
        ("office", json!({ "ceiling": "never" }), "TG0209"),
        ("nobody", json!({ "weight": 2 }), "TG0008"),
        ("office", json!({ "guarantee": "11 Mbit/s" }), "TG0032"),
        ("office", json!({ "ceiling": "5 Mbit/s" }), "TG0033"),
        ("office", json!({ "weight": 0 }), "TG0009"),
        ("office", json!({ "wait": 1 }), "TG0209"),
    ] {
        let error = fixture.change(name, body).await.unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.code.name(), code, "{failure}");
    }
}

/// An applied file replaces all class changes made at run time, and the answer lists them.
///
/// Catches: a plan that compares with the running file instead of the running classes; a rollback
/// that forgets the run-time changes; run-time changes that survive.
#[tokio::test]
async fn an_applied_file_undoes_run_time_changes_of_classes_and_lists_them() {
    let text = format!(
        "{NOTHING}rate = {{ up = \"10 Mbit/s\", down = \"20 Mbit/s\" }}\n\
         [[class]]\nname = \"office\"\nguarantee = \"6 Mbit/s\"\n\
         [[class]]\nname = \"guests\"\nguarantee = \"1 Mbit/s\"\n"
    );
    let fixture = Fixture::new(&text).await;
    fixture.change("office", json!({ "guarantee": { "up": "7 Mbit/s" } })).await.unwrap();
    let rights = json!({ "guarantee": "1 Mbit/s", "delay_bound": "20 ms" });
    let web = json!({ "name": "voice", "queue": "drop-tail", "rights": rights });
    let added: Classes = fixture.post("/v1/classes", web).await.unwrap();
    let [up, down] = &added.classes[..] else { panic!("{added:?}") };
    assert_eq!(
        (up.guarantee.bps(), down.delay_bound),
        (1_000_000, Some(Duration::from_millis(20)))
    );
    let removed: Classes = fixture.delete("/v1/classes/guests").await.unwrap();
    assert_eq!(
        removed.classes.iter().map(|it| it.guarantee.bps()).collect::<Vec<_>>(),
        [1_000_000; 2]
    );
    assert_eq!(fixture.get::<Classes>("/v1/classes").await.classes.len(), 6);
    for (name, code) in [("guests", "TG0008"), ("default", "TG0210")] {
        let refused = fixture.delete(&format!("/v1/classes/{name}")).await.unwrap_err();
        assert_eq!(refused.downcast_ref::<Failure>().unwrap().code.name(), code);
    }
    for (class, code) in [
        (json!({ "name": "office" }), "TG0018"),
        (json!({ "name": "a b" }), "TG0017"),
        (json!({ "name": "web", "parent": "nobody" }), "TG0031"),
        (json!({ "name": "web", "parent": "default" }), "TG0210"),
        (json!({ "name": "web", "rights": { "delay_bound": "9 ms" } }), "TG0038"),
        (json!({ "name": "web", "rights": { "guarantee": "9 Mbit/s" } }), "TG0032"),
        (json!({ "name": "web", "queue": "no such" }), "TG0209"),
    ] {
        let refused = fixture.post::<Classes>("/v1/classes", class.clone()).await.unwrap_err();
        assert_eq!(refused.downcast_ref::<Failure>().unwrap().code.name(), code, "{class}");
    }

    let names = ["guests", "office", "voice"].map(str::to_owned);
    let proposal = Proposal {
        file: "new.toml".to_owned(),
        text: text.clone(),
        included: Vec::new(),
        confirm_ms: None,
        save: false,
    };
    let plan: Plan = fixture.post("/v1/plan", proposal).await.unwrap();
    assert_eq!((plan.undone, plan.changes.len()), (names.to_vec(), 3));

    let applied = fixture.apply(&web_of(&text), Some(50)).await.unwrap();
    assert_eq!(applied.undone, names);
    let classes: Classes = fixture.get("/v1/classes").await;
    assert_eq!(classes.classes[2].guarantee.bps(), 6_000_000);
    fixture.until(|status| status.unconfirmed_ms.is_none()).await;
    // The change was not confirmed, so the previous configuration is back, with its run-time
    // changes.
    let classes: Classes = fixture.get("/v1/classes").await;
    let of =
        |name: &str| classes.classes.iter().find(|it| it.name == name).map(|it| it.guarantee.bps());
    assert_eq!([of("office"), of("voice"), of("guests")], [Some(7_000_000), Some(1_000_000), None]);
    fixture.daemon.reload().await;
    let classes: Classes = fixture.get("/v1/classes").await;
    assert_eq!(classes.classes[2].guarantee.bps(), 6_000_000);
    assert!(fixture.apply(&text, None).await.unwrap().undone.is_empty());
}

/// `text` with one more policy.
fn web_of(text: &str) -> String {
    format!("{text}[[policy]]\nname = \"all\"\naction = \"pass\"\n")
}
