//! Live test: the receiver checks byte for byte how the gateway changes frames.

mod lines;

use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{
    Gateway, Process, Recorder, Testbed, hex, now, on_each_backend, pause, send, until,
};
use tidegate_wire::build::{Frame, Link, Transport};

on_each_backend! { witnessed_beside_others:
    tagged_frames_cross_byte_for_byte
    frames_of_any_ethertype_cross_byte_for_byte
    a_policy_for_a_vlan_does_not_affect_other_vlans
    a_policy_for_a_host_matches_all_its_ip_packets
    a_policy_for_an_inner_vlan_does_not_affect_other_inner_vlans
    the_receiver_sees_which_packets_were_in_profile
    shaped_packets_of_a_flow_stay_in_order
    fragments_of_a_policed_port_are_policed
    fragments_whose_first_fragment_is_unknown_are_policed_if_they_may_match
    every_frame_is_counted_as_forwarded_or_bypassed
}

const LIMIT: Duration = Duration::from_secs(10);

/// Time in which a frame that should not arrive would arrive.
const ENOUGH: Duration = Duration::from_millis(500);

/// A policy that shapes all traffic, at a higher rate than these tests reach.
const SHAPED: &str = r#"
[[policy]]
name = "all"
profile = { mean = "100 Mbit/s" }
action = "shape"
"#;

/// Sends `frames` from the LAN. Asserts that the frames `expected` arrive at the WAN in this order,
/// and no other frames of this test. The last bytes of a frame show whether it belongs to the test.
fn crosses(bed: &Testbed, frames: &[Frame], expected: &[Frame], context: &str) {
    let recorder = Recorder::start(&bed.wan);
    let bytes = |frames: &[Frame]| frames.iter().map(Frame::bytes).collect::<Vec<_>>();
    send(&bed.lan, &bytes(frames));
    let ours = |arrived: &[u8]| frames.iter().any(|frame| arrived.ends_with(&frame.payload));
    let _ = recorder.frames(expected.len(), LIMIT, ours);
    pause(ENOUGH);
    let arrived = recorder.frames(expected.len(), LIMIT, ours);
    assert_eq!(arrived.len(), expected.len(), "{context}");
    for (arrived, expected) in arrived.iter().zip(bytes(expected)) {
        assert_eq!(hex(arrived), hex(&expected), "{context}");
    }
}

/// A datagram from the LAN to the WAN with `n` in its payload.
fn datagram(bed: &Testbed, v6: bool, n: u16, len: usize) -> Frame {
    let mut payload = vec![0xa5; len];
    payload[len - 2..].copy_from_slice(&n.to_be_bytes());
    bed.lan.datagram(&bed.wan, v6, (5_000, 9), &payload)
}

fn tagged_frames_cross_byte_for_byte(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, SHAPED);
    let tags: [&[u16]; 4] = [&[], &[7], &[7, 8], &[4_094]];
    for v6 in [false, true] {
        let tagged = |(n, vlans): (u16, &&[u16])| {
            let mut frame = datagram(bed, v6, n, 64);
            frame.link = vlans.iter().map(|id| Link::vlan(*id)).collect();
            frame
        };
        // Each frame is sent alone. Frames with different tags belong to different flows, which may
        // overtake each other.
        for frame in (0..).zip(&tags).map(tagged) {
            let frame = [frame];
            crosses(bed, &frame, &frame, &gateway.all_output());
        }
    }
}

fn frames_of_any_ethertype_cross_byte_for_byte(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, SHAPED);
    /// An ethertype for local experiments (IEEE 802, section 9.2.3), and a value that is a length
    /// instead of an ethertype.
    const ETHERTYPES: [u16; 2] = [0x88b5, 60];
    let frame = |ethertype| Frame {
        source: bed.lan.mac,
        destination: bed.wan.mac,
        ..Frame::opaque(ethertype, vec![ethertype.to_le_bytes()[0]; 60])
    };
    let frames = ETHERTYPES.map(frame);
    crosses(bed, &frames, &frames, &gateway.all_output());
}

