//! Live test: frames through AF_XDP ports, and through the bypass programs while no gateway is
//! alive.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "the stack of the kernel takes its own time")]

#[path = "common/bench.rs"]
mod bench;
#[expect(dead_code, reason = "shared with the tests of other ports")]
mod common;
#[path = "common/programs.rs"]
#[expect(dead_code, reason = "shared with the tests of attachments")]
mod programs;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bench::{Across, Bench, Gate, TIMEOUT, ethernet, frames, interfaces, on_packet_sockets};
use common::Host;
use programs::Foreign;
use tidegate_core::{Count, Reason};
use tidegate_dataplane::af_xdp::{self, OpenError};
use tidegate_dataplane::fail_to_wire::{self, Mode, Tc, WireError};
use tidegate_dataplane::{Heartbeat, Interface, Offload, Passing};
use tidegate_gateway::report::Bypassed;

const LIMIT: Duration = Duration::from_secs(10);

/// Expected arrivals: one frame in each direction.
const ONCE: [usize; 2] = [1, 1];

#[test]
fn frames_of_every_kind_cross_in_both_directions_unchanged() {
    for across in [Across::Xdp, Across::Tc] {
        let Some(mut bench) = Bench::new(1_500, across) else { return };
        for mode in [Mode::Native, Mode::Generic] {
            let mut gate = Gate::open(Some(mode));
            assert_eq!(gate.wire.as_ref().unwrap().modes(), [Some(mode); 2]);
            // Bypass, then the gateway, then bypass again.
            bench.crosses(&frames(), &mut gate, &format!("{across:?} {mode:?}"));
            assert_eq!(gate.forwarded, 0);
            gate.beat();
            bench.crosses(&frames(), &mut gate, &format!("alive {mode:?}"));
            assert_eq!(gate.forwarded, 14);
            assert!(gate.ports.iter().all(|port| port.counters().drops.total() == 0));
            drop(gate);
            bench.crosses(&frames(), &mut Gate::absent(), &format!("{across:?} {mode:?}, ended"));
        }
    }
}

#[test]
fn one_flush_sends_more_frames_than_one_system_call() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    for mode in [Mode::Native, Mode::Generic] {
        let mut gate = Gate::open(Some(mode));
        gate.beat();
        let frames: Vec<_> = (0..200).map(|n| ethernet(&[], 0x88b5, &[n; 60])).collect();
        frames.iter().for_each(|frame| bench.client.send(frame));
        let mut packets = Vec::new();
        let start = Instant::now();
        while packets.len() < frames.len() && start.elapsed() < LIMIT {
            packets.extend(gate.arrived(0));
        }
        for packet in packets {
            gate.ports[1].send(&mut gate.pool, packet);
        }
        gate.ports[1].flush(&mut gate.pool);
        assert!(!gate.ports[1].unsent(), "{mode:?}");
        let mut arrived = Vec::new();
        bench.server.receive_into(&mut arrived);
        assert!(arrived == frames, "{mode:?}: {} of {}", arrived.len(), frames.len());
        let lent: u32 = gate.ports.iter().map(|port| port.receiving()).sum();
        assert_eq!(gate.pool.in_use(), lent, "a buffer was forgotten");
    }
}

#[test]
fn frames_bypass_a_gateway_that_hangs_and_it_then_drops_the_stale_frames() {
    const SHORT: Duration = Duration::from_millis(200);
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    let mut gate = Gate::open_with(None, 2_048, SHORT).unwrap();
    let frame = ethernet(&[], 0x88b5, &[7; 100]);
    gate.beat();
    let begun = Instant::now();
    (0..5).for_each(|_| bench.client.send(&frame));
    if begun.elapsed() >= SHORT {
        return eprintln!("skipped: this machine is too slow to send five frames in {SHORT:?}");
    }
    std::thread::sleep(2 * SHORT);
    let before = gate.bypassed().silent.packets;
    bench.client.send(&frame);
    assert_eq!(gate.bypassed().silent.packets, before + 1);
    assert!(gate.ports[0].drop_arrived(&mut gate.pool, &|| 0) >= 5);
    assert!(gate.ports[0].counters().drops.of(Reason::Stale) >= 5);
    let mut arrived = Vec::new();
    bench.server.receive_into(&mut arrived);
    assert_eq!(arrived, [frame], "only what came after the timeout");
    assert!(gate.arrived(0).is_empty());
}

