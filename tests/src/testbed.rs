//! A test bed: two hosts and a machine between them, each in its own network namespace.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs};

use tidegate_wire::build::Frame;

use crate::process::{Process, run};
use crate::wait::until;

/// A host on the LAN, a host on the WAN, and between them a machine with the ports `lan` and `wan`.
///
/// The machine in the middle forwards nothing until a test starts a gateway or a bridge there. Both
/// hosts are in one subnet. Their frames look as on a real wire: the kernel completes all
/// checksums, and sends no frame larger than the MTU.
#[derive(Debug)]
pub struct Testbed {
    /// The host at port `lan`.
    pub lan: Host,
    /// The machine in the middle.
    pub middle: Host,
    /// The host at port `wan`.
    pub wan: Host,
    /// Folder for files of the test.
    pub folder: PathBuf,
    /// Processes that keep the namespaces alive while no other process runs there.
    _keepers: [Process; 3],
    /// The lock that all test beds of this machine share: exclusive, or shared with other test
    /// beds.
    _lock: File,
}

/// States which other test beds may run at the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// No other test bed. For tests of rates, delays and times, which other test beds would
    /// disturb.
    Alone,
    /// Other test beds of this kind. For tests of contents and counters, and for comparisons within
    /// a test, at rates far below the machine's capacity.
    BesideOthers,
}

/// A host of a test bed: a network namespace.
#[derive(Clone, Debug)]
pub struct Host {
    namespace: String,
    /// A process that keeps the namespace alive.
    keeper: u32,
    /// If `true`, commands see the mounts of the process `keeper` instead of this machine's mounts.
    own_mounts: bool,
    /// IPv4 address of interface `eth0`.
    pub v4: IpAddr,
    /// IPv6 address of interface `eth0`.
    pub v6: IpAddr,
    /// MAC address of interface `eth0`.
    pub mac: [u8; 6],
}

const PREFIX: &str = "tidegate-e2e-";

/// Shell commands that give the middle machine an empty `/run`, and a `/sys` that shows its own
/// interfaces.
const OWN_MOUNTS: &str = "mount -t tmpfs none /run && mount -t sysfs none /sys &&";

/// Time limit of a set-up command. All of them are much faster.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

impl Testbed {
    /// Creates a test bed with exclusive use of the machine. If this machine cannot run one, prints
    /// the reason and returns `None`.
    ///
    /// # Panics
    ///
    /// If the test bed cannot be set up although this machine allows namespaces.
    #[must_use]
    pub fn new() -> Option<Self> {
        Self::sharing(Sharing::Alone)
    }

