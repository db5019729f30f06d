//! Live test: ports with foreign BPF programs (not Tidegate's), and with bypass programs that
//! earlier gateways left behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "the stack of the kernel takes its own time")]

#[path = "common/bench.rs"]
#[expect(dead_code, reason = "shared with the tests of ports")]
mod bench;
#[expect(dead_code, reason = "shared with the tests of ports")]
mod common;
#[path = "common/programs.rs"]
mod programs;

use std::time::{Duration, Instant};

use aya::programs::{ProgramInfo, SchedClassifier, TcAttachType, loaded_programs};
use bench::{Across, Bench, Gate, interfaces, on_packet_sockets};
use programs::{Foreign, Former};
use tidegate_dataplane::fail_to_wire::{self, Mode, Tc};

/// Expected arrivals: one frame in each direction.
const ONCE: [usize; 2] = [1, 1];

/// The programs that a gateway of commit ae462d3 left on both ports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Left {
    /// AF_XDP. The XDP program itself redirects frames.
    Xdp(Mode),
    /// AF_XDP with a tc program, for drivers that cannot transmit redirected frames.
    XdpAndTc,
    /// AF_PACKET.
    Tc,
}

impl Left {
    const ALL: [Self; 4] =
        [Self::Xdp(Mode::Native), Self::Xdp(Mode::Generic), Self::XdpAndTc, Self::Tc];

    fn bench(self) -> Option<Bench> {
        let across = if self == Self::Xdp(Mode::Native) { Across::Xdp } else { Across::Tc };
        Bench::new(1_500, across)
    }

    fn attach(self) -> Vec<Former> {
        let [lan, wan] = interfaces();
        let mut left = Vec::new();
        for (port, peer) in [(&lan, &wan), (&wan, &lan)] {
            if let Self::Xdp(mode) = self {
                left.push(Former::wire(port, mode, Some(peer)));
            } else {
                left.push(Former::swallow(port, peer));
            }
            if self == Self::XdpAndTc {
                left.push(Former::wire(port, Mode::Native, None));
            }
        }
        left.iter_mut().for_each(Former::killed);
        left
    }
}

fn open(packet_sockets: Option<Tc>) -> Gate {
    packet_sockets.map_or_else(|| Gate::open(None), on_packet_sockets)
}

/// The troubles that the guard of `gate` reports.
fn troubles(gate: &Gate) -> Vec<String> {
    gate.wire.as_ref().unwrap().guard().look(&[]).iter().map(ToString::to_string).collect()
}

/// Waits until `holds` returns `true`, at most 10 s. The kernel frees programs late: a child
/// process of a parallel test inherits all descriptors until it executes its program.
fn eventually(condition: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "10 s, and it is not so that {condition}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns `true` if `ip` shows an XDP program on the port towards the client.
fn has_xdp(bench: &Bench) -> bool {
    bench.network.gateway.ip("-d link show p0").contains("prog/xdp")
}

/// The earlier version attached its programs by BPF links. These links have no visible pin, and the
/// kernel runs their programs before ours.
///
/// Catches: a search that finds earlier programs only by their pins; bypass counters that restart
/// from zero.
#[test]
fn programs_of_commit_ae462d3_are_replaced_even_without_a_visible_pin() {
    for left in Left::ALL {
        let filter = (left == Left::Tc).then_some(Some(Tc::Filter));
        for packet_sockets in [None, Some(Tc::Tcx)].into_iter().chain(filter) {
            let how = format!("{left:?}, then {packet_sockets:?}");
            let Some(mut bench) = left.bench() else { return };
            let former = left.attach();
            assert_eq!(bench.passes(&mut Gate::absent()), ONCE, "{how}");
            let mut gate = open(packet_sockets);
            assert!(
                gate.bypassed().silent.packets > 0,
                "{how}: the counts go on: {:?}",
                gate.bypassed()
            );
            gate.beat();
            assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 2), "{how}");
            assert_eq!(troubles(&gate), [""; 0], "{how}");
            drop(gate);
            assert_eq!(bench.passes(&mut Gate::absent()), ONCE, "{how}, ended");
            for interface in interfaces() {
                assert!(fail_to_wire::detach(&interface).unwrap(), "{how}");
                assert!(!fail_to_wire::detach(&interface).unwrap(), "{how}");
            }
            drop(former);
        }
    }
}

/// `detach` also removes programs of an earlier version while no gateway runs.
#[test]
fn programs_of_commit_ae462d3_are_detached_on_demand() {
    for left in Left::ALL {
        let Some(mut bench) = left.bench() else { return };
        let _former = left.attach();
        assert_eq!(bench.passes(&mut Gate::absent()), ONCE, "{left:?}");
        for interface in interfaces() {
            assert!(fail_to_wire::detach(&interface).unwrap(), "{left:?}");
            assert!(!fail_to_wire::detach(&interface).unwrap(), "{left:?}");
        }
        assert!(!has_xdp(&bench), "{left:?}");
    }
}