#[test]
fn frames_bypass_a_killed_gateway_without_waiting_for_the_timeout() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    for mode in [Mode::Native, Mode::Generic] {
        let mut gate = Gate::open(Some(mode));
        gate.beat();
        assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 2), "{mode:?}");
        // Dropping the ports closes the sockets, as the kernel does for a dead process. The
        // deadline of the last heartbeat is still far off.
        gate.ports.clear();
        let before = gate.bypassed();
        // The descriptors may close late: a child process of a parallel test inherits them until it
        // executes its program.
        let start = Instant::now();
        while bench.passes(&mut gate) != ONCE {
            assert!(start.elapsed() < LIMIT, "{mode:?}");
        }
        assert_eq!(gate.forwarded, 2, "{mode:?}");
        assert!(
            gate.bypassed().no_socket.packets > before.no_socket.packets,
            "{:?}",
            gate.bypassed()
        );
        assert_eq!(gate.bypassed().silent, before.silent);
    }
}

#[test]
fn a_restarted_gateway_replaces_its_programs_without_losing_a_frame() {
    let Some(mut bench) = Bench::new(1_500, Across::Xdp) else { return };
    let mut gate = Gate::open(None);
    let numbered = |n: u16| ethernet(&[], 0x88b5, &[&n.to_be_bytes()[..], &[0; 60]].concat());
    let mut arrived = Vec::new();
    let mut programs = Vec::new();
    for n in 0..1_500_u16 {
        match n % 300 {
            0 => {
                gate.beat();
                programs.push(bench.network.gateway.ip("-o link show p0"));
            }
            200 => {
                gate.wire.as_mut().unwrap().set_passing(Some(Passing::Ended));
                gate.forward();
                drop(std::mem::replace(&mut gate, Gate::absent()));
            }
            250 => gate = Gate::open(None),
            _ => {}
        }
        bench.client.send(&numbered(n));
        gate.forward();
        bench.server.receive_into(&mut arrived);
    }
    std::thread::sleep(Duration::from_millis(100));
    bench.server.receive_into(&mut arrived);
    let all: Vec<_> = (0..1_500).map(numbered).collect();
    assert!(arrived == all, "{} of {} arrived", arrived.len(), all.len());
    let number = |shown: &String| {
        let id = shown.split("prog/xdp id ").nth(1).and_then(|id| id.split(' ').next());
        id.unwrap().to_owned()
    };
    let first = number(&programs[0]);
    assert!(programs[1..].iter().all(|shown| number(shown) != first), "{programs:?}");
}

#[test]
fn frames_bypass_the_gateway_at_its_request_until_the_next_heartbeat() {
    let Some(mut bench) = Bench::new(1_500, Across::Xdp) else { return };
    let mut gate = Gate::open(None);
    gate.beat();
    let wire = |gate: &mut Gate, passing| gate.wire.as_mut().unwrap().set_passing(passing);
    for why in [Passing::NothingToManage, Passing::Ended] {
        wire(&mut gate, Some(why));
        let before = gate.bypassed();
        assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 0));
        let now = gate.bypassed();
        let grew = |count: fn(Bypassed) -> Count| count(now).packets > count(before).packets;
        let expected = (why == Passing::NothingToManage, why == Passing::Ended);
        assert_eq!((grew(|it| it.idle), grew(|it| it.requested)), expected);
    }
    wire(&mut gate, None);
    gate.beat();
    assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 2));
}

#[test]
fn counters_of_bypassed_frames_continue_after_a_restart() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    drop(Gate::open(None));
    assert_eq!(bench.passes(&mut Gate::absent()), ONCE);
    let gate = Gate::open(None);
    assert!(gate.bypassed().requested.packets > 0, "{:?}", gate.bypassed());
}

#[test]
fn frames_bypass_the_gateway_until_its_programs_are_detached() {
    for across in [Across::Xdp, Across::Tc] {
        let Some(mut bench) = Bench::new(1_500, across) else { return };
        drop(Gate::open(None));
        assert_eq!(bench.passes(&mut Gate::absent()), ONCE);
        for interface in interfaces() {
            assert!(fail_to_wire::detach(&interface).unwrap());
            assert!(!fail_to_wire::detach(&interface).unwrap());
        }
        assert_eq!(bench.passes(&mut Gate::absent()), [0, 0]);
        assert!(!bench.network.gateway.ip("-o link show p0").contains("xdp"));
    }
}