fn a_policy_for_a_vlan_does_not_affect_other_vlans(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "seven"
match = { vlan = 7 }
profile = { mean = "8 kbit/s", burst = "5000 B" }
action = "police-drop"
"#,
    );
    let on = |vlan, n| {
        let mut frame = datagram(bed, false, n, 1_000 - 46);
        frame.link = vec![Link::vlan(vlan)];
        frame
    };
    let seven: Vec<Frame> = (0..10).map(|n| on(7, n)).collect();
    // Each frame has 1,000 bytes. The burst permits five frames. At 8 kbit/s, the profile does not
    // permit a sixth frame within a second.
    assert_eq!(seven[0].bytes().len(), 1_000);
    crosses(bed, &seven, &seven[..5], &gateway.all_output());
    let eight: Vec<Frame> = (10..20).map(|n| on(8, n)).collect();
    crosses(bed, &eight, &eight, &gateway.all_output());
    let drops = &gateway.status()["drops"]["out-of-profile"];
    let of_policy = &gateway.status()["aggregates"][0]["drops"]["out-of-profile"];
    assert_eq!((drops.as_u64(), of_policy.as_u64()), (Some(5), Some(5)), "{}", gateway.status());
}

/// A limit for answers of DNS servers, as in `examples/isp.toml`. The rate is very low. The frames
/// of a test exceed it even if a busy machine takes seconds to send them.
const AMPLIFIERS: &str = r#"
[[policy]]
name = "amplifiers"
match = { protocol = "udp", src_port = 53 }
profile = { mean = "20 kbit/s", burst = "15140 B" }
action = "police-drop"
"#;

/// Both fragments of datagram `n` from port 53, or only its second fragment.
fn fragments(bed: &Testbed, v6: bool, n: u16, with_first: bool) -> Vec<Frame> {
    // The largest multiple of 8 that fits into an IPv6 packet of 1,500 bytes, after a fragment
    // header.
    let (len, udp) = (1_448, 8);
    let part = |offset: u16, len: usize| {
        let mut frame = bed.lan.datagram(&bed.wan, v6, (53, 4_000), &vec![0xa5; len]);
        if let Some(ip) = frame.ip_mut() {
            (ip.fragment, ip.identification) = (Some((offset, offset == 0)), n);
        }
        frame
    };
    let first = with_first.then(|| part(0, len - udp));
    let offset = u16::try_from(len / 8).unwrap_or(u16::MAX);
    first.into_iter().chain([part(offset, len)]).collect()
}

/// Sends the frames. Asserts that all match the policy, and that the policy drops the frames
/// beyond its profile.
fn are_policed(bed: &Testbed, gateway: &Gateway<'_>, frames: &[Frame]) {
    let count = |status: &Value| {
        let at = &status["aggregates"][0];
        let packets = |what: &str| at[what]["packets"].as_u64().unwrap_or(0);
        let drops = at["drops"]["out-of-profile"].as_u64().unwrap_or(0);
        (packets("offered"), packets("conforming"), drops)
    };
    let (before, begin) = (count(&gateway.status()), now());
    let recorder = Recorder::start(&bed.wan);
    let bytes: Vec<_> = frames.iter().map(Frame::bytes).collect();
    send(&bed.lan, &bytes);
    let offered = u64::try_from(frames.len()).unwrap_or(u64::MAX);
    until("all frames at the policy", LIMIT, || {
        (count(&gateway.status()).0 >= before.0 + offered).then_some(())
    });
    let after = count(&gateway.status());
    let (conforming, drops) = (after.1 - before.1, after.2 - before.2);
    assert_eq!((after.0 - before.0, conforming + drops), (offered, offered));
    // At most the burst and the tokens of the elapsed time may pass. Some tokens may stay unused,
    // because a frame needs all its tokens at once.
    let shortest = bytes.iter().map(Vec::len).min().unwrap_or(1);
    let allowed = 15_140 + begin.elapsed().as_micros() / 400;
    let most = u64::try_from(allowed / u128::try_from(shortest).unwrap_or(1)).unwrap_or(u64::MAX);
    assert!(conforming <= most && drops > 0, "{conforming} of {most}, {drops} dropped");
    let expected = usize::try_from(conforming).unwrap_or(usize::MAX);
    let ours = |arrived: &[u8]| arrived.ends_with(&[0xa5; 64]);
    let _ = recorder.frames(expected, LIMIT, ours);
    pause(ENOUGH);
    assert_eq!(recorder.frames(expected, LIMIT, ours).len(), expected);
}

