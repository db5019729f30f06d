//! Live test: trunks carry user packets in datagrams, over a path whose MTU is smaller than the MTU
//! of the interfaces. A trunk carries the user packets between two gateways.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tidegate_e2e::{Fetch, Process, Testbed, program, run, until, witnessed_beside_others};

use super::LIMIT;

/// Two sites, each with a user, a gateway and a router. The cable between the two routers has an
/// MTU of 1400 bytes.
struct Sites<'a> {
    name: String,
    folder: &'a Path,
    /// The processes of the gateways, and the processes that add VLAN tags for the routers.
    processes: Vec<Process>,
}

/// The user, the gateway and the router of each site.
const HOSTS: [[&str; 3]; 2] = [["a", "ga", "ra"], ["b", "gb", "rb"]];

/// VLAN of the datagrams, in the test with VLAN tags.
const VLAN: &str = "7";

/// The MTU of the cable between the routers.
const PATH: u64 = 1_400;

impl Drop for Sites<'_> {
    fn drop(&mut self) {
        self.processes.clear();
        for host in HOSTS.as_flattened() {
            let space = self.namespace(host);
            let _ = Command::new("ip").args(["netns", "delete", &space]).status();
        }
    }
}

impl<'a> Sites<'a> {
    fn new(bed: &'a Testbed) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-e2e-{}-carried{number}", std::process::id());
        let sites = Self { name, folder: &bed.folder, processes: Vec::new() };
        for host in HOSTS.as_flattened() {
            ip(&format!("netns add {}", sites.namespace(host)));
            ip(&format!("-n {} link set lo up", sites.namespace(host)));
        }
        for (site, [user, gateway, router]) in (1..).zip(HOSTS) {
            sites.cable([user, gateway], ["eth0", "lan"]);
            sites.cable([gateway, router], ["wan", "in"]);
            sites.address(user, "eth0", &[format!("10.{site}.0.7/24"), format!("fd0{site}::7/64")]);
            sites.address(router, "in", &[format!("10.{site}.0.1/24"), format!("fd0{site}::1/64")]);
            sites.set(router, "net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
            ip(&format!("-n {} route add default via 10.{site}.0.1", sites.namespace(user)));
            ip(&format!("-n {} route add default via fd0{site}::1", sites.namespace(user)));
        }
        sites.cable(["ra", "rb"], ["out", "out"]);
        for (router, site, other) in [("ra", 1, 2), ("rb", 2, 1)] {
            let space = sites.namespace(router);
            sites.address(
                router,
                "out",
                &[format!("10.9.0.{site}/24"), format!("fd09::{site}/64")],
            );
            ip(&format!("-n {space} link set out mtu {PATH}"));
            ip(&format!("-n {space} route add 10.{other}.0.0/24 via 10.9.0.{other}"));
            ip(&format!("-n {space} route add fd0{other}::/64 via fd09::{other}"));
        }
        sites
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    fn on(&self, host: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host)]);
        command
    }

    fn output_of(&self, host: &str, words: &str) -> String {
        run(self.on(host).args(words.split(' ')), LIMIT)
    }

    fn set(&self, host: &str, words: &str) {
        run(self.on(host).args(["sysctl", "-q", "-w"]).args(words.split(' ')), LIMIT);
    }

    fn cable(&self, hosts: [&str; 2], interfaces: [&str; 2]) {
        let [one, other] = hosts.map(|host| self.namespace(host));
        let [first, second] = interfaces;
        ip(&format!("link add {first} netns {one} type veth peer name {second} netns {other}"));
        for (space, interface) in [(one, first), (other, second)] {
            ip(&format!("-n {space} link set {interface} up"));
        }
    }

    fn address(&self, host: &str, interface: &str, addresses: &[String]) {
        for address in addresses {
            let nodad = if address.contains(':') { "nodad" } else { "" };
            let space = self.namespace(host);
            ip(&format!("-n {space} address add {address} dev {interface} {nodad}"));
        }
    }

    /// Makes the routers use the VLAN for packets to and from the ends of the trunk.
    fn tag(&mut self, v6: bool) {
        for (site, [_, gateway, router]) in (1..).zip(HOSTS) {
            let wan = self.output_of(gateway, "cat /sys/class/net/wan/address");
            let mut command = self.on(router);
            command.arg(env!("CARGO_BIN_EXE_e2e-frames")).args(["tag", "in", VLAN, wan.trim()]);
            let tags = Process::start(&mut command);
            until("what tags", LIMIT, || tags.lines().pop());
            self.processes.push(tags);
            let space = self.namespace(router);
            ip(&format!("-n {space} link set tagged up"));
            ip(&format!("-n {space} route add {} dev tagged", at(site, "77", v6)));
        }
    }

    /// Starts both gateways, with a trunk over IPv4 or IPv6, and waits until the trunk has a
    /// session.
    fn begin(&mut self, backend: &str, v6: bool, tagged: bool) {
        let key = self.folder.join("carried.key");
        std::fs::write(&key, "0123456789abcdef".repeat(4)).expect("a folder");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("a key");
        if tagged {
            self.tag(v6);
        }
        for (site, [_, gateway, router]) in (1..).zip(HOSTS) {
            let (local, peer) = (at(site, "77", v6), at(3 - site, "77", v6));
            // The process that adds VLAN tags answers no ARP requests. So the gateway's file states
            // the MAC address of the next hop.
            let (hop, vlan) = match tagged {
                true => (
                    self.output_of(router, "cat /sys/class/net/in/address"),
                    format!("vlan = {VLAN}"),
                ),
                false => (at(site, "1", v6), String::new()),
            };
            let text = format!(
                r#"
[gateway]
lan = "lan"
wan = "wan"
backend = "{backend}"

[[trunk]]
name = "t"
local = "{local}"
peer = "{peer}"
next_hop = "{}"
key_file = "{}"
encapsulation = "udp"
{vlan}

[[policy]]
name = "there"
match = {{ dst = ["10.{}.0.0/24", "fd0{}::/64"], direction = "up" }}
action = "pass"
trunk = "t"
"#,
                hop.trim(),
                key.display(),
                3 - site,
                3 - site
            );
            let file = self.folder.join(format!("{gateway}.toml"));
            std::fs::write(&file, text).expect("a folder");
            let (program, socket) = (program().display(), self.socket(gateway));
            let script = format!(
                "mount -t tmpfs none /run && exec {program} --socket {socket} run {}",
                file.display()
            );
            self.processes.push(Process::start(self.on(gateway).args(["sh", "-c", &script])));
        }
        for [_, gateway, _] in HOSTS {
            until("gateways that know each other", LIMIT, || {
                let up = self.ask(gateway)?["other_end"]["state"] == "up";
                assert!(
                    self.processes.iter_mut().all(Process::runs),
                    "{}",
                    self.processes[0].all_output()
                );
                up.then_some(())
            });
        }
    }

    fn socket(&self, gateway: &str) -> String {
        self.folder.join(format!("{gateway}.sock")).display().to_string()
    }

    /// A gateway's report of its trunk. `None` if it does not answer.
    fn ask(&self, gateway: &str) -> Option<Value> {
        let mut command = Command::new(program());
        command.args(["--socket", &self.socket(gateway), "trunks", "--json"]);
        let said = Process::start(&mut command).finish(LIMIT).output;
        serde_json::from_str::<Value>(&said).ok().map(|it| it["trunks"][0].clone())
    }

    /// The output of `ping` from one user to the other, with `payload` bytes. Routers must not
    /// fragment these packets.
    fn ping(&self, from: usize, v6: bool, payload: u64) -> String {
        let other = 2 - from;
        let (family, to) =
            if v6 { ("-6", format!("fd0{other}::7")) } else { ("-4", format!("10.{other}.0.7")) };
        let size = payload.to_string();
        let words = [family, "-M", "do", "-c", "3", "-i", "0.2", "-W", "1", "-s", &size, &to];
        let said = Process::start(self.on(HOSTS[from][0]).arg("ping").args(words)).finish(LIMIT);
        said.output + &said.errors
    }
}

