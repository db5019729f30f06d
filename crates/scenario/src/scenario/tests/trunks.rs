//! Scenario files with trunks, as users write them. A trunk is a path between two gateways, whose
//! rate is found by congestion control.

use std::ops::ControlFlow;

use tidegate_sim::{Results, Simulation};

use super::{example, read, scenario};

/// Runs the scenario in `text`.
pub(super) fn results(text: &str) -> Results {
    let scenario = scenario(text);
    let run = Simulation::new(&scenario).unwrap();
    run.run(|_| ControlFlow::Continue(())).unwrap()
}

/// The number of packets dropped at `place`, as the table `drops` names it.
fn drops_at(results: &Results, place: &str) -> u64 {
    let drops = results.table("drops").unwrap();
    let places = drops.text("place").iter();
    places.zip(drops.whole("dropped_packets")).filter(|it| it.0 == place).map(|it| *it.1).sum()
}

/// Each of two trunks has a guarantee of 1 Mbit/s on a path of 10 Mbit/s. The trunks share the
/// remainder in the ratio two to one of their VMSS (the size of a trunk's virtual segments). The
/// trunk with the larger VMSS gets slightly less than twice the share, as
/// `docs/understand/trunking.md` explains.
#[test]
fn trunks_share_a_path_by_their_vmss_whatever_their_users_send() {
    let results = results(&example("trunk.toml"));
    let rates = results.table("groups").unwrap().real("throughput_bps");
    let [uploads, flood] = *rates else { panic!("{rates:?}") };
    let shares = (uploads - 1e6) / (flood - 1e6);
    assert!((1.5..2.2).contains(&shares), "{shares}: {rates:?}");
    assert!(uploads + flood > 9.5e6, "{rates:?}");
}

/// The scenario `trunk.toml` without guarantees, for 20 s after a warm-up of 5 s. From 2 s on, both
/// sites send more than the path carries. Until then, few packets travel, so the congestion control
/// Vegas can measure the round-trip time of the empty path.
fn weighted(north: &str, south: &str) -> String {
    let mut text = example("trunk.toml");
    for (from, to) in [
        ("duration = \"30 s\"\nwarmup = \"10 s\"", "duration = \"25 s\"\nwarmup = \"5 s\""),
        ("vmss = \"3000 B\"\n", ""),
        ("guarantee = \"1 Mbit/s\"\n", ""),
        (
            "kind = \"greedy\"",
            "kind = \"cbr\"\nstart = \"2 s\"\nrate = \"5 Mbit/s\"\npacket = \"1500 B\"",
        ),
        ("rate = \"20 Mbit/s\"", "start = \"2 s\"\nrate = \"20 Mbit/s\""),
        ("threshold = 16", "threshold = 64"),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    for host in ["a", "b"] {
        text += &format!(
            "\n[[traffic]]\nname = \"few-{host}\"\nkind = \"cbr\"\nfrom = \"{host}\"\nto = \"server\"\n\
             rate = \"100 kbit/s\"\npacket = \"1000 B\"\n"
        );
    }
    for (name, fields) in [("north", north), ("south", south)] {
        let trunk = format!("[[trunk]]\nname = \"{name}\"\n");
        text = text.replace(&trunk, &format!("{trunk}{fields}\n"));
    }
    text
}

/// Catches: weights that are ignored, or inverted; a router that drops user packets.
#[test]
fn two_trunks_with_vegas_share_a_path_by_their_weights() {
    let vegas = |weight| format!("probing = \"vegas\"\nweight = {weight}");
    for (north, south, expected) in [(1, 3, 3.0), (6, 2, 1.0 / 3.0)] {
        let results = results(&weighted(&vegas(north), &vegas(south)));
        let rates = results.table("groups").unwrap().real("throughput_bps");
        let [one, other, ..] = *rates else { panic!("{rates:?}") };
        let ratio = other / one / expected;
        assert!((0.9..1.1).contains(&ratio), "{ratio}: {rates:?}");
        assert!(one + other > 9.3e6, "{rates:?}");
        assert_eq!(drops_at(&results, "path > main.wan"), 0);
    }
}

/// Weights as numbers of connections. The path drops management packets, but no user packet.
///
/// Catches: a trunk whose number of connections follows the weight of the other trunk; a share that
/// does not grow with the weight.
#[test]
fn two_trunks_share_a_path_by_their_numbers_of_connections() {
    let results = results(&weighted("weight = 2", "weight = 6"));
    let rates = results.table("groups").unwrap().real("throughput_bps");
    let ratio = rates[1] / rates[0];
    assert!((2.4..3.6).contains(&ratio), "{ratio}: {rates:?}");
    let drops = results.table("drops").unwrap();
    let mut all = drops.text("place").iter().zip(drops.text("reason"));
    assert!(all.all(|(place, reason)| place != "path > main.wan" || reason == "aqm"));
    let trunks = results.table("trunks").unwrap();
    assert_eq!(trunks.real("weight")[..2], [2.0, 6.0]);
}

/// The weights are measured. The site with more traffic gets the larger weight, and the path drops
/// no user packet.
///
/// Catches: a weight that rises without load, or never falls.
#[test]
fn the_loaded_site_gets_the_larger_measured_weight() {
    let measured =
        "probing = \"vegas\"\nweight = { kind = \"measured\", every = \"50 ms\", samples = 20 }";
    let text = weighted(measured, measured).replace("flows = 4", "flows = 1");
    let text = text.replace("rate = \"5 Mbit/s\"", "rate = \"1 Mbit/s\"");
    let results = results(&text);
    let trunks = results.table("trunks").unwrap();
    let [idle, loaded] = trunks.real("weight")[..2] else { panic!("{trunks:?}") };
    // The site that sends 1 Mbit/s needs a weight of about two. With weight 1 beside a weight of
    // 16, it would get one of 17 parts, 0.56 Mbit/s.
    assert!((1.0..5.0).contains(&idle) && loaded > 8.0, "{idle} {loaded}");
    let rates = results.table("groups").unwrap().real("throughput_bps");
    // The rate adjuster lowers the weight in rounds without load, and needs some rounds to raise it
    // again.
    assert!(rates[0] > 0.8e6 && rates[1] > 8.4e6, "{rates:?}");
    let drops = results.table("drops").unwrap();
    let mut all = drops.text("place").iter().zip(drops.text("reason"));
    assert!(all.all(|(place, reason)| place != "path > main.wan" || reason == "aqm"));
}

/// Catches: a ceiling that does not reach the simulator.
#[test]
fn a_site_with_a_ceiling_lets_the_other_use_the_remainder() {
    let vmss = "vmss = \"3000 B\"\n";
    let held = example("trunk.toml").replace(vmss, &format!("{vmss}ceiling = \"2 Mbit/s\"\n"));
    let results = results(&held);
    let rates = results.table("groups").unwrap().real("throughput_bps");
    let [uploads, flood] = *rates else { panic!("{rates:?}") };
    // Throughput counts frames, which are 14 bytes longer than the IP packets that a ceiling
    // counts.
    assert!((1.8e6..2.02e6).contains(&uploads) && flood > 7.2e6, "{rates:?}");
}

#[test]
fn a_trunk_without_its_other_end_is_refused() {
    for (from, to) in [
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.7\""),
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.1\"\nport = 4000"),
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.1\"\nconnections = 3"),
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.1\"\nweight = 4"),
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.1\"\nprobing = \"vegas\""),
    ] {
        let (scenario, found) = read(&example("trunk.toml").replace(from, to));
        let said = found.render(false);
        assert!(scenario.is_none() && said.contains("other end of trunk `north`"), "{said}");
    }
}

