//! Live test: `tidegate apply` adds, changes and removes trunks during a transfer. A trunk carries
//! the user packets between two gateways.

use tidegate_e2e::{Lab, now, witnessed_beside_others};

use crate::LIMIT;
use crate::sites::{Site, are_up, gateway, host, key, trunks};

/// Bytes that the transfer receives between two changes.
const BETWEEN: u64 = 1_500_000;

const HEAD: &str = "[gateway]\nlan = \"lan\"\nwan = \"wan\"\n";

/// Changes the trunks of both gateways step by step, while a transfer runs through the trunk
/// `north`.
///
/// Catches: new settings of a trunk that take no effect while the gateway runs; a session of a
/// trunk that ends because the trunk's ceiling changes; packets that stay in the queue of a removed
/// trunk.
#[test]
fn transfers_stay_intact_while_trunks_are_added_changed_and_removed() {
    witnessed_beside_others(|bed| {
        let key = &key(bed);
        let plain = both(key, &[("first", "")], Some("first"));
        let topology = [
            host("a", 1, "north", Some(1)),
            host("c", 2, "south", Some(2)),
            gateway("north", &plain[0]),
            gateway("south", &plain[1]),
            "[[route]]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n".to_owned(),
        ];
        let lab = Lab::up(bed, &topology.concat());
        // With this MTU, all packets fit into datagrams. Otherwise a gateway would send "packet too
        // big" errors from its own address. In this lab, a host also has this address, and Linux
        // drops packets from an address of its own.
        ["a", "c"].iter().for_each(|it| lab.shell(it, "ip link set eth0 mtu 1400"));
        let _server = lab.serve("a", "cubic");
        let fetch = lab.fetch("c", "10.73.0.1", &["--bytes", "12 MB"]);
        let goes_on = |trunks: &[(&str, &str)], through: Option<&str>| {
            let texts = both(key, trunks, through);
            let from = now();
            for (name, text) in ["north", "south"].into_iter().zip(texts) {
                lab.apply(name, &(HEAD.to_owned() + &text));
            }
            are_up(&lab, trunks.len());
            let up = from.elapsed();
            fetch.moves_on(BETWEEN, LIMIT);
            println!("{through:?} of {}: up {up:?}, goes on {:?}", trunks.len(), from.elapsed());
            sessions(&lab)
        };
        fetch.moves_on(BETWEEN, LIMIT);
        let begun = sessions(&lab);
        let rates = ("first", "ceiling = \"8 Mbit/s\"\nguarantee = \"1 Mbit/s\"\n");
        assert_eq!(goes_on(&[rates], Some("first")), begun, "a session ended for its rates");
        let second = ("second", "port = 4800\nencapsulation = \"udp\"\n");
        assert_eq!(goes_on(&[second, rates], Some("first"))[1..], begun[..]);
        goes_on(&[second, ("first", "encapsulation = \"udp\"\nconnections = 2\n")], Some("first"));
        let carried = &trunks(&lab, "north")[1]["encapsulation"]["sent_packets"];
        assert!(carried.as_u64() > Some(BETWEEN / 2_000), "{carried}");
        goes_on(&[second], Some("second"));
        let sent = &trunks(&lab, "north")[0]["elastic_bytes"];
        assert!(sent.as_u64() > Some(BETWEEN / 2), "{sent}");
        assert!(goes_on(&[], None).is_empty());
        let outcome = fetch.finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}");
    });
}

/// The policy files of north and south. Both files have these trunks, each with its fields. All
/// traffic goes through the trunk `used`.
fn both(key: &str, trunks: &[(&str, &str)], used: Option<&str>) -> [String; 2] {
    [([1, 2], 1), ([2, 1], 0)].map(|(ends, next_hop)| {
        let trunk =
            |(name, fields): &(&str, &str)| Site { name, ends, next_hop, fields }.trunk(key);
        let trunks: String = trunks.iter().map(trunk).collect();
        let used = used.map(|name| format!("trunk = \"{name}\"\n")).unwrap_or_default();
        format!("{trunks}[[policy]]\nname = \"all\"\naction = \"pass\"\n{used}")
    })
}

/// The number of sessions so far, for each trunk of `north`.
fn sessions(lab: &Lab) -> Vec<u64> {
    let all = trunks(lab, "north");
    let all = all.as_array().into_iter().flatten();
    all.map(|trunk| trunk["other_end"]["sessions"].as_u64().unwrap_or(0)).collect()
}
