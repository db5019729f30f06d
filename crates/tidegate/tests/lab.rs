//! A lab is built, used, lost and taken down: in its own namespaces, by the program itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A topology file, and the lab of the same name, taken down at the end.
struct Lab {
    name: String,
    file: PathBuf,
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
        let file = std::env::temp_dir().join(format!("{name}.toml"));
        fs::write(&file, format!("name = \"{name}\"\n{text}")).unwrap();
        Self { name, file }
    }

    fn tidegate(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(args).output().unwrap()
    }

    fn up(&self) -> Output {
        self.tidegate(&["lab", "up", self.file.to_str().unwrap()])
    }

    fn exec(&self, host: &str, command: &[&str]) -> Output {
        self.tidegate(&[&["lab", "exec", "--lab", &self.name, host], command].concat())
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
        let _ = fs::remove_file(&self.file);
    }
}

/// Labs need root here; without, only that is missing which the demo's own test covers.
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
fn hosts_reach_each_other_in_the_time_their_routes_take() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("reach", SITE);
    assert!(succeeded(&lab.up()));
    for address in ["10.73.0.1", "fd73::1"] {
        let output = lab.exec("client", &["ping", "-c", "5", "-i", "0.2", "-W", "10", address]);
        assert!(succeeded(&output));
        // The fastest of a few: no machine is so busy as to delay them all.
        let said = String::from_utf8(output.stdout).unwrap();
        let (_, times) = said.split_once("mdev = ").unwrap();
        let best: f64 = times.split('/').next().unwrap().parse().unwrap();
        assert!((30.0..32.0).contains(&best), "{best} ms");
    }
}

#[test]
fn commands_end_as_they_end_and_a_host_that_is_not_there_is_named() {
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
fn nothing_is_left_behind_neither_by_down_nor_after_a_crash() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("crash", SITE);
    assert!(succeeded(&lab.up()));
    assert_eq!(lab.namespaces(), 3);
    let state = fs::read_to_string(format!("/run/tidegate/lab-{}/state.json", lab.name)).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let pid = state["owner"]["pid"].to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    assert!(succeeded(&lab.up()));
    assert_eq!(lab.namespaces(), 3);
    assert!(succeeded(&lab.down()));
    assert_eq!(lab.namespaces(), 0);
    assert!(!PathBuf::from(format!("/run/tidegate/lab-{}", lab.name)).exists());
}

#[test]
fn a_broken_topology_changes_nothing() {
    if !is_root() {
        return;
    }
    let lab = Lab::new("broken", &SITE.replace("25 ms", "25"));
    let output = lab.up();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("TG0005"));
    assert_eq!(lab.namespaces(), 0);
}