#[test]
fn the_xdp_mode_can_be_changed_and_is_otherwise_kept() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    for (chosen, got) in [
        (None, Mode::Native),
        (Some(Mode::Generic), Mode::Generic),
        (None, Mode::Generic),
        (Some(Mode::Native), Mode::Native),
    ] {
        let mut gate = Gate::open(chosen);
        assert_eq!(gate.wire.as_ref().unwrap().modes(), [Some(got); 2], "{chosen:?}");
        gate.beat();
        assert_eq!(bench.passes(&mut gate), ONCE);
    }
}

#[test]
fn an_interface_with_two_receive_queues_is_read_on_both() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    let ethtool = |host: &Host, arguments: &'static str| {
        host.run(move || std::process::Command::new("ethtool").args(arguments.split(' ')).output())
    };
    let set = [
        ethtool(&bench.network.client, "-L c0 tx 2"),
        ethtool(&bench.network.gateway, "-L p0 rx 2"),
    ];
    if !set.iter().all(|output| output.as_ref().is_ok_and(|output| output.status.success())) {
        return eprintln!("skipped: cannot set queues: {set:?}");
    }
    let mut gate = Gate::open(None);
    assert_eq!(interfaces()[0].receive_queues(), 2);
    gate.beat();
    // Uses UDP from many source ports, so the sender spreads the flows over its queues.
    let mut frames = Vec::new();
    for port in 0..64 {
        let ip = [0x45, 0, 0, 128, 0, 1, 0, 0, 64, 17, 0x66, 0x67, 10, 7, 0, 1, 10, 7, 0, 2];
        let udp = [10, port, 0, 9, 0, 108, 0, 0];
        frames.push(ethernet(&[], 0x0800, &[&ip[..], &udp, &[port; 100]].concat()));
    }
    let [mut up, down] = bench.exchange(&frames, &mut gate);
    up.sort_unstable();
    assert!(up == frames && down == frames, "{} and {}", up.len(), down.len());
    let statistics = ethtool(&bench.network.gateway, "-S p0").unwrap().stdout;
    let statistics = String::from_utf8(statistics).unwrap();
    let used = |queue: u32| {
        let name = format!("rx_queue_{queue}_xdp_packets: ");
        let count = statistics.lines().find_map(|line| line.trim().strip_prefix(&name));
        count.is_some_and(|count| count != "0")
    };
    assert!(used(0) && used(1), "{statistics}");
    assert_eq!(gate.forwarded, 128);
}

#[test]
fn an_mtu_beyond_the_buffer_size_is_refused() {
    let Some(bench) = Bench::new(9_000, Across::Tc) else { return };
    let error = Gate::open_with(None, 4_096, TIMEOUT).err().unwrap();
    let OpenError::Mtu { mtu: 9_000, most: 3_840, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("ip link set p0 mtu 3818"), "{error}");
    assert!(!fail_to_wire::detach(&interfaces()[0]).unwrap());
    drop(bench);
    let Some(mut bench) = Bench::new(3_000, Across::Tc) else { return };
    let mut gate = Gate::open_with(Some(Mode::Native), 4_096, TIMEOUT).unwrap();
    gate.beat();
    let frames = [ethernet(&[0x8100_0001], 0x88b5, &[7; 3_000])];
    bench.crosses(&frames, &mut gate, "3000 bytes");
    assert_eq!(gate.forwarded, 2);
}

#[test]
fn a_queue_or_an_interface_in_use_is_reported() {
    let Some(bench) = Bench::new(1_500, Across::Tc) else { return };
    let gate = Gate::open(None);
    let error = Gate::open_with(None, 2_048, TIMEOUT).err().unwrap();
    assert!(matches!(&error, OpenError::Busy { queue: 0, .. }), "{error}");
    // A foreign program on the port must stay: the gateway refuses to start.
    drop(gate);
    for interface in interfaces() {
        fail_to_wire::detach(&interface).unwrap();
    }
    let mut foreign = Foreign::load();
    foreign.attach_xdp(&interfaces()[0]);
    let error = Gate::open_with(Some(Mode::Native), 2_048, TIMEOUT).err().unwrap();
    let OpenError::Wire(WireError::Occupied { .. }) = &error else { panic!("{error}") };
    assert!(!fail_to_wire::detach(&interfaces()[0]).unwrap(), "it is not ours to detach");
    drop(bench);
}

