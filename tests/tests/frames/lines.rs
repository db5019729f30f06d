//! Live tests of the gateway's default queue on links with a slow uplink: the order of packets, and
//! the rate of a download.
//!
//! The tests check the order of frames, and compare results of the same run. They check no absolute
//! rates or times. The heartbeat timeout is long, so frames do not bypass the gateway even on a
//! busy machine.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use tidegate_e2e::measure::float;
use tidegate_e2e::{Fetch, Recorder, Server, Testbed, on_each_backend, pause, send};
use tidegate_wire::build::Frame;

on_each_backend! { witnessed_beside_others:
    a_download_keeps_its_rate_beside_uploads
    a_small_packet_waits_for_one_frame_of_an_upload
    a_computer_with_four_addresses_has_one_share
}

const LIMIT: Duration = Duration::from_secs(20);

/// If no ACK is dropped, the ACKs of the download need 0.2 Mbit/s, more than half of the uplink.
const SLOW: &str = r#"
heartbeat = "10 s"
rate = { up = "0.3 Mbit/s", down = "10 Mbit/s" }
"#;

const UPLOADS: usize = 16;

/// Time before a measurement, in which the flows reach their rates.
const WARM_UP: Duration = Duration::from_millis(1_200);

const MEASURED: Duration = Duration::from_millis(1_500);

/// Payload rate of `fetch` over [`MEASURED`], in bytes per second.
fn rate(fetch: &Fetch) -> f64 {
    pause(WARM_UP);
    let before = fetch.progress();
    pause(MEASURED);
    let after = fetch.progress();
    float(after.1 - before.1) / (after.0 - before.0).as_secs_f64()
}

/// Catches: `fq-codel` as the default queue of the link; an ACK that the queue removes because a
/// later one replaces it (thinned), and that counts as dropped or is not counted.
fn a_download_keeps_its_rate_beside_uploads(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, SLOW);
    let server = Server::start(&bed.wan, 7_000, "cubic");
    let fetch = |words: &[&str]| server.fetch(bed.wan.v4, &bed.lan, words);
    let download = fetch(&["--time", "20 s"]);
    let alone = rate(&download);
    let uploads: Vec<Fetch> =
        (0..UPLOADS).map(|_| fetch(&["--time", "20 s", "--upload"])).collect();
    let beside = rate(&download);
    drop(uploads);
    let status = gateway.status();
    assert!(beside > KEPT * alone, "{beside} of {alone} B/s, {status}");
    assert!(status["redundant_acks"].as_u64() > Some(THINNED), "{status}");
    assert_eq!(status["drops"]["redundant-ack"], serde_json::Value::Null, "{status}");
}

/// Minimum share of its rate that the download keeps. Measured: 0.9 with the default queue, 0.2
/// with `fq-codel`.
const KEPT: f64 = 0.55;

/// Minimum number of removed ACKs. At 10 Mbit/s, a download causes 400 ACKs per second.
const THINNED: u64 = 100;

/// A slow link. A full frame of an upload takes 48 ms on it.
const UPLINK: &str = r#"
heartbeat = "10 s"
rate = { up = "0.25 Mbit/s", down = "10 Mbit/s" }
"#;

/// Number of bursts. Each burst has `FULL` full frames of an upload, and then a small packet.
const BURSTS: u8 = 5;
const FULL: usize = 4;

/// Number of full frames that an idle link sends at once. The token bucket holds tokens for one
/// frame, and the next frame may borrow tokens.
const AT_ONCE: usize = 2;

/// Pause between two bursts. It is longer than two frames take, so the token bucket fills up again.
const REST: Duration = Duration::from_millis(150);

