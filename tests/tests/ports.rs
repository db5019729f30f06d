//! Live tests of ports under the conditions of real hosts: with offloads, with any MTU, in use by
//! another gateway, disconnected, removed, and under attack.

use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{
    Gateway, Process, Recorder, Server, Testbed, on_each_backend, pause, run, send, until,
};
use tidegate_wire::build::{Frame, Link};

on_each_backend! {
    transfers_of_hosts_with_offloads_arrive_intact
    a_port_that_is_down_raises_an_alarm_and_works_again_later
    a_renamed_port_still_works_and_an_alarm_names_it
    a_gateway_whose_port_was_removed_raises_an_alarm_and_ends_when_the_name_is_reused
    a_second_gateway_between_the_same_ports_is_refused
    no_frame_passes_between_detached_ports
    a_full_size_frame_with_a_service_tag_needs_a_larger_mtu_on_packet_sockets
    invalid_frames_cross_unchanged_or_are_counted_as_dropped
}

const LIMIT: Duration = Duration::from_secs(60);

const SHAPED: &str = r#"
[[policy]]
name = "all"
profile = { mean = "500 Mbit/s", burst = "1 MB" }
action = "shape"
"#;

/// Transfers data in both directions, over IPv4 and IPv6. Every byte must arrive unchanged.
fn transfers_are_intact(bed: &Testbed, server: &Server, gateway: &Gateway<'_>) {
    for address in [bed.wan.v4, bed.wan.v6] {
        for way in [&["--bytes", "5 MB"][..], &["--bytes", "5 MB", "--upload"]] {
            let outcome = server.fetch(address, &bed.lan, way).finish(LIMIT);
            assert!(
                outcome.complete && outcome.intact,
                "{way:?}: {outcome:?}, {}",
                gateway.all_output()
            );
        }
    }
}

fn transfers_of_hosts_with_offloads_arrive_intact(bed: &Testbed, backend: &str) {
    for host in [&bed.lan, &bed.wan] {
        host.run("ethtool -K eth0 tx on tso on gso on gro on");
    }
    let gateway = bed.gateway(backend, SHAPED);
    let server = Server::start(&bed.wan, 7000, "reno");
    transfers_are_intact(bed, &server, &gateway);
    for host in [&bed.lan, &bed.wan] {
        assert_eq!(host.tcp_counter("InCsumErrors"), 0, "{}", gateway.all_output());
    }
}

/// Catches: a `doctor` that does not check whether ports have addresses, or that names the wrong
/// port.
#[test]
fn doctor_warns_of_a_port_with_an_address_and_the_remedy_works() {
    let Some(bed) = Testbed::new() else { return };
    let remedies = |port: &str| -> Vec<String> {
        let words = ["doctor", "--json", "--lan", "lan", "--wan", "wan"];
        let report = Process::start(&mut bed.tidegate(&words)).finish(LIMIT);
        let report: Value = serde_json::from_str(&report.output).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        let about = findings.filter(|it| it["what"] == port && it["health"] == "lacking");
        let addresses = about.filter(|it| it["seen"].as_str().unwrap().contains("has an address"));
        addresses.map(|it| it["remedy"].as_str().unwrap().to_owned()).collect()
    };
    bed.middle.run("ip address add 192.0.2.1/24 dev lan");
    assert_eq!((remedies("lan").len(), remedies("wan").len()), (1, 0));
    bed.middle.run(&remedies("lan")[0]);
    assert_eq!(remedies("lan").len(), 0);
}

/// Catches: AF_XDP used although the frames do not fit into its buffers.
#[test]
fn with_jumbo_frames_the_gateway_uses_packet_sockets_and_says_why() {
    let Some(bed) = Testbed::new() else { return };
    for (host, port) in
        [(&bed.lan, "eth0"), (&bed.wan, "eth0"), (&bed.middle, "lan"), (&bed.middle, "wan")]
    {
        host.run(&format!("ip link set {port} mtu 9000"));
    }
    let refused = bed.refused("af-xdp", "/run/other.sock");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.errors.contains("TG0104") && refused.errors.contains("MTU of 9000"));
    let gateway = bed.gateway("auto", SHAPED);
    let ports = &gateway.status()["ports"];
    assert_eq!(ports["backend"], "af-packet", "{ports}");
    assert!(ports["notes"][0].as_str().unwrap_or_default().contains("MTU of 9000"), "{ports}");
    let server = Server::start(&bed.wan, 7000, "reno");
    transfers_are_intact(&bed, &server, &gateway);
}

#[test]
fn ports_of_different_mtus_are_refused() {
    let Some(bed) = Testbed::new() else { return };
    bed.middle.run("ip link set wan mtu 1400");
    let refused = bed.refused("auto", "/run/other.sock");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.errors.contains("TG0108"), "{refused:?}");
    assert!(refused.errors.contains("`ip link set lan mtu 1400`"), "{refused:?}");
}

/// The alarms of the status.
fn alarms(gateway: &Gateway<'_>) -> String {
    gateway.status()["alarms"].to_string()
}