/// An address at a site.
fn at(site: usize, last: &str, v6: bool) -> String {
    if v6 { format!("fd0{site}::{last}") } else { format!("10.{site}.0.{last}") }
}

fn ip(words: &str) {
    run(Command::new("ip").args(words.split_whitespace()), LIMIT);
}

#[test]
fn transfers_in_datagrams_arrive_intact_and_senders_learn_the_mtu() {
    witnessed_beside_others(|bed| {
        for (backend, v6) in [("af-packet", false), ("af-xdp", true)] {
            carried(&mut Sites::new(bed), backend, v6, false);
        }
    });
}

/// Catches: datagrams sent without the VLAN tag; datagrams refused because they arrive with the
/// tag.
#[test]
fn transfers_in_tagged_datagrams_arrive_intact() {
    witnessed_beside_others(|bed| {
        for (backend, v6) in [("af-packet", true), ("af-xdp", false)] {
            let mut sites = Sites::new(bed);
            carried(&mut sites, backend, v6, true);
            for [_, _, router] in HOSTS {
                let bytes = "cat /sys/class/net/tagged/statistics/rx_bytes";
                let came: u64 = sites.output_of(router, bytes).trim().parse().expect("a number");
                assert!(came > 2_000_000, "{backend}: {came} bytes in the VLAN");
            }
        }
    });
}