/// Two full frames depart as soon as they arrive. The small packet must be next. If the gateway
/// chose the third full frame before the link was free, the small packet would wait for this frame
/// in every burst. On a busy machine, more or fewer frames may precede the small packet, so one
/// undisturbed burst is enough.
///
/// Catches: a packet chosen before the link is free; a small packet that waits until the whole
/// upload has departed.
fn a_small_packet_waits_for_one_frame_of_an_upload(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, UPLINK);
    let recorder = Recorder::start(&bed.wan);
    let datagram = |port, len, burst: u8| {
        bed.lan.datagram(&bed.wan, false, (port, 9), &vec![burst; len]).bytes()
    };
    let ahead = |burst: u8| {
        let full = datagram(5_000, 1_472, burst);
        let small = datagram(6_000, 18, burst);
        let frames: Vec<_> = (0..FULL).map(|_| full.clone()).chain([small.clone()]).collect();
        pause(REST);
        send(&bed.lan, &frames);
        let ours = |frame: &[u8]| frame == full || frame == small;
        let arrived = recorder.frames(frames.len(), LIMIT, ours);
        arrived.iter().position(|frame| *frame == small)
    };
    let ahead: Vec<_> = (1..=BURSTS).map(ahead).collect();
    assert!(ahead.contains(&Some(AT_ONCE)), "{ahead:?}, {}", gateway.status());
}

/// A frame takes 16 ms on this link. So frames of all addresses soon wait, even if the sender is
/// slow.
const ADDRESSES: &str = r#"
heartbeat = "10 s"
rate = { up = "0.5 Mbit/s" }

[[policy]]
name = "shared"
match = { direction = "down", protocol = "udp" }
profile = { mean = "0.5 Mbit/s", burst = "3028 B" }
action = "shape"
fair_between = { by = "destination-host", ipv6 = 56 }
"#;

/// Number of frames from each address.
const EACH: usize = 32;

/// From the frame with this number on, frames of all addresses wait.
const FROM: usize = 16;

/// Up to this frame, the computer with one address should have half of the frames. If each address
/// counted as a host, its share would be a fifth. The limit of the test lies between the two.
const UNTIL: usize = 48;

/// Catches: a configured prefix length that is ignored; several addresses of one station that count
/// as several hosts.
fn a_computer_with_four_addresses_has_one_share(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, ADDRESSES);
    let address = |subnet, host| Ipv6Addr::new(0xfd83, 0, 0, subnet, 0, 0, 0, host);
    // The first four addresses are in one prefix of 56 bits.
    let four = [0x100, 0x101, 0x17f, 0x1ff].map(|subnet| address(subnet, 1));
    let one = address(0x200, 1);
    let server = address(0x900, 1);
    for (from, to, up) in [(&bed.lan, &bed.wan, true), (&bed.wan, &bed.lan, false)] {
        let frame = |inside: Ipv6Addr| {
            let (src, dst) = if up { (inside, server) } else { (server, inside) };
            let at = |it: Ipv6Addr| SocketAddr::new(it.into(), 9);
            let mut source = from.mac;
            // Each computer has its own MAC address.
            source[4] = if up && inside == one { 1 } else { 0 };
            let mut frame = Frame::udp(at(src), at(dst));
            (frame.source, frame.destination) = (source, to.mac);
            frame.payload = vec![0xa5; 900];
            frame.bytes()
        };
        let recorder = Recorder::start(to);
        let one_each = || four.into_iter().chain([one]).map(frame);
        send(from, &(0..EACH).flat_map(|_| one_each()).collect::<Vec<_>>());
        let at = if up { 22..38 } else { 38..54 };
        let of = |frame: &[u8], it: Ipv6Addr| frame.get(at.clone()) == Some(&it.octets()[..]);
        let ours = |frame: &[u8]| four.into_iter().chain([one]).any(|it| of(frame, it));
        let arrived = recorder.frames(UNTIL, LIMIT, ours);
        let share = arrived[FROM..UNTIL].iter().filter(|frame| of(frame, one)).count();
        assert!(10 * share > 3 * (UNTIL - FROM), "up: {up}, {share}, {}", gateway.status());
    }
}