#[test]
fn with_packet_sockets_a_frame_arrives_once_whether_the_gateway_is_alive_or_not() {
    for tc in [Tc::Tcx, Tc::Filter] {
        let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
        // The gateway replaces the programs of an earlier run with AF_XDP.
        drop(Gate::open(None));
        let mut gate = on_packet_sockets(tc);
        gate.beat();
        bench.crosses(&frames(), &mut gate, "alive");
        assert_eq!(gate.forwarded, 14, "{tc:?}");
        drop(gate);
        bench.crosses(&frames(), &mut Gate::absent(), &format!("{tc:?}, ended"));
        // A restarted gateway replaces its own programs.
        let mut gate = on_packet_sockets(tc);
        gate.beat();
        assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 2), "{tc:?}");
        drop(gate);
        // A gateway with AF_XDP then replaces them again.
        let mut gate = Gate::open(None);
        gate.beat();
        assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 2), "{tc:?}");
    }
}

/// On a kernel without TCX, one filter is attached until it is detached.
#[test]
fn without_tcx_the_program_is_attached_as_a_filter() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    let filters = |bench: &Bench| {
        let show = || std::process::Command::new("tc").args(SHOW).output();
        let output = bench.network.gateway.run(show).map(|output| output.stdout);
        output
            .ok()
            .map(|text| String::from_utf8(text).unwrap().matches("handle 0x74677761").count())
    };
    const SHOW: [&str; 5] = ["filter", "show", "dev", "p0", "ingress"];
    for _ in 0..3 {
        drop(on_packet_sockets(Tc::Filter));
        assert!(filters(&bench).is_none_or(|count| count == 1));
    }
    assert_eq!(bench.passes(&mut Gate::absent()), ONCE);
    for interface in interfaces() {
        assert!(fail_to_wire::detach(&interface).unwrap());
        assert!(!fail_to_wire::detach(&interface).unwrap());
    }
    assert!(filters(&bench).is_none_or(|count| count == 0));
    assert_eq!(bench.passes(&mut Gate::absent()), [0, 0]);
}

/// Frames merged by the interface (GRO) would exceed a buffer and be lost.
#[test]
fn in_generic_mode_the_port_does_not_merge_received_frames() {
    let Some(bench) = Bench::new(1_500, Across::Tc) else { return };
    interfaces().iter().for_each(|port| port.set_offload(Offload::Gro, true).unwrap());
    drop(Gate::open(Some(Mode::Generic)));
    assert!(interfaces().iter().all(|port| !port.offload(Offload::Gro).unwrap()));
    drop(bench);
}

#[test]
fn the_buffer_size_depends_on_the_longest_frames_of_both_ports() {
    for (mtu, size) in [(1_500, 2_048), (1_770, 2_048), (1_771, 4_096), (9_000, 4_096)] {
        let Some(bench) = Bench::new(1_500, Across::Tc) else { return };
        bench.network.gateway.ip(&format!("link set p1 mtu {mtu}"));
        let [lan, wan] = interfaces();
        assert_eq!(af_xdp::buffer_size([&lan, &wan]).unwrap(), size, "{mtu}");
    }
}

#[test]
fn checksums_that_hosts_left_to_hardware_are_completed() {
    let Some(bench) = Bench::new(1_500, Across::Tc) else { return };
    let mut gate = Gate::open(None);
    gate.beat();
    for address in common::SERVER {
        let address = SocketAddr::new(address.parse().unwrap(), 9);
        let socket = bench.network.server.run(move || UdpSocket::bind(address).unwrap());
        let server = bench.network.server.spawn(move || {
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            let mut buffer = [0; 2_000];
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(&buffer[..len], from).unwrap();
        });
        let client = bench.network.client.spawn(move || {
            let offload = Interface::find("c0").unwrap().offload(Offload::TxChecksum);
            assert!(offload.unwrap(), "nothing would be left to complete");
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            socket.send_to(&[7; 1_001], address).unwrap();
            let mut buffer = [0; 2_000];
            assert_eq!(socket.recv(&mut buffer).unwrap(), 1_001);
            assert_eq!(buffer[..1_001], [7; 1_001]);
        });
        while !client.is_finished() {
            gate.forward();
        }
        client.join().unwrap();
        server.join().unwrap();
    }
}
