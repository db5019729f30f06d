//! Live test of nested trunks: an outer trunk carries the packets of inner trunks. A trunk carries
//! the user packets between two gateways.

use std::time::Duration;

use tidegate_e2e::{Lab, Testbed, now, pause, run, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{ROUTER, Site, gateway, key, lost, mix};

/// Inner trunks (level 2): name of the gateway, last byte of the gateway's address, name of the
/// gateway of the outer trunk, and the inner trunk's share of the path in the paper.
const INNER: [(&str, u8, &str, f64); 3] =
    [("l2-1", 11, "l1-1", 0.25), ("l2-2", 12, "l1-1", 0.25), ("l2-3", 13, "l1-2", 0.5)];

/// Outer trunks (level 1): name of the gateway, last byte of its address, and number of the source
/// host that is the next hop towards it.
const OUTER: [(&str, u8, u8); 2] = [("l1-1", 1, 0), ("l1-2", 2, 2)];

/// Last bytes of the addresses at which the trunks of each level end. The first receiving host
/// (sink) has these addresses. `SINK` is the number of this host.
const ENDS: [u8; 2] = [9, 19];
const SINK: u8 = 3;

/// A queue that slows the inner trunks down before the outer trunk's queue drops user packets.
const EARLY: &str = "queue = { kind = \"trunk-fifo\", limit = \"150 kB\", threshold = 64 }";

/// A short form of the paper's second experiment (`trunking`, section 7.2: nested trunks). Two
/// inner trunks share the rate of one outer trunk. The other outer trunk has the same rate, and
/// only one inner trunk.
///
/// In the simulator, the shares over 27 s deviate from the paper's by 7 % (level 2) and 4 % (level
/// 1). The bounds here are at least three times as wide. The experiment `trunking/live_nested`
/// checks whether the means are within 10 %.
///
/// Catches: packets of inner trunks that bypass the outer trunk. Each inner trunk would then get a
/// third of the path.
#[test]
fn inner_trunks_share_the_rate_of_their_outer_trunk() {
    witnessed_beside_others(|bed| {
        let parts = parts(bed);
        println!("{parts:.3?} of what arrives");
        for (part, (name, .., paper)) in parts.iter().zip(INNER) {
            let within = if paper < 0.5 { 0.25 } else { 0.15 };
            assert!((part / paper - 1.0).abs() < within, "{name}: {parts:?}");
        }
    });
}

/// The share of each inner trunk's sink in all received traffic.
fn parts(bed: &Testbed) -> Vec<f64> {
    let lab = Lab::up(bed, &topology(&key(bed)));
    let flood = |number: usize| {
        let to = format!("10.73.0.{}:9", number + 4);
        mix(&lab, &format!("source{number}"), &["flood", &to, "1500000", "120"])
    };
    let _floods = [0, 1, 2].map(flood);
    pause(Duration::from_secs(8));
    let received = || [0, 1, 2].map(|number| received(&lab, &format!("sink{number}")));
    let (before, from) = (received(), now());
    pause(Duration::from_secs(22));
    let after = received();
    println!("{:?} for {:?}", after, from.elapsed());
    assert_eq!(lost(&lab), 0, "user packets were lost: {}", lab.network());
    let got: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    got.iter().map(|it| it / got.iter().sum::<f64>()).collect()
}

/// Bytes of the frames that a host has received.
fn received(lab: &Lab, host: &str) -> f64 {
    let mut command = lab.on(host);
    let text = run(command.arg("cat").arg("/sys/class/net/eth0/statistics/rx_bytes"), LIMIT);
    text.trim().parse().unwrap_or(f64::NAN)
}

fn topology(key: &str) -> String {
    let (mut hosts, mut gateways, mut ends) =
        (String::new(), String::new(), [(); 2].map(|()| String::new()));
    for (number, (name, local, outer, _)) in (0u8..).zip(INNER) {
        let also = OUTER.iter().filter(|it| it.2 == number).map(|it| it.1);
        hosts += &host("source", number, name, also.chain([local]));
        let site = Site { name, ends: [local, ENDS[1]], next_hop: SINK, fields: "" };
        gateways += &through(site.gateway(key), outer);
        ends[1] += &back(name, local, ENDS[1], number).trunk(key);
    }
    for (name, local, source) in OUTER {
        let site = Site { name, ends: [local, ENDS[0]], next_hop: SINK, fields: EARLY };
        gateways += &site.gateway(key);
        ends[0] += &back(name, local, ENDS[0], source).trunk(key);
    }
    for number in 0..SINK {
        let also = if number == 0 { &ENDS[..] } else { &[] };
        hosts += &host("sink", number + SINK, "l2-end", also.iter().copied());
    }
    gateways += &gateway("l1-end", &ends[0]);
    gateways += &through(gateway("l2-end", &ends[1]), "l1-end");
    format!(
        "{hosts}{gateways}[[route]]\nto = [\"sink0\", \"sink1\", \"sink2\"]\nrate = \"9.6 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = {{ {ROUTER} }}\n\
         [[route]]\ndelay = \"10 ms\"\n"
    )
}

/// Host `number`, whose name begins with `kind`. In addition, it has the addresses `extra` of
/// gateways.
fn host(kind: &str, number: u8, gateway: &str, extra: impl Iterator<Item = u8>) -> String {
    let extra: String = extra.map(|it| format!(", \"10.73.9.{it}\"")).collect();
    format!(
        "[[host]]\nname = \"{kind}{}\"\naddress = [\"10.73.0.{}\"{extra}]\ngateway = \"{gateway}\"\n",
        number % SINK,
        number + 1,
    )
}

/// Puts the gateway `outer` between `gateway` and the network, so `outer` carries the packets of
/// `gateway`.
fn through(gateway: String, outer: &str) -> String {
    gateway + &format!("gateway = \"{outer}\"\n")
}

/// The end of a trunk at the other site.
fn back(name: &str, peer: u8, local: u8, source: u8) -> Site<'_> {
    Site { name, ends: [local, peer], next_hop: source, fields: "" }
}
