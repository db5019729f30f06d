//! What trunks of a scenario do, as a user would write them.

use std::ops::ControlFlow;

use tidegate_sim::{Results, Simulation};

use super::{example, read, scenario};

/// What a run of the scenario in `text` gives.
pub(super) fn results(text: &str) -> Results {
    let scenario = scenario(text);
    let run = Simulation::new(&scenario).unwrap();
    run.run(|_| ControlFlow::Continue(())).unwrap()
}

/// What was dropped at `place`.
fn drops_at(results: &Results, place: &str) -> u64 {
    let drops = results.table("drops").unwrap();
    let places = drops.text("place").iter();
    places.zip(drops.whole("dropped_packets")).filter(|it| it.0 == place).map(|it| *it.1).sum()
}

/// Of 10 Mbit/s each is guaranteed 1; the rest is shared by VMSS, two to one. The larger one gets somewhat
/// less than that, as `docs/understand/trunking.md` says: far from one to one it is all the same.
#[test]
fn sites_behind_trunks_share_a_path_as_their_vmss_say_whatever_they_send() {
    let results = results(&example("trunk.toml"));
    let rates = results.table("groups").unwrap().real("throughput_bps");
    let [uploads, flood] = *rates else { panic!("{rates:?}") };
    let shares = (uploads - 1e6) / (flood - 1e6);
    assert!((1.5..2.2).contains(&shares), "{shares}: {rates:?}");
    assert!(uploads + flood > 9.5e6, "{rates:?}");
}

/// Kills: a ceiling that the simulator is not told.
#[test]
fn a_site_under_a_ceiling_leaves_the_rest_to_the_other() {
    let vmss = "vmss = \"3000 B\"\n";
    let held = example("trunk.toml").replace(vmss, &format!("{vmss}ceiling = \"2 Mbit/s\"\n"));
    let results = results(&held);
    let rates = results.table("groups").unwrap().real("throughput_bps");
    let [uploads, flood] = *rates else { panic!("{rates:?}") };
    // Throughput is of frames, 14 bytes longer than what a ceiling counts.
    assert!((1.8e6..2.02e6).contains(&uploads) && flood > 7.2e6, "{rates:?}");
}

#[test]
fn a_trunk_without_its_other_end_is_refused() {
    for (from, to) in [
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.7\""),
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.1\"\nport = 4000"),
        ("peer = \"192.0.2.1\"", "peer = \"192.0.2.1\"\nconnections = 3"),
    ] {
        let (scenario, found) = read(&example("trunk.toml").replace(from, to));
        let said = found.render(false);
        assert!(scenario.is_none() && said.contains("other end of trunk `north`"), "{said}");
    }
}

/// Four senders behind `north` that listen, with the tunnel queue as the only place to wait, or told by their
/// ACKs before it is long.
///
/// Kills: the link as the place where data for a trunk waits.
#[test]
fn senders_behind_a_trunk_can_be_told_by_their_acks_before_anything_is_lost() {
    let told = "action = \"shape\"\nprofile = { mean = \"20 Mbit/s\" }\nsignal = \"postack\"\ntrunk = \"north\"";
    let plain = "action = \"pass\"\ntrunk = \"north\"";
    let text = example("trunk.toml");
    let [queue, limited] = [
        r#"{ kind = "fq-codel", limit = "16 kB" }"#,
        r#"{ kind = "drop-tail", limit = "100 kB" }"#,
    ];
    let text = text.replacen(queue, limited, 1);
    let [before, after] = [text.clone(), text.replace(plain, told)].map(|text| {
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
fn guarantees_of_trunks_that_the_link_behind_them_cannot_carry_are_refused() {
    let slow = |rate: &str| {
        let link = "from = \"north.wan\"\nto = \"path\"\nrate = ";
        let text = example("trunk.toml");
        text.replace(&format!("{link}\"100 Mbit/s\""), &format!("{link}\"{rate}\""))
    };
    let (scenario, found) = read(&slow("900 kbit/s"));
    let said = found.render(false);
    let expected = "what is guaranteed to trunks, 1 Mbit/s together, is out of range: the link at `north.wan` carries 900 kbit/s";
    assert!(scenario.is_none() && said.contains(expected) && said.contains("inline"), "{said}");
    assert!(read(&slow("1 Mbit/s")).0.is_some());
}
