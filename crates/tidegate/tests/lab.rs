//! Live test: the program builds a lab (a test network in namespaces), uses it, and removes it,
//! even after a crash.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A topology file, and the lab with the same name. Dropping this value takes the lab down.
struct Lab {
    name: String,
    /// The folder that holds the file and everything else the lab needs.
    folder: PathBuf,
    /// A copy of the program that any user may run, for a lab of the user nobody.
    nobodys: Option<PathBuf>,
}

const SITE: &str = r#"
    [[host]]
    name = "server"
    [[host]]
    name = "client"
    [[route]]
    from = "server"
    delay = "25 ms"
    [[route]]
    delay = "5 ms"
"#;

impl Lab {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("lab.toml"), format!("name = \"{name}\"\n{text}")).unwrap();
        Self { name, folder, nobodys: None }
    }

    /// Makes this a lab of the user nobody instead of root.
    fn of_nobody(mut self) -> Self {
        let program = self.folder.join("tidegate");
        fs::copy(env!("CARGO_BIN_EXE_tidegate"), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        self.nobodys = Some(program);
        self
    }

    fn program(&self) -> &Path {
        self.nobodys.as_deref().unwrap_or_else(|| Path::new(env!("CARGO_BIN_EXE_tidegate")))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        if self.nobodys.is_some() {
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        }
        command.arg("--").arg(self.program()).args(args);
        command
    }

    fn tidegate(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn up(&self) -> Output {
        self.tidegate(&["lab", "up", self.folder.join("lab.toml").to_str().unwrap()])
    }

    fn on(&self, host: &str, command: &[&str]) -> Command {
        self.command(&[&["lab", "exec", "--lab", &self.name, host], command].concat())
    }

    fn exec(&self, host: &str, command: &[&str]) -> Output {
        self.on(host, command).output().unwrap()
    }

    fn down(&self) -> Output {
        self.tidegate(&["lab", "down", "--lab", &self.name])
    }

    fn namespaces(&self) -> usize {
        let names = Command::new("ip").arg("netns").output().unwrap();
        String::from_utf8(names.stdout).unwrap().matches(&self.name).count()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.down();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// These labs need root. The test of the demonstration covers labs without root.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t0"));
    if !root {
        eprintln!("SKIPPED: labs are built as root");
    }
    root
}

fn succeeded(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        eprintln!("{said}");
    }
    output.status.success()
}

#[test]
fn echoes_take_the_time_of_their_routes() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("reach", SITE);
    assert!(succeeded(&lab.up()));
    for address in ["10.73.0.1", "fd73::1"] {
        let output = lab.exec("client", &["ping", "-c", "5", "-i", "0.2", "-W", "10", address]);
        assert!(succeeded(&output));
        // The fastest of a few echoes counts, because load of the machine delays only some of them.
        let said = String::from_utf8(output.stdout).unwrap();
        let (_, times) = said.split_once("mdev = ").unwrap();
        let best: f64 = times.split('/').next().unwrap().parse().unwrap();
        assert!((30.0..32.0).contains(&best), "{best} ms");
    }
}

/// Catches: an interface whose frames several processors receive, so that frames overtake each
/// other.
#[test]
fn one_processor_receives_the_frames_of_an_interface() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("order", SITE);
    assert!(succeeded(&lab.up()));
    let file = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    for host in ["server", "client"] {
        let output = lab.exec(host, &["cat", file]);
        assert!(succeeded(&output));
        let mask = String::from_utf8(output.stdout).unwrap();
        assert_eq!(mask.trim().trim_start_matches(['0', ',']), "1", "{host}");
    }
}

#[test]
fn a_route_can_change_during_use_and_an_unknown_route_is_refused() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("change", SITE);
    assert!(succeeded(&lab.up()));
    let change =
        |words: &[&str]| lab.tidegate(&[&["lab", "change", "--lab", &lab.name], words].concat());
    assert!(succeeded(&change(&["1", "--delay", "100 ms"])));
    let output = lab.exec("client", &["ping", "-c", "3", "-i", "0.2", "-W", "10", "10.73.0.1"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let (_, times) = said.split_once("mdev = ").unwrap();
    let best: f64 = times.split('/').next().unwrap().parse().unwrap();
    assert!(best >= 100.0, "{best} ms");
    for (words, says) in [
        (&["9", "--delay", "1 ms"][..], "route 9"),
        (&["0", "--delay", "1 ms"], "route 0"),
        (&["1", "--rate", "1 Mbit/s"], "route 1"),
        (&["1"], "--rate"),
        (&["1", "--rate", "5"], "5"),
    ] {
        let refused = change(words);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && said.contains(says), "{words:?}: {said}");
    }
}

#[test]
fn exec_returns_the_exit_code_and_names_an_unknown_host() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("exec", SITE);
    assert!(succeeded(&lab.up()));
    let output = lab.exec("client", &["sh", "-c", "cat; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    let output = lab.exec("sever", &["true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there are: server, client"));
    let again = lab.up();
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("TG0302"));
}