fn carried(sites: &mut Sites<'_>, backend: &str, v6: bool, tagged: bool) {
    if backend == "af-xdp" {
        for [user, ..] in HOSTS {
            run(sites.on(user).args(["ethtool", "-K", "eth0", "tx", "off", "tso", "off"]), LIMIT);
        }
    }
    sites.begin(backend, v6, tagged);
    let fits = PATH - if v6 { 71 } else { 51 };
    for (from, inner, headers) in [(0, false, 28), (0, true, 48), (1, false, 28)] {
        let said = sites.ping(from, inner, fits - headers + 1);
        let texts = [format!("mtu = {fits}"), format!("mtu={fits}"), format!("mtu: {fits}")];
        assert!(texts.iter().any(|it| said.contains(it)), "{backend}: {fits}, not\n{said}");
        let said = sites.ping(from, inner, fits - headers);
        assert!(said.contains("bytes from"), "{backend}: {said}");
    }
    let _servers = HOSTS.map(|[user, ..]| {
        let mut command = sites.on(user);
        let server = Process::start(command.arg(program()).args(["traffic", "serve"]));
        until("a server", LIMIT, || server.lines().pop());
        server
    });
    let transfers = [("a", "10.2.0.7:7000"), ("b", "[fd01::7]:7000")].map(|(user, server)| {
        let words = ["traffic", "fetch", server, "--interval", "100 ms", "--bytes", "2 MB"];
        Fetch::of(Process::start(sites.on(user).arg(program()).args(words)))
    });
    for transfer in transfers {
        let outcome = transfer.finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{backend}: {outcome:?}");
    }
    for [_, gateway, _] in HOSTS {
        let trunk = sites.ask(gateway).expect("it answers");
        let carried = &trunk["encapsulation"];
        assert_eq!(carried["path_mtu_bytes"], PATH, "{trunk}");
        for way in ["sent_packets", "received_packets"] {
            assert!(carried[way].as_u64() > Some(700), "{backend}: {trunk}");
        }
        // Before the other gateway runs, routers report that it is unreachable. The trunk counts
        // these messages as refused packets of unknown senders (`stranger`).
        let mut refused = trunk["other_end"]["refused"].clone();
        let _ = refused.as_object_mut().expect("counts").remove("stranger");
        assert_eq!(refused, serde_json::json!({}), "{trunk}");
    }
}
