//! Tests the policies of Table 1 of the paper `aggregates` with the program `tidegate`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{Process, program, run};

const LIMIT: Duration = Duration::from_secs(10);

fn table_1() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/table1.toml").display().to_string()
}

/// The name of the policy for a packet from `src` to `dst`, according to `tidegate explain`.
fn policy(src: &str, dst: &str, more: &[&str]) -> Option<String> {
    let mut command = Command::new(program());
    command.args(["explain", &table_1(), "--json", "--src", src, "--dst", dst]).args(more);
    let answer: Value = serde_json::from_str(&run(&mut command, LIMIT)).unwrap();
    answer["policy"].as_str().map(str::to_owned)
}

#[test]
fn check_accepts_table_1() {
    run(Command::new(program()).args(["check", &table_1()]), LIMIT);
}

#[test]
fn row_3_precedes_row_1_for_its_destination() {
    let name = |policy: &str| Some(policy.to_owned());
    assert_eq!(policy("128.34.16.4", "141.213.8.108", &[]), name("row3"));
    assert_eq!(policy("128.34.16.4", "141.213.8.109", &[]), name("row1"));
    assert_eq!(policy("128.34.16.8", "141.213.8.108", &["--src-port", "80"]), name("row2"));
    assert_eq!(policy("128.34.16.8", "141.213.8.108", &["--src-port", "81"]), None);
}

#[test]
fn an_invalid_file_is_refused_with_its_line_and_exit_code_2() {
    let file = std::env::temp_dir().join(format!("tidegate-e2e-{}.toml", std::process::id()));
    let text = std::fs::read_to_string(table_1()).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("\"20 kB\"")).unwrap();
    std::fs::write(&file, text.replace("\"20 kB\"", "\"20 B\"")).unwrap();
    let finished = Process::start(Command::new(program()).arg("check").arg(&file)).finish(LIMIT);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(finished.status.code(), Some(2));
    assert!(finished.errors.contains("TG0020"), "{}", finished.errors);
    assert!(finished.errors.contains(&format!(".toml:{line}:")), "{}", finished.errors);
}