#[test]
fn down_leaves_nothing_behind_even_after_a_crash() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("crash", SITE);
    assert!(succeeded(&lab.up()));
    assert_eq!(lab.namespaces(), 3);
    let state = fs::read_to_string(format!("/run/tidegate/lab-{}/state.json", lab.name)).unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    let pid = state["owner"]["pid"].to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    until_ended(&pid);
    assert!(succeeded(&lab.up()));
    assert_eq!(lab.namespaces(), 3);
    assert!(succeeded(&lab.down()));
    assert_eq!(lab.namespaces(), 0);
    assert!(!PathBuf::from(format!("/run/tidegate/lab-{}", lab.name)).exists());
}

/// Waits until the process with the number `pid` has ended. A busy machine needs some time to end a
/// killed process.
#[expect(clippy::disallowed_methods, reason = "it ends when the machine gets to it")]
fn until_ended(pid: &str) {
    for _ in 0..100 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X'])) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{pid} has not ended");
}

/// Waits until all `servers` have ended.
fn until_all_ended(servers: Vec<Child>) {
    for mut server in servers {
        until_ended(&server.id().to_string());
        server.wait().unwrap();
    }
}

#[test]
fn an_invalid_topology_changes_nothing() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("broken", &SITE.replace("25 ms", "25"));
    let output = lab.up();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("TG0005"));
    assert_eq!(lab.namespaces(), 0);
}

/// The lab of `examples/lab/office.toml`, with the interface offloads `offload`. `None` if this
/// host cannot build it.
fn office(name: &str, offload: &str, nobodys: bool) -> Option<Lab> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = fs::read_to_string(examples.join("lab/office.toml")).unwrap();
    let text = text.replacen("name = \"office\"", &format!("offload = \"{offload}\""), 1);
    let text = text.replacen("../office.toml\"", "office.toml\"", 1);
    let lab = Lab::new(name, &text);
    fs::copy(examples.join("office.toml"), lab.folder.join("office.toml")).unwrap();
    let lab = if nobodys { lab.of_nobody() } else { lab };
    let output = lab.up();
    if String::from_utf8_lossy(&output.stderr).contains("unshare failed") {
        eprintln!("SKIPPED: this kernel has no user namespaces for ordinary users");
        return None;
    }
    assert!(succeeded(&output));
    Some(lab)
}

/// Transfers `bytes` between `host` and the server at `address`. Returns the duration in
/// milliseconds.
fn transfer(lab: &Lab, host: &str, address: &str, bytes: &str, more: &[&str]) -> u64 {
    let program = lab.program().to_str().unwrap();
    let arguments = ["traffic", "fetch", address, "--bytes", bytes, "--time", "60 s"];
    let output = lab.exec(host, &[&[program][..], &arguments, more].concat());
    assert!(succeeded(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    let outcome: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&outcome["complete"], &outcome["intact"]), (&true.into(), &true.into()));
    outcome["at_ms"].as_u64().unwrap()
}

/// Checks that both hosts on the LAN reach both servers and each other, with every byte intact, and
/// that the policy limits its traffic. Returns the servers, which still run.
fn all_hosts_of_the_office_work(lab: &Lab) -> Vec<Child> {
    let mut servers = Vec::new();
    let program = lab.program().to_str().unwrap();
    for host in ["storage", "web", "conference"] {
        let mut server = lab.on(host, &[program, "traffic", "serve"]);
        let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("7000"), "{line}");
        servers.push(server);
    }
    for host in ["guest", "conference"] {
        transfer(lab, host, "198.51.100.10:7000", "4 MB", &[]);
    }
    transfer(lab, "guest", "192.168.20.200:7000", "4 MB", &[]);
    // 1.5 MB at 10 Mbit/s. The first 128 KiB, the burst, pass at once.
    let took = transfer(lab, "guest", "203.0.113.10:7000", "1.5 MB", &["--upload"]);
    assert!(took > 1_000, "{took} ms");
    servers
}

#[test]
fn several_hosts_share_a_gateway_with_and_without_offloads() {
    if !is_root() {
        return;
    }
    for offload in ["wire", "default"] {
        let Some(lab) = office(&format!("office-{offload}"), offload, false) else { return };
        let servers = all_hosts_of_the_office_work(&lab);
        assert!(lab.namespaces() > 0 && succeeded(&lab.down()) && lab.namespaces() == 0);
        until_all_ended(servers);
    }
}

#[test]
fn several_hosts_share_a_gateway_without_root_too() {
    if !is_root() {
        return;
    }
    for offload in ["wire", "default"] {
        let Some(lab) = office(&format!("nobody-{offload}"), offload, true) else { return };
        let servers = all_hosts_of_the_office_work(&lab);
        assert!(succeeded(&lab.down()));
        until_all_ended(servers);
        assert!(!Path::new("/tmp/tidegate-65534").join(format!("lab-{}", lab.name)).exists());
    }
}
