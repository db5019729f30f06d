//! Tests the program from outside: its output and its exit codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder for the files of one test. Dropping the value removes the folder.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = env::temp_dir().join(format!("tidegate-cli-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.to_str().unwrap().to_owned()
}

const GOOD: &str = "[gateway]\nlan = \"no-such-lan\"\nwan = \"no-such-wan\"\n";

#[test]
fn check_accepts_table_1_of_the_paper() {
    let output = tidegate(&["check", &example("table1.toml")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).ends_with("3 policies between lan and wan, nothing wrong\n"));
    assert!(output.stderr.is_empty());
}

#[test]
fn check_refuses_an_invalid_file_with_2_and_shows_the_line() {
    let folder = Folder::new("wrong");
    let file = folder.file("wrong.toml", &GOOD.replace("wan =", "wann ="));
    let output = tidegate(&["check", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("wrong.toml:3:1\n"), "{output:?}");
    assert!(output.stdout.is_empty());
    let output = tidegate(&["check", "--json", &file]);
    let data = json(&output);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!((&data["schema_version"], &data["ok"]), (&Value::from(1), &Value::from(false)));
    let codes: Vec<_> =
        data["findings"].as_array().unwrap().iter().map(|it| it["code"].clone()).collect();
    assert_eq!(codes, ["TG0003", "TG0002"]);
}

#[test]
fn missing_files_and_binary_files_have_their_own_errors() {
    let folder = Folder::new("missing");
    fs::write(folder.path("binary.toml"), [0xff, 0xfe, 0x00]).unwrap();
    for (name, code) in [("missing.toml", "TG0101"), ("binary.toml", "TG0001")] {
        let output = tidegate(&["check", "--json", &folder.path(name)]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(json(&output)["error"]["code"], code);
        assert!(stderr(&output).contains(code));
    }
}

#[test]
fn run_and_check_report_missing_interfaces() {
    let folder = Folder::new("host");
    let file = folder.file("host.toml", GOOD);
    let socket = folder.path("socket");
    for arguments in [&["check", "--host", &file][..], &["--socket", &socket, "run", &file]] {
        let output = tidegate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("this host has no interface `no-such-lan`"), "{output:?}");
    }
    assert!(!Path::new(&socket).exists());
}

#[test]
fn init_writes_a_file_that_check_accepts_and_never_overwrites_one() {
    let folder = Folder::new("init");
    let file = folder.path("new.toml");
    let ports = ["--lan", "eth1", "--wan", "eth0"];
    let rates = ["--down", "100 Mbit/s", "--up", "20 Mbit/s", "--yes"];
    let arguments = [&["init", file.as_str()][..], &ports, &rates].concat();
    let output = tidegate(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(tidegate(&["check", &file]).status.code(), Some(0));
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("\nqueue = \"hosts\"\n"), "{written}");
    // The policy in the commented-out lines is valid too.
    let policy = written.split_once("# [[policy]]").unwrap().1;
    let policy = format!("[[policy]]{}", policy.replace("\n# ", "\n"));
    let file_with_policy = folder.file("policy.toml", &format!("{GOOD}{policy}"));
    let output = tidegate(&["check", &file_with_policy]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let again = tidegate(&[&arguments[..], &["--json"]].concat());
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(json(&again)["error"]["code"], "TG0105");
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
}

#[test]
fn init_asks_no_question_without_a_terminal() {
    let folder = Folder::new("ask");
    let file = folder.path("new.toml");
    let arguments = ["init", &file, "--lan", "eth1", "--wan", "eth0", "--yes", "--json"];
    let output = tidegate(&arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json(&output)["error"]["code"], "TG0106");
    let bad = [&arguments[..], &["--down", "100"]].concat();
    assert!(stderr(&tidegate(&bad)).contains("`100` has no unit"));
    assert!(!Path::new(&file).exists());
}

#[test]
fn explain_shows_that_row_3_precedes_row_1_for_its_destination() {
    let packet = ["--src", "128.34.16.4", "--dst", "141.213.8.108"];
    let table1 = example("table1.toml");
    let arguments = [&["explain", table1.as_str()][..], &packet].concat();
    let output = tidegate(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        stdout(&output),
        "policy  row3
action  shape: its packets wait until they conform to mean 100 kbit/s, peak 300 kbit/s, burst 30 kB
why     row3 and row1 have the same priority, and row3 is more specific: it pins 64 bits of the \
header, row1 32
charged 66 B for 52 B of IP
charged 1506 B for 1492 B of IP

policy  priority  matches
row3    0         yes
row2    0         no: src differs
row1    0         yes
"
    );
    let output = tidegate(&[&arguments[..], &["--json"]].concat());
    assert_eq!(json(&output)["policy"], "row3");
}

#[test]
fn explain_refuses_impossible_packets() {
    let table1 = example("table1.toml");
    let code = |packet: &[&str]| {
        let output = tidegate(&[&["explain", "--json", table1.as_str()][..], packet].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        json(&output)["error"]["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(code(&[]), "TG0206");
    assert_eq!(code(&["--src", "10.0.0.1", "--dst", "2001:db8::1"]), "TG0206");
    assert_eq!(code(&["--src", "10.0.0.1", "--protocol", "esp", "--dst-port", "1"]), "TG0206");
    assert_eq!(code(&["--src", "10.0.0.1", "--direction", "sideways"]), "TG0206");
}

#[test]
fn explain_knows_every_code_it_prints() {
    let output = tidegate(&["explain", "tg0020"]);
    assert!(stdout(&output).starts_with("TG0020: a burst below the MTU\n"));
}

#[test]
fn without_a_gateway_its_commands_say_how_to_start_one() {
    let folder = Folder::new("none");
    let socket = folder.path("socket");
    let file = folder.file("good.toml", GOOD);
    let file = file.as_str();
    for command in [&["status"][..], &["flows"], &["plan", file], &["apply", file], &["confirm"]] {
        let output = tidegate(&[&["--socket", socket.as_str(), "--json"][..], command].concat());
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        let error = &json(&output)["error"];
        assert_eq!(error["code"], "TG0201");
        assert!(error["help"].as_str().unwrap().contains("tidegate run FILE"));
    }
}

/// Catches: a canonical text that only a running gateway can print; a canonical text that changes
/// when it is made canonical again.
#[test]
fn plan_prints_the_canonical_text_without_a_gateway() {
    let folder = Folder::new("canonical");
    let canonical = |file: &str| {
        let output = tidegate(&["plan", "--canonical", file]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        stdout(&output)
    };
    let table_1 = canonical(&example("table1.toml"));
    assert!(table_1.starts_with("[[policy]]\nname = ") && table_1.contains("bit/s\""), "{table_1}");
    let again = canonical(&folder.file("again.toml", &table_1));
    assert_eq!(again, table_1);
    folder.file("more.toml", "[[policy]]\nname = \"a\"\naction = \"pass\"\n");
    let including = folder.file("including.toml", "include = \"more.toml\"\n");
    assert_eq!(canonical(&including), "[[policy]]\nname = \"a\"\naction = \"pass\"\n");
    let wrong = folder.file("wrong.toml", "[[policy]]\nname = \"a\"\nmatch = { dst = \"x\" }\n");
    let output = tidegate(&["plan", "--canonical", "--json", &wrong]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json(&output)["ok"], false);
}

#[test]
fn doctor_says_what_is_missing_and_what_to_do() {
    let output = tidegate(&["doctor", "--json", "--lan", "no-such-lan", "--wan", "no-such-wan"]);
    assert_eq!(output.status.code(), Some(1));
    let data = json(&output);
    let findings = data["findings"].as_array().unwrap();
    let lan = findings.iter().find(|it| it["what"] == "no-such-lan").unwrap();
    assert_eq!((&lan["health"], lan["remedy"].is_string()), (&Value::from("bad"), true));
}

#[test]
fn detach_refuses_ports_that_do_not_exist() {
    assert_eq!(tidegate(&["detach"]).status.code(), Some(2));
    let output = tidegate(&["detach", "--json", "no-such-port"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json(&output)["error"]["code"], "TG0102");
}

#[test]
fn the_schema_is_json_and_completions_know_the_commands() {
    let schema: Value = json(&tidegate(&["schema"]));
    assert_eq!(schema["required"], serde_json::json!(["gateway"]));
    let completions = stdout(&tidegate(&["completions", "bash"]));
    for command in ["init", "check", "plan", "run", "apply", "status", "explain", "doctor", "demo"]
    {
        assert!(completions.contains(command), "{command}");
    }
}

/// The names that `--help` of `command` lists under the heading `title`.
fn listed(command: &[&str], title: &str) -> Vec<String> {
    let help = stdout(&tidegate(&[command, &["--help"]].concat()));
    let list = help.split_once(&format!("\n{title}:\n")).map_or("", |it| it.1);
    let list = list.split_once("\n\n").map_or(list, |it| it.0);
    let names = list.lines().filter_map(|line| match title {
        "Commands" => line.strip_prefix("  ")?.split_whitespace().next(),
        _ => line.trim_start().split([' ', ',']).find(|it| it.starts_with("--")),
    });
    let usual = ["help", "--help", "--version"];
    names.filter(|it| !usual.contains(it)).map(str::to_owned).collect()
}

/// Catches: a command or an option that the manual does not mention.
#[test]
fn the_manual_lists_every_command_and_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/commands.md");
    let manual = fs::read_to_string(path).unwrap();
    let commands = listed(&[], "Commands");
    assert!(commands.len() > 10, "{commands:?}");
    let labs = listed(&["lab"], "Commands");
    let labs = labs.iter().map(|it| vec!["lab", it]);
    for command in commands.iter().map(|it| vec![it.as_str()]).chain(labs) {
        let name = command.join(" ");
        let heading = format!("`tidegate {name}");
        let rows: Vec<_> = manual.lines().filter(|it| it.contains(&heading)).collect();
        assert!(!rows.is_empty(), "{name} is not in the manual");
        for option in listed(&command, "Options") {
            assert!(rows.iter().any(|it| it.contains(&option)), "{name} {option}");
        }
    }
}

#[test]
fn an_unknown_error_code_is_not_read_as_a_file() {
    let output = tidegate(&["explain", "--json", "TG9999"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(json(&output)["error"]["message"], "there is no error TG9999");
}

#[test]
fn taking_down_a_named_lab_that_does_not_exist_is_an_error() {
    let output = tidegate(&["lab", "down", "--lab", "no-such-lab", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["error"]["code"], "TG0301");
}

#[test]
fn an_invalid_command_line_ends_with_2() {
    assert_eq!(tidegate(&["chekc"]).status.code(), Some(2));
    assert_eq!(tidegate(&["apply", "x.toml", "--confirm", "60"]).status.code(), Some(2));
}

/// Catches: a message or an error of the log printed by `eprintln!`, which panics on a full disk.
#[test]
fn a_full_disk_behind_stdout_and_stderr_makes_no_command_panic() {
    let folder = Folder::new("full");
    let good = folder.file("good.toml", GOOD);
    let wrong = folder.file("wrong.toml", "[gateway]\nlan = 3\n");
    let socket = folder.path("socket");
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for words in [
        &["check", &wrong][..],
        &["check", &good],
        &["apply", &good],
        &["status"],
        &["explain", "TG0001"],
        &["completions", "bash"],
        &["run", &wrong],
        // The ports do not exist, which the program must log.
        &["run", &good],
        &["run", &good, "--verbose"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["--socket", &socket]).args(words).stdout(full()).stderr(full());
        let code = command.status().unwrap().code();
        assert!(matches!(code, Some(1 | 2)), "{words:?} ended with {code:?}");
    }
}

#[test]
fn metrics_are_served_on_loopback_only() {
    let output = tidegate(&["run", "office.toml", "--metrics", "0.0.0.0:9123"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not on loopback"));
}

const CALL: &str = r#"
seed = 3
[run]
duration = "2 s"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
rate = "1 Mbit/s"
delay = "5 ms"
loss = "1 %"
[[traffic]]
name = "call"
kind = "cbr"
from = "a"
to = "b"
rate = "80 kbit/s"
packet = "200 B"
[[probe]]
kind = "queue"
from = "a"
to = "b"
"#;

#[test]
fn sim_prints_the_same_figures_for_the_same_seed() {
    let folder = Folder::new("sim");
    let file = folder.file("call.toml", CALL);
    let run = |seed: &[&str]| {
        let output = tidegate(&[&["sim", "--json", &file], seed].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty());
        json(&output)
    };
    let data = run(&[]);
    assert_eq!((&data["schema_version"], &data["seed"]), (&Value::from(1), &Value::from(3)));
    // 80 kbit/s are 50 packets of 200 bytes per second. The first is sent at 0 s and the last at 2
    // s.
    assert_eq!(data["packets"], 101);
    assert_eq!(data["tables"]["flows"][0]["sent_packets"], 101);
    let link = &data["tables"]["links"][0];
    assert_eq!((&link["from"], &link["to"]), (&Value::from("a"), &Value::from("b")));
    // 200 bytes take 1.6 ms at 1 Mbit/s, and the link delays them by 5 ms.
    assert_eq!(data["tables"]["groups"][0]["delay_p50_seconds"].as_f64().unwrap() * 1e4, 66.0);
    assert_eq!(run(&[]), data);
    assert_eq!(run(&["--seed", "3"]), data);
    assert_ne!(run(&["--seed", "4"])["fingerprint"], data["fingerprint"]);
    let text = stdout(&tidegate(&["sim", &file]));
    assert!(text.contains("call     1      "), "{text}");
}

/// The guarantees take 12 and 4 of 20 Mbit/s, and the calls take 0.8 Mbit/s. The remaining 3.2
/// Mbit/s are shared in the ratio 1 to 2.
#[test]
fn classes_share_the_link_of_a_simulated_gateway() {
    let output = tidegate(&["sim", "--json", &example("sim/classes.toml")]);
    let groups = &json(&output)["tables"]["groups"];
    for (nth, (name, mbps)) in
        [("office", 13.067), ("guests", 6.133), ("calls", 0.8)].iter().enumerate()
    {
        let group = &groups[nth];
        assert_eq!(&group["group"], name);
        let ratio = group["throughput_bps"].as_f64().unwrap() / 1e6 / mbps;
        assert!((ratio - 1.0).abs() < 0.01, "{name}: {group}");
    }
    // The path delays by 20 ms, and hardly any other packet waits in the queue.
    assert!(groups[2]["delay_p99_seconds"].as_f64().unwrap() < 0.03, "{}", groups[2]);
}

#[test]
fn sim_writes_every_table_as_a_file() {
    let folder = Folder::new("csv");
    let (file, out) = (folder.file("call.toml", CALL), folder.path("out/tables"));
    let output = tidegate(&["sim", &file, "--csv", &out]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let flows = fs::read_to_string(Path::new(&out).join("flows.csv")).unwrap();
    let lines: Vec<_> = flows.lines().collect();
    assert!(lines[0].starts_with("group,from,to,start_seconds,sent_packets"), "{flows}");
    assert!(lines[1].starts_with("call,a,b,0,101,"), "{flows}");
    let queue = fs::read_to_string(Path::new(&out).join("queue-of-a-b.csv")).unwrap();
    assert_eq!(queue.lines().count(), 302);
    // A file cannot be used as a folder.
    let output = tidegate(&["sim", &file, "--csv", &file]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn sim_captures_the_named_link() {
    let folder = Folder::new("pcap");
    let probe = "[[probe]]\nkind = \"capture\"\nfrom = \"b\"\nto = \"a\"\n";
    let (file, out) = (folder.file("call.toml", CALL), folder.path("call.pcap"));
    let probed = folder.file("probed.toml", &format!("{CALL}{probe}"));
    let sim =
        |file: &str, more: &[&str]| tidegate(&[&["sim", file, "--pcap", &out], more].concat());
    let length = || fs::metadata(&out).unwrap().len();
    assert_eq!(sim(&file, &["--link", "a,b"]).status.code(), Some(0));
    // The capture has a header of 24 bytes, then 216 bytes for each packet that arrived (16 and the
    // packet).
    let packets = length().saturating_sub(24);
    assert!(packets > 90 * 216 && packets.is_multiple_of(216), "{packets}");
    // The probe captures the opposite direction of the link, in which no packet travels.
    assert_eq!(sim(&probed, &[]).status.code(), Some(0));
    assert_eq!(length(), 24);
    for (file, more) in [(&file, &[][..]), (&probed, &["--link", "a,c"]), (&file, &["--link", "a"])]
    {
        let output = sim(file, more);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

#[test]
fn sim_refuses_an_invalid_scenario_with_2_and_shows_the_line() {
    let folder = Folder::new("wrong-sim");
    let file = folder
        .file("wrong.toml", &CALL.replace("to = \"b\"\nrate = \"1", "to = \"c\"\nrate = \"1"));
    let output = tidegate(&["sim", "--json", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is no node `c`"), "{output:?}");
    let data = json(&output);
    let found = &data["findings"][0];
    assert_eq!((&found["code"], &found["field"]), (&"TG0044".into(), &"link[0].to".into()));
    let output = tidegate(&["sim", &folder.path("nothing.toml")]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_scenario_without_links_can_also_be_built_as_a_lab() {
    let output = tidegate(&["lab", "up", &example("sim/dumbbell.toml")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("TG0043"), "{output:?}");
}

/// Catches: a default queue whose flow limit is 256 KiB at every rate of the link.
#[test]
fn every_example_scenario_runs_with_short_queues() {
    // For each group of flows, the longest delay of its paths, without time in queues, in
    // milliseconds.
    let examples: [(&str, &[(&str, f64)]); 5] = [
        ("classes", &[("office", 20.0), ("guests", 20.0), ("calls", 20.0)]),
        ("dumbbell", &[("downloads", 31.0), ("voice", 12.0)]),
        ("gateway", &[("updates", 31.0), ("shopping", 10.0)]),
        ("queue", &[("downloads", 21.0)]),
        ("trunk", &[("uploads", 10.0), ("flood", 10.0)]),
    ];
    let folder = fs::read_dir(example("sim")).unwrap();
    assert_eq!(folder.count(), examples.len());
    for (name, ways) in examples {
        let output = tidegate(&["sim", &example(&format!("sim/{name}.toml")), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let groups = &json(&output)["tables"]["groups"];
        assert_eq!(groups.as_array().unwrap().len(), ways.len());
        for (nth, (group, way)) in ways.iter().enumerate() {
            assert_eq!(&groups[nth]["group"], group);
            let queued = groups[nth]["delay_p99_seconds"].as_f64().unwrap() * 1e3 - way;
            assert!((0.0..=60.0).contains(&queued), "{name}: {group} waits for {queued} ms");
        }
    }
}
