//! Tests of the test bed itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tidegate_e2e::{Process, Recorder, Server, Sharing, Testbed, now, pause, send};
use tidegate_wire::build::Link;

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn bytes_cross_a_bridge_intact_both_ways_over_ipv4_and_ipv6() {
    let Some(bed) = Testbed::new() else { return };
    bed.bridge();
    let server = Server::start(&bed.wan, 7000, "reno");
    for address in [bed.wan.v4, bed.wan.v6] {
        for way in [&["--bytes", "3 MB"][..], &["--bytes", "3 MB", "--upload"]] {
            let outcome = server.fetch(address, &bed.lan, way).finish(LIMIT);
            assert!(outcome.complete && outcome.intact, "{address} {way:?}: {outcome:?}");
            assert_eq!(outcome.bytes, 3_000_000);
        }
    }
    assert!(bed.lan.received_bytes("eth0") > 6_000_000);
    assert!(bed.wan.tcp_counter("OutSegs") > 1_000);
}

#[test]
fn no_frame_crosses_without_a_gateway_or_a_bridge() {
    let Some(bed) = Testbed::new() else { return };
    let server = Server::start(&bed.wan, 7000, "reno");
    let fetch = server.fetch(bed.wan.v4, &bed.lan, &["--time", "1 s"]);
    assert_eq!(fetch.finish(LIMIT).bytes, 0);
}

#[test]
fn frames_arrive_byte_for_byte_with_their_vlan_tags() {
    let Some(bed) = Testbed::new() else { return };
    bed.bridge();
    let recorder = Recorder::start(&bed.wan);
    for (v6, vlans) in [(false, &[][..]), (true, &[]), (false, &[7]), (true, &[7, 8])] {
        let mut frame =
            bed.lan.datagram(&bed.wan, v6, (1, 9), &[vlans.len().try_into().unwrap(); 40]);
        frame.link.extend(vlans.iter().map(|id| Link::vlan(*id)));
        send(&bed.lan, &[frame.bytes()]);
        let same = |arrived: &[u8]| arrived == frame.bytes();
        assert_eq!(recorder.frames(1, LIMIT, same).len(), 1);
    }
}

#[test]
fn a_test_that_panics_leaves_no_namespaces() {
    let mut left = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let Some(bed) = Testbed::new() else { return };
        let sleeper = Process::start(bed.middle.command("sleep").arg("1000"));
        left.push((bed.folder.clone(), sleeper.id()));
        panic!("as tests do");
    }));
    if left.is_empty() {
        return;
    }
    assert!(panicked.is_err());
    for (folder, pid) in left {
        assert!(!folder.exists());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let names = Command::new("ip").args(["netns", "list"]).output().unwrap().stdout;
        assert!(!String::from_utf8(names).unwrap().contains(&name));
    }
}

#[test]
fn the_next_test_removes_the_namespaces_of_a_killed_test() {
    let dead = {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let abandoned = format!("tidegate-e2e-{dead}-0-lan");
    let made = Command::new("ip").args(["netns", "add", &abandoned]).status();
    if made.is_ok_and(|status| status.success()) {
        drop(Testbed::new());
        assert!(!Path::new("/run/netns").join(&abandoned).exists());
    }
}

/// Catches: test beds that never run at the same time; a test bed that runs at the same time as an
/// exclusive test bed.
#[test]
fn test_beds_may_run_beside_others_and_an_exclusive_one_waits_for_them() {
    let beside_others = || Testbed::sharing(Sharing::BesideOthers);
    let Some(first) = beside_others() else { return };
    assert!(beside_others().is_some());
    let alone = thread::spawn(|| Testbed::new().is_some());
    pause(Duration::from_millis(500));
    assert!(!alone.is_finished());
    drop(first);
    assert!(alone.join().unwrap());
}

#[test]
fn every_wait_has_a_time_limit() {
    let start = now();
    let sleeper = Process::start(Command::new("sleep").arg("1000"));
    let waited = catch_unwind(AssertUnwindSafe(|| sleeper.finish(Duration::from_millis(200))));
    assert!(waited.is_err());
    assert!(start.elapsed() < LIMIT);
}