/// A gateway of an earlier version that starts after ours leaves such an orphaned program behind.
///
/// Catches: a guard that reports a dead gateway's program but does not detach it; a guard that
/// detaches the running gateway's programs.
#[test]
fn an_orphaned_program_that_is_attached_later_is_detached() {
    let left = Left::Xdp(Mode::Native);
    let Some(mut bench) = left.bench() else { return };
    let mut gate = on_packet_sockets(Tc::Tcx);
    gate.beat();
    let former = left.attach();
    assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 0), "it is in front");
    assert_eq!(troubles(&gate), [""; 0]);
    assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 2), "it is gone");
    drop(former);
}

/// The end of a lab deletes its namespaces with their interfaces.
///
/// Catches: a program that stays loaded after its interface was deleted, for instance because of a
/// pin.
#[test]
fn programs_end_with_their_interface() {
    let Some(bench) = Bench::new(1_500, Across::Tc) else { return };
    let mut gate = on_packet_sockets(Tc::Tcx);
    gate.beat();
    let (_, programs) = SchedClassifier::query_tcx("p0", TcAttachType::Ingress).unwrap();
    let ids: Vec<_> = programs.iter().map(ProgramInfo::id).collect();
    assert_eq!(ids.len(), 1);
    let is_loaded = || loaded_programs().flatten().any(|program| ids.contains(&program.id()));
    drop(gate);
    assert!(is_loaded(), "it stays without the gateway");
    bench.network.gateway.ip("link del p0");
    eventually("the program is gone", || !is_loaded());
}

/// The kernel runs TCX programs before filters (`sch_handle_ingress()`, Linux 6.6).
#[test]
fn tcx_programs_run_before_filters() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    let gate = on_packet_sockets(Tc::Tcx);
    let mut foreign = Foreign::load();
    interfaces().iter().for_each(|port| foreign.attach_filter(port));
    assert_eq!(bench.passes(&mut Gate::absent()), ONCE, "straight across, and not dropped");
    assert_eq!(troubles(&gate), [""; 0], "a filter comes after");
}

/// Catches: a guard that does not see foreign programs; a guard that reports a program after ours
/// as a program before ours.
#[test]
fn a_foreign_program_before_the_gateway_is_reported() {
    type Attach = fn(&mut Foreign, &tidegate_dataplane::Interface);
    let cases: [(Option<Tc>, Attach, &str); 5] = [
        (Some(Tc::Tcx), Foreign::attach_xdp, "the XDP program `pass_all`"),
        (Some(Tc::Tcx), Foreign::attach_tcx, "the TCX program `drop_all`"),
        (Some(Tc::Filter), Foreign::attach_tcx, "the TCX program `drop_all`"),
        (Some(Tc::Filter), Foreign::attach_filter, "the tc program `drop_all`"),
        (None, Foreign::attach_tcx, "the TCX program `drop_all`"),
    ];
    for (packet_sockets, attach, named) in cases {
        let Some(_bench) = Bench::new(1_500, Across::Tc) else { return };
        let gate = open(packet_sockets);
        assert_eq!(troubles(&gate), [""; 0]);
        let mut foreign = Foreign::load();
        attach(&mut foreign, &interfaces()[0]);
        let said = troubles(&gate);
        let expected = format!("{named} (id ");
        assert!(said.len() == 1 && said[0].starts_with(&expected), "{packet_sockets:?}: {said:?}");
        assert!(said[0].contains("on `p0`"), "{said:?}");
        drop(foreign);
        eventually("no trouble is reported", || troubles(&gate).is_empty());
    }
}

/// No program runs before the gateway's XDP program.
#[test]
fn a_foreign_program_after_the_gateways_program_is_not_reported() {
    let Some(bench) = Bench::new(1_500, Across::Xdp) else { return };
    let gate = open(None);
    let mut foreign = Foreign::load();
    interfaces().iter().for_each(|port| foreign.attach_tcx(port));
    assert_eq!(troubles(&gate), [""; 0]);
    drop((gate, bench));
}

#[test]
fn a_detached_program_is_reported_as_missing() {
    for packet_sockets in [None, Some(Tc::Tcx), Some(Tc::Filter)] {
        let Some(_bench) = Bench::new(1_500, Across::Tc) else { return };
        let gate = open(packet_sockets);
        fail_to_wire::detach(&interfaces()[1]).unwrap();
        let said = troubles(&gate);
        assert!(!said.is_empty(), "{packet_sockets:?}");
        assert!(said.iter().all(|it| it.contains("not on `p1` any more")), "{said:?}");
    }
}

/// Two gateways use one port. This happens in two containers with separate run directories, which
/// do not see each other's lock.
#[test]
fn programs_of_a_running_gateway_are_not_replaced() {
    let Some(mut bench) = Bench::new(1_500, Across::Tc) else { return };
    let mut gate = on_packet_sockets(Tc::Tcx);
    gate.beat();
    let [lan, wan] = interfaces();
    let config = bench::wire_config(&gate.clock);
    let second = tidegate_dataplane::FailToWire::beneath_packet_sockets(&config, [&lan, &wan]);
    let error = second.unwrap_err().to_string();
    assert!(error.contains("still alive") && error.contains("tidegate_tc"), "{error}");
    assert_eq!((bench.passes(&mut gate), gate.forwarded), (ONCE, 2));
}