/// Catches: a policer that ignores the ports in a first fragment; a policer that lets later
/// fragments of the same datagram through.
fn fragments_of_a_policed_port_are_policed(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, AMPLIFIERS);
    for v6 in [false, true] {
        let frames: Vec<Frame> = (0..300).flat_map(|n| fragments(bed, v6, n, true)).collect();
        are_policed(bed, &gateway, &frames);
    }
    assert_eq!(gateway.status()["fragments_without_first"].as_u64(), Some(0));
}

/// Catches: a gateway that ignores the setting for fragments whose first fragment is unknown; a
/// setting that takes effect only after a restart.
fn fragments_whose_first_fragment_is_unknown_are_policed_if_they_may_match(
    bed: &Testbed,
    backend: &str,
) {
    let gateway = bed.gateway(backend, AMPLIFIERS);
    for v6 in [false, true] {
        let frames: Vec<Frame> = (0..10).flat_map(|n| fragments(bed, v6, n, false)).collect();
        crosses(bed, &frames, &frames, &gateway.all_output());
    }
    gateway.apply(backend, &format!("fragments_without_first = \"may-match\"\n{AMPLIFIERS}"));
    for v6 in [false, true] {
        let frames: Vec<Frame> = (0..300).flat_map(|n| fragments(bed, v6, n, false)).collect();
        are_policed(bed, &gateway, &frames);
    }
    assert_eq!(gateway.status()["fragments_without_first"].as_u64(), Some(620));
}

/// Catches: packets to which the policy of their host is not applied because the frame is unusual:
/// IP protocol 0, a PPP protocol field of one byte, SNAP, a priority tag, or a length field that is
/// larger than the frame.
fn a_policy_for_a_host_matches_all_its_ip_packets(bed: &Testbed, backend: &str) {
    let source = bed.lan.v4;
    let gateway = bed.gateway(
        backend,
        &format!(
            r#"
[[policy]]
name = "host"
match = {{ src = "{source}", vlan = "none" }}
profile = {{ mean = "1 kbit/s", burst = "5000 B" }}
action = "police-drop"
"#
        ),
    );
    let plain = |n| datagram(bed, false, n, 1_000 - 42);
    let frames: Vec<Frame> = (0..10).map(plain).collect();
    crosses(bed, &frames, &frames[..5], &gateway.all_output());

    // A further frame would be in profile only after 8 s.
    let bytes = plain(10).bytes();
    let (macs, ip) = (&bytes[..12], &bytes[14..]);
    let len = |more: usize| u16::try_from(ip.len() + more).expect("short").to_be_bytes();
    let after_macs = |header: &[u8]| [macs, header, ip].concat();
    let pppoe = [&[0x88, 0x64, 0x11, 0, 0, 9][..], &len(1), &[0x21]].concat();
    let snap = [&len(8)[..], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    let mut zero = plain(11);
    zero.ip_mut().expect("it is IP").transport = Transport::Other(0);
    let mut longer = bytes.clone();
    longer[16] = 0xff;
    let escapes = [
        after_macs(&pppoe),
        after_macs(&snap),
        after_macs(&[0x81, 0, 0xe0, 0, 8, 0]),
        zero.bytes(),
        longer,
    ];
    let recorder = Recorder::start(&bed.wan);
    send(&bed.lan, &escapes);
    // This last frame matches no policy. When it arrives, all earlier frames have crossed or were
    // dropped.
    let last = bed.lan.datagram(&bed.wan, true, (5_000, 9), &[7; 64]).bytes();
    send(&bed.lan, std::slice::from_ref(&last));
    let is_ours = |frame: &[u8]| frame == last || escapes.iter().any(|it| it == frame);
    let arrived = recorder.frames(1, LIMIT, is_ours);
    assert_eq!(
        arrived.iter().map(|it| hex(it)).collect::<Vec<_>>(),
        [hex(&last)],
        "{}",
        gateway.all_output()
    );
    let dropped = || gateway.status()["drops"]["out-of-profile"].as_u64();
    until("all drops", LIMIT, || (dropped() == Some(10)).then_some(()));
}

/// Catches: a second VLAN tag that is not read, or that is read at the position of the first; a
/// filter whose value for the inner tag also matches an outer tag.
fn a_policy_for_an_inner_vlan_does_not_affect_other_inner_vlans(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "customer"
match = { vlan = { outer = 100, inner = 20 } }
profile = { mean = "1 kbit/s", burst = "5000 B" }
action = "police-drop"
"#,
    );
    let on = |vlans: [u16; 2], n| {
        let mut frame = datagram(bed, false, n, 1_000 - 50);
        frame.link = vlans.map(Link::vlan).to_vec();
        frame
    };
    for vlans in [[100, 21], [20, 100], [100, 20]] {
        let frames: Vec<Frame> = (0..10).map(|n| on(vlans, n)).collect();
        let expected = if vlans == [100, 20] { &frames[..5] } else { &frames[..] };
        crosses(bed, &frames, expected, &gateway.all_output());
    }
}