    /// Creates a test bed. `sharing` states which other test beds may run at the same time. If this
    /// machine cannot run one, prints the reason and returns `None`.
    ///
    /// # Panics
    ///
    /// If the test bed cannot be set up although this machine allows namespaces.
    #[must_use]
    pub fn sharing(sharing: Sharing) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let lock = wait_for(sharing);
        remove_abandoned();
        let name =
            format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let host = |part: &str, number| Host::new(format!("{name}-{part}"), number);
        let (mut lan, mut middle, mut wan) = (host("lan", 1), host("mid", 3), host("wan", 2));
        if let Err(reason) = try_ip(&format!("netns add {}", lan.namespace)) {
            skip(&format!("no network namespaces here: {reason}"));
            return None;
        }
        ip(&format!("netns add {}", middle.namespace));
        ip(&format!("netns add {}", wan.namespace));
        let keepers = [lan.keep(""), middle.keep(OWN_MOUNTS), wan.keep("")];
        let folder = env::temp_dir().join(&name);
        let bed = Self { lan, middle, wan, folder, _keepers: keepers, _lock: lock };
        fs::create_dir_all(&bed.folder)
            .unwrap_or_else(|error| panic!("{}: {error}", bed.folder.display()));
        bed.connect();
        Some(bed)
    }

    fn connect(&self) {
        let middle = &self.middle.namespace;
        self.middle.set("net/ipv6/conf/all/disable_ipv6", "1");
        self.middle.set("net/ipv6/conf/default/disable_ipv6", "1");
        for (host, port) in [(&self.lan, "lan"), (&self.wan, "wan")] {
            let space = &host.namespace;
            ip(&format!("link add {port} netns {middle} type veth peer name eth0 netns {space}"));
            let mac = host.mac.map(|byte| format!("{byte:02x}")).join(":");
            ip(&format!("-n {space} link set eth0 address {mac}"));
            host.run("ethtool -K eth0 tx off tso off gso on gro on txvlan off");
            ip(&format!("-n {space} address add {}/24 dev eth0", host.v4));
            ip(&format!("-n {space} address add {}/64 dev eth0 nodad", host.v6));
            ip(&format!("-n {space} link set lo up"));
            ip(&format!("-n {space} link set eth0 up"));
            ip(&format!("-n {middle} link set {port} up"));
        }
    }

    /// Makes the kernel of the middle machine forward frames, like a plain wire.
    pub fn bridge(&self) {
        let middle = &self.middle.namespace;
        ip(&format!("-n {middle} link add bridge type bridge"));
        for port in ["lan", "wan"] {
            ip(&format!("-n {middle} link set {port} master bridge"));
        }
        ip(&format!("-n {middle} link set bridge up"));
    }

    /// Another host, without a network. It is removed with the test bed. The addresses in the
    /// returned value are placeholders, and the host does not have them.
    pub(crate) fn another_host(&self, part: &str) -> Host {
        let name = self.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let host = Host::new(format!("{}-{part}", name.unwrap_or_default()), 0);
        ip(&format!("netns add {}", host.namespace));
        host
    }

    /// Creates a file of the test with this content.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        remove_all(|namespace| namespace.starts_with(&format!("{name}-")));
        // The result is ignored: a folder that stays does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Host {
    /// A UDP datagram from this host to the host `receiver`, over IPv4 or IPv6. Returns the fields
    /// of its frame.
    #[must_use]
    pub fn datagram(&self, receiver: &Self, v6: bool, ports: (u16, u16), payload: &[u8]) -> Frame {
        let at = |host: &Self, port| SocketAddr::new(if v6 { host.v6 } else { host.v4 }, port);
        Frame {
            source: self.mac,
            destination: receiver.mac,
            payload: payload.to_vec(),
            ..Frame::udp(at(self, ports.0), at(receiver, ports.1))
        }
    }

    fn new(namespace: String, number: u8) -> Self {
        Self {
            namespace,
            keeper: 0,
            own_mounts: false,
            v4: Ipv4Addr::new(10, 83, 0, number).into(),
            v6: Ipv6Addr::new(0xfd83, 0, 0, 0, 0, 0, 0, number.into()).into(),
            mac: [0x02, 0, 0, 0, 0, number],
        }
    }

    /// The name of the host's network namespace.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Starts the process that keeps the namespaces of this host alive. If there are shell commands
    /// `first`, it runs them in its own mount namespace.
    pub(crate) fn keep(&mut self, first: &str) -> Process {
        let mut command = self.command("unshare");
        command.args((!first.is_empty()).then_some("--mount"));
        let shell = format!("{first} echo kept && exec sleep 86400");
        let keeper = Process::start(command.args(["sh", "-c", &shell]));
        until("a namespace of its own", COMMAND_LIMIT, || keeper.lines().pop());
        (self.keeper, self.own_mounts) = (keeper.id(), !first.is_empty());
        keeper
    }

    /// The content of `file` in `/proc/net` on this host.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    #[must_use]
    pub fn net(&self, file: &str) -> String {
        let path = format!("/proc/{}/net/{file}", self.keeper);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A command that runs `program` on this host. The started process itself becomes `program`,
    /// without a parent process in between.
    #[must_use]
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace));
        command.args(self.own_mounts.then(|| format!("--mount=/proc/{}/ns/mnt", self.keeper)));
        command.arg("--").arg(program.as_ref());
        command
    }

    /// A command that runs `program` on this host by `ip netns exec`. The program gets a copy of
    /// the machine's mount namespace, which ends with the program. The started process itself
    /// becomes the program.
    #[must_use]
    pub fn netns_exec(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program.as_ref());
        command
    }

    /// Runs a command on this host to its end. White space separates the words of the command.
    pub fn run(&self, words: &str) -> String {
        let mut words = words.split_whitespace();
        run(self.command(words.next().unwrap_or_default()).args(words), COMMAND_LIMIT)
    }

    /// Sets a kernel parameter of this host.
    pub fn set(&self, parameter: &str, value: &str) {
        let write = format!("echo '{value}' > /proc/sys/{parameter}");
        run(self.command("sh").args(["-c", &write]), COMMAND_LIMIT);
    }

    /// Limits the sending rate of this host to `rate` (in the notation of `tc`), like a slow link.
    /// If the kernel does not support this, prints the reason and returns `false`.
    #[must_use]
    pub fn slow_down(&self, rate: &str) -> bool {
        self.slow_down_at("eth0", rate)
    }

    /// As [`slow_down`](Self::slow_down), at another interface.
    #[must_use]
    pub fn slow_down_at(&self, interface: &str, rate: &str) -> bool {
        let words =
            format!("qdisc replace dev {interface} root tbf rate {rate} burst 16kb limit 200kb");
        let tc = Process::start(self.command("tc").args(words.split(' '))).finish(COMMAND_LIMIT);
        if !tc.status.success() {
            skip(&format!("no token bucket in this kernel: {}", tc.errors));
        }
        tc.status.success()
    }

    /// Lets the interface complete checksums and split large segments, as on most real hosts.
    pub fn offload(&self) {
        self.run("ethtool -K eth0 tx on tso on gso on");
    }

    /// Bytes received on `interface`, including headers.
    ///
    /// # Panics
    ///
    /// If there is no such interface.
    #[must_use]
    pub fn received_bytes(&self, interface: &str) -> u64 {
        self.received(interface)[1]
    }

    /// Frames received on `interface`, and their bytes.
    ///
    /// # Panics
    ///
    /// If there is no such interface.
    #[must_use]
    pub fn received(&self, interface: &str) -> [u64; 2] {
        let text = self.net("dev");
        let start = format!("{interface}:");
        let row = text.lines().find_map(|line| line.trim_start().strip_prefix(&start));
        let mut numbers = row.into_iter().flat_map(str::split_whitespace).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(bytes)), Some(Ok(frames))) => [frames, bytes],
            _ => panic!("no {interface} in\n{text}"),
        }
    }

    /// Returns the counter `name` of the host's TCP stack, such as `RetransSegs`, from
    /// `/proc/net/snmp` or `/proc/net/netstat`.
    ///
    /// # Panics
    ///
    /// If there is no such counter.
    #[must_use]
    pub fn tcp_counter(&self, name: &str) -> u64 {
        let files = [("snmp", "Tcp: "), ("netstat", "TcpExt: ")];
        let value = files.iter().find_map(|(file, row)| counter(&self.net(file), row, name));
        value.unwrap_or_else(|| panic!("no counter {name} of TCP"))
    }
}

