//! A lab that `tidegate lab` builds: hosts, and an emulated network between them that delays and
//! drops packets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::gateway::answered;
use crate::process::{Finished, Process, run};
use crate::testbed::{Testbed, program};
use crate::traffic::Fetch;
use crate::wait::until;

const LIMIT: Duration = Duration::from_secs(120);

/// A lab. Dropping the value takes it down.
#[derive(Debug)]
pub struct Lab {
    name: String,
}

impl Lab {
    /// The name of the emulated network between the hosts.
    pub const NETWORK: &str = "the-network-between-all-the-hosts";

    /// Starts a lab with this topology. The text of the topology states no name. The lab uses only the folder of
    /// `bed`; the lock of `bed` keeps other tests from running at the same time.
    #[must_use]
    pub fn up(bed: &Testbed, topology: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("e2e{}-{number}", std::process::id());
        let file = bed.file(&format!("{name}.toml"), &format!("name = \"{name}\"\n{topology}"));
        let lab = Self { name };
        run(Command::new(program()).args(["lab", "up"]).arg(file), LIMIT);
        lab
    }

    /// A command that runs on `host`. The caller adds the program and its arguments.
    #[must_use]
    pub fn on(&self, host: &str) -> Command {
        let mut command = Command::new(program());
        command.args(["lab", "exec", "--lab", &self.name, host, "--"]);
        command
    }

    /// Starts a command of `tidegate traffic` on `host`.
    #[must_use]
    pub fn traffic(&self, host: &str, words: &[&str]) -> Process {
        Process::start(self.on(host).arg(program()).arg("traffic").args(words))
    }

    /// Starts a server of transfers on `host` with the congestion control `congestion`.
    ///
    /// # Panics
    ///
    /// If the server does not listen in time.
    #[must_use]
    pub fn serve(&self, host: &str, congestion: &str) -> Process {
        let server = self.traffic(host, &["serve", "--congestion", congestion]);
        until("a server", LIMIT, || server.lines().pop());
        server
    }

    /// Starts a transfer from the server at `address` to `host`. `more` are further arguments of
    /// `tidegate traffic fetch`.
    #[must_use]
    pub fn fetch(&self, host: &str, address: &str, more: &[&str]) -> Fetch {
        let words = ["fetch", &format!("{address}:7000"), "--interval", "100 ms"];
        Fetch::of(self.traffic(host, &[&words[..], more].concat()))
    }

    /// Runs a shell command on `host`.
    pub fn shell(&self, host: &str, line: &str) {
        run(self.on(host).args(["sh", "-c", line]), LIMIT);
    }

    /// The output of `tidegate status --json` of `gateway`.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer.
    #[must_use]
    pub fn status(&self, gateway: &str) -> Value {
        self.ask(gateway, "status")
    }

    /// The path of a gateway's file with the extension `ending`.
    fn file_of(&self, gateway: &str, ending: &str) -> PathBuf {
        let folder = Path::new("/run/tidegate").join(format!("lab-{}", self.name));
        folder.join(format!("{gateway}.{ending}"))
    }