fn the_receiver_sees_which_packets_were_in_profile(bed: &Testbed, backend: &str) {
    let (af11, af13) = (10, 14);
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "marked"
match = { dst_port = 9 }
profile = { mean = "8 kbit/s", burst = "10000 B" }
action = "police-mark"
mark = { in = "AF11", out = "AF13" }
"#,
    );
    let sent = |v6| (0..10).map(move |n| datagram(bed, v6, n, if v6 { 938 } else { 958 }));
    let frames: Vec<Frame> = sent(false).chain(sent(true)).collect();
    let marked = |(n, frame): (usize, &Frame)| {
        let mut frame = frame.clone();
        frame.ip_mut().iter_mut().for_each(|ip| ip.dscp = if n < 10 { af11 } else { af13 });
        frame
    };
    // Each frame has 1,000 bytes. The burst permits ten frames. At 8 kbit/s, the profile does not
    // permit an eleventh frame within a second.
    assert!(frames.iter().all(|frame| frame.bytes().len() == 1_000));
    let expected: Vec<Frame> = frames.iter().enumerate().map(marked).collect();
    crosses(bed, &frames, &expected, &gateway.all_output());
}

fn shaped_packets_of_a_flow_stay_in_order(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "slow"
profile = { mean = "4 Mbit/s", burst = "3 kB" }
action = "shape"
queue = "per-flow"
"#,
    );
    let frames: Vec<Frame> = (0..200).map(|n| datagram(bed, n % 2 == 1, n, 900)).collect();
    let recorder = Recorder::start(&bed.wan);
    send(&bed.lan, &frames.iter().map(Frame::bytes).collect::<Vec<_>>());
    let ours = |arrived: &[u8]| frames.iter().any(|frame| arrived == frame.bytes());
    let arrived = recorder.frames(frames.len(), LIMIT, ours);
    assert_eq!(arrived.len(), frames.len(), "{}", gateway.all_output());
    for (version, which) in [(0x45, 0), (0x60, 1)] {
        let of_flow = arrived.iter().filter(|frame| frame[14] & 0xf0 == version & 0xf0);
        let expected = frames.iter().skip(which).step_by(2).map(Frame::bytes);
        assert!(of_flow.cloned().eq(expected), "flow {which}: {}", gateway.all_output());
    }
}

/// Frames and bytes of one direction: those that passed the gateway, and those that bypassed it,
/// for each reason.
#[derive(Debug)]
struct Ways {
    through: [u64; 2],
    idle: [u64; 2],
    silent: [u64; 2],
    /// Bypassed because the gateway requested it, while it started.
    requested: [u64; 2],
    /// Received by the interface, according to the interface's own counters.
    interface: [u64; 2],
}

impl Ways {
    fn of(status: &Value, direction: &str, interface: [u64; 2]) -> Self {
        let count =
            |it: &Value| ["packets", "bytes"].map(|unit| it[unit].as_u64().expect("a count"));
        let bypassed = &status[direction]["bypassed"];
        let [idle, silent, requested] =
            ["idle", "silent", "told"].map(|reason| count(&bypassed[reason]));
        Self { through: count(&status[direction]["received"]), idle, silent, requested, interface }
    }