/// The counter `name` in `text`, whose rows with the prefix `start` hold names and then values.
fn counter(text: &str, start: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(start));
    let at = rows.next()?.split_whitespace().position(|each| each == name)?;
    rows.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// The program under test: the path in `TIDEGATE_BIN`, otherwise a new build.
///
/// # Panics
///
/// If it cannot be built.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| env::var_os("TIDEGATE_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(cargo);
    command.args(["build", "--locked", "--package", "tidegate", "--message-format", "json"]);
    let said = run(command.current_dir(root), Duration::from_secs(1_200));
    let executable = said
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    executable.unwrap_or_else(|| panic!("cargo built no program:\n{said}"))
}

pub(crate) fn ip(words: &str) {
    try_ip(words).unwrap_or_else(|error| panic!("{error}"));
}

fn try_ip(words: &str) -> Result<(), String> {
    let failed = |why: &str| format!("`ip {words}` failed: {}", why.trim());
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    output
        .status
        .success()
        .then_some(())
        .ok_or_else(|| failed(&String::from_utf8_lossy(&output.stderr)))
}

/// Waits for the lock that all test beds of all processes share. Dropping the file releases it.
fn wait_for(sharing: Sharing) -> File {
    let path = env::temp_dir().join(format!("{PREFIX}turn"));
    let take = |file: &File| match sharing {
        Sharing::Alone => file.lock(),
        Sharing::BesideOthers => file.lock_shared(),
    };
    let file = File::create(&path).and_then(|file| take(&file).map(|()| file));
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reports that a test is skipped. This is shown even if the output of passing tests is hidden.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // The result is ignored: if standard error is closed, there is no other way to inform anybody.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// Removes the namespaces and folders of killed tests.
fn remove_abandoned() {
    remove_all(|name| {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    });
}

/// Removes the test namespaces whose name `accepts` selects.
fn remove_all(accepts: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| accepts(name)).collect::<Vec<_>>().iter().for_each(|name| remove(name));
}

/// Removes a test namespace, and kills the processes in it.
fn remove(namespace: &str) {
    let inside = Command::new("ip").args(["netns", "pids", namespace]).output();
    let inside = inside.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    for pid in inside.unwrap_or_default().split_whitespace() {
        // The result is ignored: the process may have ended meanwhile.
        let _ = Command::new("kill").args(["-KILL", pid]).status();
    }
    // The result is ignored: the set-up may have failed before the namespace existed.
    let _ = try_ip(&format!("netns delete {namespace}"));
}
