//! Two sites, each with an aggregate gateway as its router. The two gateways carry the TCP
//! connections of users between the sites. The hosts form a chain: client, gateway, gateway,
//! server.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};
use serde_json::Value;

use crate::process::{Process, run};
use crate::testbed::{Host, Testbed, ip, program};
use crate::wait::until;

/// A client and its gateway at one site, and a server and its gateway at the other site.
#[derive(Debug)]
pub struct Sites<'a> {
    bed: &'a Testbed,
    /// The client, at the first site.
    pub client: Host,
    /// The gateways of the first and the second site. They are the routers of their sites.
    pub gateways: [Host; 2],
    /// The server, at the second site.
    pub server: Host,
    keys: [String; 2],
    _keepers: Vec<Process>,
}

const LIMIT: Duration = Duration::from_secs(30);

/// An address in one of three networks: 0 is the path between the sites, 1 the first site, 2 the
/// second site. `host` is the last byte of the address.
fn v4(network: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, 85, network, host).into()
}

fn v6(network: u16, host: u16) -> IpAddr {
    Ipv6Addr::new(0xfd85, 0, 0, network, 0, 0, 0, host).into()
}

impl<'a> Sites<'a> {
    /// Creates hosts, routes and keys, but starts no gateway. `bed` is not used, but while it
    /// exists, no other test runs.
    #[must_use]
    pub fn new(bed: &'a Testbed) -> Self {
        let mut hosts = ["client", "a", "b", "server"].map(|part| bed.another_host(part));
        let [client, a, b, server] = &mut hosts;
        (client.v4, client.v6) = (v4(1, 2), v6(1, 2));
        (a.v4, a.v6) = (v4(0, 1), v6(0, 1));
        (b.v4, b.v6) = (v4(0, 2), v6(0, 2));
        (server.v4, server.v6) = (v4(2, 2), v6(2, 2));
        let keepers = [client.keep(""), a.keep(OWN_RUN), b.keep(OWN_RUN), server.keep("")];
        for (left, port, right, other) in [
            (&*client, "eth0", &*a, "lan"),
            (&*a, "wan", &*b, "wan"),
            (&*b, "lan", &*server, "eth0"),
        ] {
            let (left, right) = (left.namespace(), right.namespace());
            ip(&format!("link add {port} netns {left} type veth peer name {other} netns {right}"));
        }
        let [client, a, b, server] = hosts;
        let address = |host: &Host, port: &str, network: u8, number: u8| {
            let space = host.namespace();
            let (four, six) = (v4(network, number), v6(network.into(), number.into()));
            ip(&format!("-n {space} link set lo up"));
            ip(&format!("-n {space} link set {port} up"));
            ip(&format!("-n {space} address add {four}/24 dev {port}"));
            ip(&format!("-n {space} address add {six}/64 dev {port} nodad"));
        };
        address(&client, "eth0", 1, 2);
        address(&a, "lan", 1, 1);
        address(&a, "wan", 0, 1);
        address(&b, "wan", 0, 2);
        address(&b, "lan", 2, 1);
        address(&server, "eth0", 2, 2);
        for (host, network, via) in [
            (&client, 0, (1, 1)),
            (&client, 2, (1, 1)),
            (&a, 2, (0, 2)),
            (&b, 1, (0, 1)),
            (&server, 0, (2, 1)),
            (&server, 1, (2, 1)),
        ] {
            let space = host.namespace();
            let (four, six) = (v4(via.0, via.1), v6(via.0.into(), via.1.into()));
            ip(&format!("-n {space} route add {}/24 via {four}", v4(network, 0)));
            ip(&format!("-n {space} route add {}/64 via {six}", v6(network.into(), 0)));
        }
        for router in [&a, &b] {
            router.set("net/ipv4/ip_forward", "1");
            router.set("net/ipv6/conf/all/forwarding", "1");
        }
        let keys = ["a.key", "b.key"].map(|name| public_key(&bed.folder.join(name)));
        Self { bed, client, gateways: [a, b], server, keys, _keepers: keepers.into() }
    }

    /// Starts the gateway of the first site (`site` is 0) or the second site (1). Adds the lines
    /// `more` to the gateway's configuration file. Returns as soon as the gateway answers.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer in time.
    #[must_use]
    pub fn start(&self, site: usize, more: &str) -> Process {
        let file = self.file(site, more);
        let mut command = self.gateways[site].command(program());
        let mut process = Process::start(command.arg("aggregate").arg(file));
        until("an aggregate gateway", LIMIT, || {
            assert!(process.runs(), "{}", process.all_output());
            self.asked(site).map(drop)
        });
        process
    }

    /// Writes the configuration file of the gateway at `site`, with the additional lines `more`.
    #[must_use]
    pub fn file(&self, site: usize, more: &str) -> PathBuf {
        let (own, peer) = (&self.gateways[site], &self.gateways[1 - site]);
        let name = ["a", "b"][site];
        let key_file = self.bed.folder.join(format!("{name}.key"));
        let network = if site == 0 { 2 } else { 1 };
        let text = format!(
            "[aggregate]\nlisten = \"{}:4755\"\npeer = \"{}:4755\"\nkey_file = \"{}\"\npeer_key = \"{}\"\n\
             destinations = [\"{}/24\", \"{}/64\"]\n{more}\n",
            own.v4,
            peer.v4,
            key_file.display(),
            self.keys[1 - site],
            v4(network, 0),
            v6(network.into(), 0),
        );
        self.bed.file(&format!("{name}.toml"), &text)
    }

    fn asked(&self, site: usize) -> Option<Value> {
        let mut command = self.gateways[site].command(program());
        let said = Process::start(command.args(["aggregate", "status", "--json"])).finish(LIMIT);
        // Exit status 3 means that the peer is down.
        matches!(said.status.code(), Some(0 | 3))
            .then(|| serde_json::from_str(&said.output).ok())?
    }

    /// The output of `tidegate aggregate status --json`.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer.
    #[must_use]
    pub fn status(&self, site: usize) -> Value {
        self.asked(site).expect("the gateway answers")
    }

    /// Waits until both gateways are connected.
    pub fn connected(&self) {
        for at in [0, 1] {
            until("the peer", LIMIT, || (self.status(at)["peer"]["is_up"] == true).then_some(()));
        }
    }
}

/// Mounts a separate `/run` for a gateway. Both gateways can then have a control socket of the same
/// name.
const OWN_RUN: &str = "mount -t tmpfs none /run &&";

/// Creates a private key. Returns the public key.
fn public_key(path: &PathBuf) -> String {
    let said = run(Command::new(program()).args(["aggregate", "key"]).arg(path), LIMIT);
    let mode = fs::metadata(path).expect("the key was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    said.trim().to_owned()
}

impl Host {
    /// Runs `act` on a new thread in this host's network namespace. Sockets that `act` opens belong
    /// to that namespace.
    ///
    /// # Panics
    ///
    /// If `act` panics, or the namespace no longer exists.
    pub fn within<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let path = format!("/run/netns/{}", self.namespace());
        thread::spawn(move || {
            let space = fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            setns(space, CloneFlags::CLONE_NEWNET).expect("the namespace of a test");
            act()
        })
    }
}