fn a_port_that_is_down_raises_an_alarm_and_works_again_later(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, SHAPED);
    let server = Server::start(&bed.wan, 7000, "reno");
    let fetch = server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "100 MB"]);
    fetch.moves_on(1_000_000, LIMIT);
    bed.middle.run("ip link set wan down");
    until("the alarm", LIMIT, || alarms(&gateway).contains("`wan` is down").then_some(()));
    bed.middle.run("ip link set wan up");
    until("its end", LIMIT, || (alarms(&gateway) == "[]").then_some(()));
    let outcome = fetch.finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", gateway.all_output());
    let said = gateway.all_output();
    assert!(said.contains("`wan` is down") && said.contains("`wan` is back to normal"), "{said}");
}

/// Catches: a port that is found only by its name; a working gateway that ends because another
/// interface gets the old name.
fn a_renamed_port_still_works_and_an_alarm_names_it(bed: &Testbed, backend: &str) {
    let mut gateway = bed.gateway(backend, SHAPED);
    let server = Server::start(&bed.wan, 7000, "reno");
    // Older kernels cannot rename an interface that is up.
    bed.middle.run("ip link set wan down");
    bed.middle.run("ip link set wan name uplink");
    bed.middle.run("ip link set uplink up");
    let renamed = "`wan` is called `uplink` now: all frames cross";
    until("the alarm", LIMIT, || (alarms(&gateway).contains(renamed)).then_some(()));
    bed.middle.run("ip link add wan type veth peer name other");
    transfers_are_intact(bed, &server, &gateway);
    assert!(alarms(&gateway).contains(renamed), "{}", gateway.all_output());
    bed.middle.run("ip link set uplink down");
    let down = "`ip link set uplink up`";
    until("the alarm", LIMIT, || (alarms(&gateway).contains(down)).then_some(()));
    for words in ["delete wan", "set uplink name wan", "set wan up"] {
        bed.middle.run(&format!("ip link {words}"));
    }
    until("its end", LIMIT, || (alarms(&gateway) == "[]").then_some(()));
    assert!(gateway.runs(), "{}", gateway.all_output());
}

fn a_gateway_whose_port_was_removed_raises_an_alarm_and_ends_when_the_name_is_reused(
    bed: &Testbed,
    backend: &str,
) {
    let mut gateway = bed.gateway(backend, SHAPED);
    bed.middle.run("ip link delete wan");
    until("the alarm", LIMIT, || alarms(&gateway).contains("`wan` is gone").then_some(()));
    let ticks = || {
        let stat = bed.middle.run(&format!("cat /proc/{}/stat", gateway.id()));
        stat.split(' ').skip(13).take(2).filter_map(|it| it.parse::<u64>().ok()).sum::<u64>()
    };
    let before = ticks();
    pause(Duration::from_secs(1));
    // The kernel counts processor time in ticks of a hundredth of a second.
    assert!(ticks() - before < 30, "it does not sleep: {}", gateway.all_output());
    bed.middle.run("ip link add wan type veth peer name other");
    until("its end", LIMIT, || (!gateway.runs()).then_some(()));
    let said = gateway.all_output();
    assert!(said.contains("another interface is called `wan` now"), "{said}");
}

fn a_second_gateway_between_the_same_ports_is_refused(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, SHAPED);
    for socket in ["/run/tidegate.sock", "/run/other.sock"] {
        for second in ["auto", "af-xdp", "af-packet"] {
            let refused = bed.refused(second, socket);
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert!(refused.errors.contains("TG0202"), "{refused:?}");
        }
    }
    let server = Server::start(&bed.wan, 7000, "reno");
    let before = gateway.status()["down"]["received"]["bytes"].as_u64();
    let outcome = server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "1 MB"]).finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}");
    let after = gateway.status()["down"]["received"]["bytes"].as_u64();
    assert!(after >= before.map(|bytes| bytes + 1_000_000), "the first one still manages");
}

fn no_frame_passes_between_detached_ports(bed: &Testbed, backend: &str) {
    let mut gateway = bed.gateway(backend, SHAPED);
    let detach = || bed.tidegate(&["detach", "--json", "lan", "wan"]);
    let refused = Process::start(&mut detach()).finish(LIMIT);
    assert!(refused.output.contains("TG0202"), "{refused:?}");
    gateway.stop();
    let crosses = || {
        let frame = bed.lan.datagram(&bed.wan, false, (5_000, 9), &[7; 40]);
        let recorder = Recorder::start(&bed.wan);
        send(&bed.lan, &[frame.bytes()]);
        pause(Duration::from_millis(300));
        !recorder.frames(0, LIMIT, |arrived| arrived == frame.bytes()).is_empty()
    };
    assert!(crosses());
    for (was, times) in [("true", 2), ("false", 2)] {
        let said = run(&mut detach(), LIMIT);
        assert_eq!(said.matches(&format!("\"was_attached\":{was}")).count(), times, "{said}");
        assert!(!crosses());
    }
}