    /// Kills a gateway. Frames then bypass it.
    pub fn crash(&self, gateway: &str) {
        let gateways = self.programs(gateway);
        for pid in &gateways {
            run(Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]), LIMIT);
        }
        until("the end of a gateway", LIMIT, || {
            gateways.iter().all(|pid| has_ended(*pid)).then_some(())
        });
    }

    /// Kills a gateway and detaches its bypass programs. No frame can then pass between its ports.
    ///
    /// # Panics
    ///
    /// If the gateway's status does not name the ports.
    pub fn cut(&self, gateway: &str) {
        let ports = &self.status(gateway)["ports"];
        let ports = ["lan", "wan"].map(|side| ports[side].as_str().expect("its name").to_owned());
        self.crash(gateway);
        run(self.on(gateway).arg(program()).arg("detach").args(ports), LIMIT);
    }

    /// The processes of `tidegate` on `gateway`.
    fn programs(&self, gateway: &str) -> Vec<u32> {
        let is_ours = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "tidegate")
        };
        self.processes(gateway).into_iter().filter(is_ours).collect()
    }

    /// Restarts a gateway that has ended.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer in time.
    #[must_use]
    pub fn start_again(&self, gateway: &str) -> Process {
        let [socket, file] = ["sock", "toml"].map(|ending| self.file_of(gateway, ending));
        let mut command = self.on(gateway);
        command.arg(program()).arg("--socket").arg(socket).arg("run").arg(file);
        let mut process = Process::start(&mut command);
        until("a gateway that was started again", LIMIT, || {
            assert!(process.runs(), "{}", process.all_output());
            answered(&self.request(gateway, "status")).then_some(())
        });
        process
    }

    /// Applies the policy file `text` on `gateway` with `tidegate apply`.
    pub fn apply(&self, gateway: &str, text: &str) {
        let [socket, file] = ["sock", "next.toml"].map(|ending| self.file_of(gateway, ending));
        std::fs::write(&file, text).expect("the folder of the lab is there");
        let mut command = self.on(gateway);
        run(command.arg(program()).arg("--socket").arg(socket).arg("apply").arg(file), LIMIT);
    }

    fn request(&self, gateway: &str, subcommand: &str) -> Finished {
        let mut command = Command::new(program());
        command.arg("--socket").arg(self.file_of(gateway, "sock")).args([subcommand, "--json"]);
        Process::start(&mut command).finish(LIMIT)
    }

    /// The output of `tidegate lab network`.
    ///
    /// # Panics
    ///
    /// If the emulated network does not answer.
    #[must_use]
    pub fn network(&self) -> Value {
        let text =
            run(Command::new(program()).args(["lab", "network", "--lab", &self.name]), LIMIT);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    /// Changes the route with this number in the topology file, counted from 1. `words` are
    /// arguments of `tidegate lab change`.
    pub fn change(&self, route: u32, words: &[&str]) {
        let mut command = Command::new(program());
        command.args(["lab", "change", "--lab", &self.name, &route.to_string()]).args(words);
        run(&mut command, LIMIT);
    }

    /// The output of `subcommand`, such as `trunks`, of `gateway`.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer.
    #[must_use]
    pub fn ask(&self, gateway: &str, subcommand: &str) -> Value {
        let answer = self.request(gateway, subcommand);
        assert!(answered(&answer), "{answer:?}");
        let text = answer.output;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    /// The processes on a host or gateway. The processes of the emulated network are on
    /// [`NETWORK`](Self::NETWORK).
    #[must_use]
    pub fn processes(&self, host: &str) -> Vec<u32> {
        let namespace = format!("tidegate-{}-{host}", self.name);
        let text = run(Command::new("ip").args(["netns", "pids", &namespace]), LIMIT);
        text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    }

    /// The counters of the TCP stack of `host`, as shown by `nstat`.
    #[must_use]
    pub fn counters(&self, host: &str) -> BTreeMap<String, u64> {
        let files = ["/proc/net/snmp", "/proc/net/netstat"];
        let text = run(self.on(host).arg("cat").args(files), LIMIT);
        let rows: Vec<_> = text.lines().collect();
        let pairs = rows.as_chunks::<2>().0.iter().filter(|[names, _]| names.starts_with("Tcp"));
        let row = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
        let each = pairs.flat_map(|pair| {
            let [names, values]: [Vec<String>; 2] = pair.map(row);
            names.into_iter().zip(values)
        });
        each.filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
    }
}

/// Returns `true` if all threads of a process have ended. Until then the process keeps its
/// descriptors open, although it is no longer in a namespace.
fn has_ended(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    })
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The result is ignored: a lab that failed to start need not be taken down.
        let _ = Command::new(program()).args(["lab", "down", "--lab", &self.name]).output();
    }
}
