//! Topology files for labs with trunks, and functions that query their gateways. A trunk carries
//! the user packets between two gateways.

use std::os::unix::fs::PermissionsExt;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_e2e::{Lab, Process, Testbed, until};

use crate::LIMIT;

/// Writes a trunk key into a file that only root can read. Returns the path of the file.
pub(crate) fn key(bed: &Testbed) -> String {
    let path = bed.file("trunk.key", &format!("{KEY}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        .expect("it was written");
    path.display().to_string()
}

pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A gateway of a lab with a trunk, and with a policy that sends all traffic through it.
pub(crate) struct Site<'a> {
    pub(crate) name: &'a str,
    /// The last byte of this end's address, and of the peer's address.
    pub(crate) ends: [u8; 2],
    /// The number of the host, in the topology file, that has the peer's address.
    pub(crate) next_hop: u8,
    /// Further fields of the trunk.
    pub(crate) fields: &'a str,
}

impl Site<'_> {
    pub(crate) fn trunk(&self, key: &str) -> String {
        let Self { name, ends: [local, peer], next_hop, fields } = self;
        format!(
            r#"
[[trunk]]
name = "{name}"
local = "10.73.9.{local}"
peer = "10.73.9.{peer}"
next_hop = "02:74:67:00:00:{next_hop:02x}"
key_file = "{key}"
{fields}
"#
        )
    }

    pub(crate) fn gateway(&self, key: &str) -> String {
        let (name, trunk) = (self.name, self.trunk(key));
        gateway(
            name,
            &format!("{trunk}[[policy]]\nname = \"all\"\naction = \"pass\"\ntrunk = \"{name}\"\n"),
        )
    }
}

pub(crate) fn gateway(name: &str, more: &str) -> String {
    format!(
        "[[gateway]]\nname = \"{name}\"\ninline = '''\n[gateway]\nlan = \"lan\"\nwan = \"wan\"\n{more}'''\n"
    )
}

/// A host that also has the address of its gateway. The emulated network thus has a route to that
/// address.
pub(crate) fn host(name: &str, number: u8, gateway: &str, also: Option<u8>) -> String {
    let also = also.map(|end| format!(", \"10.73.9.{end}\"")).unwrap_or_default();
    format!(
        "[[host]]\nname = \"{name}\"\naddress = [\"10.73.0.{number}\"{also}]\ngateway = \"{gateway}\"\n"
    )
}

/// The queue of a router that drops management packets early. It is larger than equation 2 of the
/// paper `trunking` requires.
pub(crate) const ROUTER: &str = "kind = \"trunk-fifo\", limit = \"512 kB\", threshold = 64";

/// A topology in which two sites share a path of 9.6 Mbit/s to a third site. Traffic goes from host
/// `a` (gateway north) and host `c` (gateway south) to the hosts `g` and `h` (gateway main).
/// `fields` are the settings of the two trunks. If `fields` is `None`, there are no trunks, and
/// only the path's `queue` divides the rate.
pub(crate) fn meeting(key: &str, fields: Option<[&str; 2]>, queue: &str) -> String {
    let site =
        |name, local, fields| Site { name, ends: [local, 3], next_hop: 2, fields }.gateway(key);
    let back =
        |name, peer| Site { name, ends: [3, peer], next_hop: peer - 1, fields: "" }.trunk(key);
    let gateways = match fields {
        Some([north, south]) => [
            site("north", 1, north),
            site("south", 2, south),
            gateway("main", &(back("north", 1) + &back("south", 2))),
        ],
        None => ["north", "south", "main"].map(|name| gateway(name, "")),
    };
    let hosts = [
        host("a", 1, "north", Some(1)),
        host("c", 2, "south", Some(2)),
        host("g", 3, "main", Some(3)),
        host("h", 4, "main", None),
    ];
    format!(
        "{}{}[[route]]\nfrom = [\"a\", \"c\"]\nrate = \"9.6 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = {{ {queue} }}\n[[route]]\ndelay = \"10 ms\"\n",
        hosts.concat(),
        gateways.concat(),
    )
}

/// Starts `e2e-mix` on `host`.
pub(crate) fn mix(lab: &Lab, host: &str, words: &[&str]) -> Process {
    Process::start(lab.on(host).arg(env!("CARGO_BIN_EXE_e2e-mix")).args(words))
}

pub(crate) fn trunks(lab: &Lab, gateway: &str) -> Value {
    lab.ask(gateway, "trunks")["trunks"].clone()
}

/// Waits until all `many` trunks of north and south have a session at both ends.
pub(crate) fn are_up(lab: &Lab, many: usize) {
    for gateway in ["north", "south"] {
        let up = |trunk: &Value| trunk["other_end"]["state"] == "up";
        until("other ends", LIMIT, || {
            let all = trunks(lab, gateway);
            let all = all.as_array()?;
            (all.len() == many && all.iter().all(up)).then_some(())
        });
    }
}

/// The drops, by reason, in a report of the network or of a gateway.
pub(crate) fn drops<T: DeserializeOwned>(said: &Value) -> T {
    let drops = serde_json::from_value(said["drops"].clone());
    drops.unwrap_or_else(|error| panic!("no drops ({error}): {said}"))
}

/// Number of user packets that the network dropped. The management packets that it drops early do
/// not count.
pub(crate) fn lost(lab: &Lab) -> u64 {
    let drops: Vec<(String, u64)> = drops(&lab.network());
    drops.iter().filter(|it| it.0 != "aqm").map(|it| it.1).sum()
}

/// User bytes that the only trunk of `gateway` has sent.
pub(crate) fn sent(lab: &Lab, gateway: &str) -> f64 {
    let trunk = &trunks(lab, gateway)[0];
    ["elastic_bytes", "guaranteed_bytes"].iter().filter_map(|it| trunk[it].as_f64()).sum()
}