    fn since(&self, before: &Self) -> Self {
        let since =
            |of: fn(&Self) -> [u64; 2]| [0, 1].map(|unit| of(self)[unit] - of(before)[unit]);
        Self {
            through: since(|it| it.through),
            idle: since(|it| it.idle),
            silent: since(|it| it.silent),
            requested: since(|it| it.requested),
            interface: since(|it| it.interface),
        }
    }

    fn sum(&self) -> [u64; 2] {
        [0, 1].map(|unit| {
            self.through[unit] + self.idle[unit] + self.silent[unit] + self.requested[unit]
        })
    }
}

/// Frames cross a gateway that has nothing to manage, then a gateway with a policy, then a gateway
/// that hangs.
///
/// Catches: both kinds of bypass counted together; bytes that are not counted; a bypassed frame
/// that also counts as dropped, because the packet socket has a copy of it.
fn every_frame_is_counted_as_forwarded_or_bypassed(bed: &Testbed, backend: &str) {
    const IDLE: u16 = 300;
    const THROUGH: u16 = 200;
    const SILENT: u16 = 100;
    let gateway = bed.gateway(backend, "");
    until("nothing to manage", LIMIT, || gateway.status()["passing"].as_bool().filter(|it| *it));
    // Reads the status between two reads of the interfaces. If a frame of a host's own kernel
    // arrived in between, reads again.
    let ways = || {
        let at = [("up", "lan"), ("down", "wan")];
        let interfaces = || at.map(|(_, interface)| bed.middle.received(interface));
        let (before, status) = until("a moment without a frame", LIMIT, || {
            let (before, status) = (interfaces(), gateway.status());
            (interfaces() == before).then_some((before, status))
        });
        [0, 1].map(|n| Ways::of(&status, at[n].0, before[n]))
    };
    let before = ways();
    let cross = |frames: std::ops::Range<u16>| {
        let frames: Vec<_> = frames.map(|n| datagram(bed, false, n, 64)).collect();
        let recorder = Recorder::start(&bed.wan);
        send(&bed.lan, &frames.iter().map(Frame::bytes).collect::<Vec<_>>());
        let ours = |arrived: &[u8]| frames.iter().any(|frame| arrived.ends_with(&frame.payload));
        let _ = recorder.frames(frames.len(), LIMIT, ours);
    };
    cross(0..IDLE);
    gateway.apply(backend, SHAPED);
    cross(IDLE..IDLE + THROUGH);
    gateway.signal("STOP");
    pause(ENOUGH);
    cross(IDLE + THROUGH..IDLE + THROUGH + SILENT);
    gateway.signal("CONT");
    // Frames of the hosts' own kernels, such as neighbour discovery, are counted too. If such a
    // frame arrives just after the gateway has hung, it is dropped as stale, and its bytes are not
    // counted.
    let stale = || gateway.status()["drops"]["stale"].as_u64().unwrap_or(0);
    let found = until("the counts to agree", LIMIT, || {
        let now = ways();
        let found = [0, 1].map(|n| now[n].since(&before[n]));
        let missing = |it: &Ways, unit: usize| it.interface[unit].checked_sub(it.sum()[unit]);
        let frames: Option<u64> = found.iter().map(|it| missing(it, 0)).sum();
        // With a native XDP program, a veth counts bytes without the Ethernet header.
        let bytes_agree = |it| missing(it, 0) > Some(0) || missing(it, 1) == Some(0);
        let agree = backend == "af-xdp" || found.iter().all(bytes_agree);
        (frames == Some(stale()) && agree).then_some(found)
    });
    let [up, _] = &found;
    let len = u64::try_from(datagram(bed, false, 0, 64).bytes().len()).expect("a length");
    for (ours, all) in [(IDLE, up.idle), (THROUGH, up.through), (SILENT, up.silent)] {
        let ours = u64::from(ours);
        assert!(all[0] >= ours && all[1] >= ours * len, "{backend}: {found:?}");
    }
    let status = gateway.status();
    let drops = status["drops"].as_object().expect("drops by reason");
    assert!(drops.keys().all(|reason| reason == "stale"), "{drops:?}");
    assert_eq!(status["up"]["port"]["ring_overflows"], 0);
    let text = Process::start(&mut bed.tidegate(&["status"])).finish(LIMIT).output;
    assert!(
        text.contains("with nothing to manage") && text.contains("while the gateway was silent"),
        "{text}"
    );
}