/// Four TCP senders behind the trunk `north`. Without ACK control, their packets wait in the tunnel
/// queue. With ACK control, this queue stays short.
///
/// Catches: ACK control that looks at the link's queue, although the data waits for the trunk.
#[test]
fn ack_control_keeps_the_queue_of_a_trunk_short_without_losses() {
    let controlled = "action = \"shape\"\nprofile = { mean = \"20 Mbit/s\" }\nack_control = \"postack\"\ntrunk = \"north\"";
    let plain = "action = \"pass\"\ntrunk = \"north\"";
    let text = example("trunk.toml");
    let [queue, limited] = [
        r#"{ kind = "fq-codel", limit = "16 kB" }"#,
        r#"{ kind = "drop-tail", limit = "100 kB" }"#,
    ];
    let text = text.replacen(queue, limited, 1);
    let [before, after] = [text.clone(), text.replace(plain, controlled)].map(|text| {
        let results = results(&text);
        let groups = results.table("groups").unwrap();
        let [delay, rate] =
            ["delay_mean_seconds", "throughput_bps"].map(|column| groups.real(column)[0]);
        (drops_at(&results, "north"), delay, rate)
    });
    assert!(before.0 > 20 && after.0 == 0, "{before:?} {after:?}");
    assert!(after.1 < before.1 * 0.7 && after.2 > before.2 * 0.95, "{before:?} {after:?}");
}

#[test]
fn guarantees_of_trunks_above_the_rate_of_their_link_are_refused() {
    let slow = |rate: &str| {
        let link = "from = \"north.wan\"\nto = \"path\"\nrate = ";
        let text = example("trunk.toml");
        text.replace(&format!("{link}\"100 Mbit/s\""), &format!("{link}\"{rate}\""))
    };
    let (scenario, found) = read(&slow("900 kbit/s"));
    let said = found.render(false);
    let expected = "the guarantee of all trunks together, 1 Mbit/s, is out of range: the link at `north.wan` carries 900 kbit/s";
    assert!(scenario.is_none() && said.contains(expected) && said.contains("inline"), "{said}");
    assert!(read(&slow("1 Mbit/s")).0.is_some());
}
