//! Trunks between live gateways: shares of a path, and what becomes of transfers when a gateway goes away.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{
    Fetch, Host, Lab, Process, Server, Testbed, on_each_backend, pause, until, witnessed,
};

on_each_backend! {
    the_next_hop_is_found_and_the_address_answers
    past_a_peer_that_never_was_there_packets_go_directly_if_so_told
}

const LIMIT: Duration = Duration::from_secs(60);

/// A key that only root can read.
fn key(bed: &Testbed) -> PathBuf {
    let path = bed.file("trunk.key", &format!("{}\n", "0123456789abcdef".repeat(4)));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        .expect("it was written");
    path
}

/// A gateway of a lab with a trunk and a policy that sends all through it.
struct Site<'a> {
    name: &'a str,
    /// Its address, and that of its peer; of each the last number.
    ends: [u8; 2],
    /// The host the peer's address belongs to, by its number in the file.
    next_hop: u8,
    /// Further fields of the trunk.
    fields: &'a str,
}

impl Site<'_> {
    fn trunk(&self, key: &str) -> String {
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

    fn gateway(&self, key: &str) -> String {
        let (name, trunk) = (self.name, self.trunk(key));
        gateway(
            name,
            &format!("{trunk}[[policy]]\nname = \"all\"\naction = \"pass\"\ntrunk = \"{name}\"\n"),
        )
    }
}

fn gateway(name: &str, more: &str) -> String {
    format!(
        "[[gateway]]\nname = \"{name}\"\ninline = '''\n[gateway]\nlan = \"lan\"\nwan = \"wan\"\n{more}'''\n"
    )
}

/// A host, which also has the address of the gateway it is behind: so the network knows the way there.
fn host(name: &str, number: u8, gateway: &str, also: Option<u8>) -> String {
    let also = also.map(|end| format!(", \"10.73.9.{end}\"")).unwrap_or_default();
    format!(
        "[[host]]\nname = \"{name}\"\naddress = [\"10.73.0.{number}\"{also}]\ngateway = \"{gateway}\"\n"
    )
}

fn trunks(lab: &Lab, gateway: &str) -> Value {
    lab.ask(gateway, "trunks")["trunks"].clone()
}

/// User bytes that the only trunk of `gateway` has sent.
fn sent(lab: &Lab, gateway: &str) -> f64 {
    let trunk = &trunks(lab, gateway)[0];
    ["elastic_bytes", "guaranteed_bytes"].iter().filter_map(|it| trunk[it].as_f64()).sum()
}

/// The paper's first experiment (`trunking`, section 7.1) in a short form: two sites send as fast as they
/// can to a third, and what guarantees leave of the path goes as their VMSS say.
#[test]
fn two_sites_share_a_path_as_their_guarantees_and_vmss_say() {
    for (first, second, expected) in [
        (("3.2 Mbit/s", 3_000), ("1.6 Mbit/s", 1_500), [800.0, 400.0]),
        (("1.6 Mbit/s", 3_000), ("3.2 Mbit/s", 1_500), [600.0, 600.0]),
    ] {
        witnessed(|bed| {
            let rates = shares(bed, [first, second]);
            println!("{rates:?} KB/s, in the paper {expected:?}");
            for (rate, expected) in rates.iter().zip(expected) {
                assert!((rate / expected - 1.0).abs() < 0.08, "{rates:?}, not {expected}");
            }
        });
    }
}

/// Kilobytes per second of two sites with these guarantees and VMSS.
fn shares(bed: &Testbed, sites: [(&str, u32); 2]) -> [f64; 2] {
    let key = key(bed).display().to_string();
    let fields =
        sites.map(|(guarantee, vmss)| format!("guarantee = \"{guarantee}\"\nvmss = \"{vmss} B\""));
    let site = |name, local, fields| Site { name, ends: [local, 3], next_hop: 2, fields };
    let (north, south) = (site("north", 1, &fields[0]), site("south", 2, &fields[1]));
    let back =
        |name, peer| Site { name, ends: [3, peer], next_hop: peer - 1, fields: "" }.trunk(&key);
    let topology = [
        host("a", 1, "north", Some(1)),
        host("c", 2, "south", Some(2)),
        host("g", 3, "main", Some(3)),
        host("h", 4, "main", None),
        north.gateway(&key),
        south.gateway(&key),
        gateway("main", &(back("north", 1) + &back("south", 2))),
        "[[route]]\nfrom = [\"a\", \"c\"]\nrate = \"9.6 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = { kind = \"trunk-fifo\", limit = \"512 kB\", threshold = 64 }\n\
         [[route]]\ndelay = \"10 ms\"\n"
            .to_owned(),
    ];
    let lab = Lab::up(bed, &topology.concat());
    let flood = |from: &str, to: &str| {
        let words = ["flood", &format!("{to}:9"), "1500000", "120"];
        Process::start(lab.on(from).arg(env!("CARGO_BIN_EXE_e2e-mix")).args(words))
    };
    let _floods = [flood("a", "10.73.0.3"), flood("c", "10.73.0.4")];
    pause(Duration::from_secs(10));
    let look = || {
        let start = tidegate_e2e::now();
        (start, ["north", "south"].map(|gateway| sent(&lab, gateway)))
    };
    let (from, before) = look();
    pause(Duration::from_secs(25));
    let (to, after) = look();
    let network = lab.network();
    let lost = network["drops"].as_array().into_iter().flatten().filter(|it| it[0] != "aqm");
    assert_eq!(lost.count(), 0, "user packets were lost: {network}");
    let seconds = to.duration_since(from).as_secs_f64();
    [0, 1].map(|site: usize| (after[site] - before[site]) / seconds / 1e3)
}