/// Packet sockets send frames up to the MTU plus one 802.1Q tag. Longer frames need a larger MTU.
fn a_full_size_frame_with_a_service_tag_needs_a_larger_mtu_on_packet_sockets(
    bed: &Testbed,
    backend: &str,
) {
    for host in [&bed.lan, &bed.wan] {
        host.run("ip link set eth0 mtu 1504");
    }
    let tagged = |tag| {
        let inside = [&[0, 7, 0x88, 0xb5][..], &[9; 1_500]].concat();
        let frame = Frame::opaque(tag, inside);
        Frame { source: bed.lan.mac, destination: bed.wan.mac, ..frame }.bytes()
    };
    let crosses = |tag| {
        let (recorder, frame) = (Recorder::start(&bed.wan), tagged(tag));
        send(&bed.lan, std::slice::from_ref(&frame));
        pause(Duration::from_millis(300));
        !recorder.frames(0, LIMIT, |arrived| arrived == frame).is_empty()
    };
    let mut gateway = bed.gateway(backend, SHAPED);
    assert!(crosses(0x8100), "{}", gateway.all_output());
    let on_packet_sockets = backend == "af-packet";
    assert_eq!(crosses(0x88a8), !on_packet_sockets, "{}", gateway.all_output());
    let too_long = gateway.status()["drops"]["too-long"].as_u64();
    assert_eq!(too_long, on_packet_sockets.then_some(1));
    gateway.stop();
    for port in ["lan", "wan"] {
        bed.middle.run(&format!("ip link set {port} mtu 1504"));
    }
    gateway.start_again();
    assert!(crosses(0x88a8), "{}", gateway.all_output());
}

/// Pseudo-random numbers, the same in every run (a linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }

    fn byte(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }
}

/// A frame with valid MAC addresses. All other bytes may be truncated, changed, or random.
fn nonsense(bed: &Testbed, numbers: &mut Numbers) -> Vec<u8> {
    let payload: Vec<u8> = (0..numbers.below(1_200)).map(|_| numbers.byte()).collect();
    let ports = (5_000, 9);
    let mut frame = bed.lan.datagram(&bed.wan, numbers.below(2) == 0, ports, &payload);
    if numbers.below(3) == 0 {
        frame.link = vec![Link::vlan(7)];
    }
    let mut bytes = match numbers.below(4) {
        0 => {
            let kind = u16::from_be_bytes([numbers.byte(), numbers.byte()]);
            let frame = Frame::opaque(kind, payload);
            Frame { source: bed.lan.mac, destination: bed.wan.mac, ..frame }.bytes()
        }
        _ => frame.bytes(),
    };
    for _ in 0..numbers.below(12) {
        let at = 14 + numbers.below(bytes.len().min(80).saturating_sub(14).max(1));
        if let Some(byte) = bytes.get_mut(at) {
            *byte = numbers.byte();
        }
    }
    // The kernel does not deliver a frame with a VLAN tag if the frame has fewer than 20 bytes.
    let least = 20.min(bytes.len());
    if numbers.below(2) == 0 {
        bytes.truncate(least + numbers.below(bytes.len() - least + 1));
    }
    bytes.resize(bytes.len().max(20), 0);
    bytes
}

fn total(drops: &Value) -> u64 {
    let drops = drops.as_object().into_iter().flatten();
    drops.filter_map(|(_, count)| count.as_u64()).sum()
}

fn invalid_frames_cross_unchanged_or_are_counted_as_dropped(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, SHAPED);
    let mut numbers = Numbers(1);
    let mut frames: Vec<_> = (0..3_000).map(|_| nonsense(bed, &mut numbers)).collect();
    frames.extend((0..=u16::MAX).step_by(17).map(|kind| {
        let frame = Frame::opaque(kind, vec![0; 46]);
        Frame { source: bed.lan.mac, destination: bed.wan.mac, ..frame }.bytes()
    }));
    let recorder = Recorder::start(&bed.wan);
    frames.chunks(500).for_each(|some| send(&bed.lan, some));
    let heads = (bed.wan.mac, bed.lan.mac);
    let ours = |frame: &[u8]| frame[..6] == heads.0 && frame[6..12] == heads.1;
    pause(Duration::from_secs(1));
    let mut arrived = recorder.frames(0, LIMIT, ours);
    let mut sent = frames.clone();
    arrived.sort();
    sent.sort();
    let (mut lost, mut strange) = (Vec::new(), 0);
    let mut at = arrived.iter().peekable();
    for frame in &sent {
        while at.next_if(|arrived| *arrived < frame).is_some() {
            strange += 1;
        }
        if at.next_if_eq(&frame).is_none() {
            lost.push(tidegate_e2e::hex(frame));
        }
    }
    let status = gateway.status();
    let counted = total(&status["drops"]);
    let lost_count = u64::try_from(lost.len()).unwrap_or(u64::MAX);
    assert!(lost_count <= counted, "{lost_count} lost: {:?}, {status}", &lost[..lost.len().min(5)]);
    // The hosts' own kernels send a few frames too.
    assert!(strange < 20, "{strange} frames that nobody sent");
    let server = Server::start(&bed.wan, 7000, "reno");
    transfers_are_intact(bed, &server, &gateway);
}