/// A path of 10 Mbit/s between two sites, and a transfer from the first to the second under way.
fn under_way(bed: &Testbed) -> (Lab, Process, Fetch) {
    let key = key(bed).display().to_string();
    let site = |name, ends, next_hop| Site { name, ends, next_hop, fields: "" }.gateway(&key);
    let topology = [
        host("a", 1, "north", Some(1)),
        host("c", 2, "south", Some(2)),
        site("north", [1, 2], 1),
        site("south", [2, 1], 0),
        "[[route]]\nto = \"c\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = { kind = \"trunk-fifo\", limit = \"256 kB\", threshold = 32 }\n\
         [[route]]\ndelay = \"10 ms\"\n"
            .to_owned(),
    ];
    let lab = Lab::up(bed, &topology.concat());
    let server = lab.serve("a", "cubic");
    let fetch = lab.fetch("c", "10.73.0.1", &["--bytes", "24 MB"]);
    fetch.moves_on(2_000_000, LIMIT);
    (lab, server, fetch)
}

/// In a lab frames do not pass a gateway that is gone: for ten seconds everything is lost.
#[test]
fn a_transfer_outlives_either_gateway_and_ten_seconds_without_a_path() {
    witnessed(|bed| {
        let (lab, _server, fetch) = under_way(bed);
        lab.crash("south");
        pause(Duration::from_secs(10));
        let there = &trunks(&lab, "north")[0];
        assert_eq!(there["other_end"]["state"], "silent", "{there}");
        let _south = lab.start_again("south");
        fetch.moves_on(2_000_000, LIMIT);
        lab.crash("north");
        let _north = lab.start_again("north");
        fetch.moves_on(2_000_000, LIMIT);
        let outcome = fetch.finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}");
        for gateway in ["north", "south"] {
            let trunk = &trunks(&lab, gateway)[0];
            assert_eq!(trunk["other_end"]["state"], "up", "{gateway}: {trunk}");
            assert!(trunk["other_end"]["sessions"].as_u64() >= Some(1), "{gateway}: {trunk}");
        }
    });
}

/// A trunk from the middle of a test bed to an address where nobody is, by way of the WAN host.
fn lonely(bed: &Testbed, v6: bool, fallback: &str) -> String {
    let (local, peer, next_hop) = if v6 {
        ("fd83::77", "fd83:1::1", bed.wan.v6)
    } else {
        ("10.83.0.77", "10.84.0.1", bed.wan.v4)
    };
    let key = key(bed).display().to_string();
    format!(
        r#"
[[trunk]]
name = "t"
local = "{local}"
peer = "{peer}"
next_hop = "{next_hop}"
key_file = "{key}"
fallback = "{fallback}"

[[policy]]
name = "all"
action = "pass"
trunk = "t"
"#
    )
}

fn the_next_hop_is_found_and_the_address_answers(bed: &Testbed, backend: &str) {
    for v6 in [false, true] {
        let gateway = bed.gateway(backend, &lonely(bed, v6, "hold"));
        let of = |host: &Host| host.mac.map(|byte| format!("{byte:02x}")).join(":");
        let said = until("the next hop", LIMIT, || {
            let said = gateway.ask("trunks")["trunks"][0]["other_end"].clone();
            said["next_hop"].is_string().then_some(said)
        });
        assert_eq!(said["next_hop"], of(&bed.wan), "{said}");
        assert_eq!((said["state"].as_str(), said["sessions"].as_u64()), (Some("unknown"), Some(0)));
        // Whoever speaks to the address asks for it; nothing else is ever answered.
        let address = if v6 { "fd83::77" } else { "10.83.0.77" };
        let ask = format!("ping -c 1 -W 1 {address} > /dev/null; ip neighbour show {address}");
        let shell = bed.wan.command("sh").args(["-c", &ask]).output().expect("a shell");
        let known = String::from_utf8_lossy(&shell.stdout).into_owned();
        let port = bed.middle.run("cat /sys/class/net/wan/address");
        assert!(known.contains(port.trim()), "{known}, not {port}");
    }
}

fn past_a_peer_that_never_was_there_packets_go_directly_if_so_told(bed: &Testbed, backend: &str) {
    let server = Server::start(&bed.wan, 7000, "cubic");
    let upload = || server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "2 MB", "--upload"]);
    {
        let gateway = bed.gateway(backend, &lonely(bed, false, "direct"));
        let outcome = upload().finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}");
        let trunk = &gateway.ask("trunks")["trunks"][0];
        assert!(trunk["past_bytes"].as_u64() > Some(2_000_000), "{trunk}");
        assert_eq!(trunk["elastic_bytes"], 0, "{trunk}");
    }
    let gateway = bed.gateway(backend, &lonely(bed, false, "hold"));
    let held = upload();
    pause(Duration::from_secs(10));
    let trunk = &gateway.ask("trunks")["trunks"][0];
    assert_eq!((held.bytes(), &trunk["past_bytes"]), (0, &Value::from(0)), "{trunk}");
    assert!(trunk["waiting"]["packets"].as_u64() > Some(0), "{trunk}");
}
