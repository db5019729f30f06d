//! Voice packets that share a slow line with an upload.

use std::time::Duration;

use tidegate_core::{Bytes, Machine, Rate, Time};
use tidegate_gateway::{Gateway, GatewayConfig};

use super::gateway_run::{Run, config, packet, queue};

const UPLOAD: u8 = 1;
const VOICE: u8 = 2;

/// Lengths of a full frame, and of a frame with a G.729 voice sample (RTP, UDP, IPv4).
const FULL: u32 = 1_514;
const SMALL: u32 = 74;
/// Interval of voice packets. It is not a multiple of the upload's interval, so all relative times
/// occur.
const EVERY: Duration = Duration::from_micros(20_013);

/// Delay of voice packets beyond the line.
const PATH: Duration = Duration::from_millis(20);

/// Sends voice packets, and an upload that always has frames waiting, through a gateway with
/// `rate`. The packets then pass a line with `line_rate`. Returns two values: the longest delay of
/// a voice packet to the other end of the line, and the number of bytes sent beyond those that
/// `rate` carries.
fn play(queue_name: &str, rate: Rate, line_rate: Rate) -> (Duration, i64) {
    let config = GatewayConfig { rate: [Some(rate); 2], queue: queue(queue_name), ..config() };
    let mut run = Run::new(&config, Vec::new());
    let (mut line_free, mut longest, mut bytes) = (Time::ZERO, Duration::ZERO, 0);
    let (mut uploads, mut seen) = (0, 0);
    // Send enough frames for two intervals, and some more that wait.
    let frames = rate.bytes_in(2 * EVERY).0 / u64::from(FULL);
    let backlog = u32::try_from(frames).unwrap() + 4;
    for n in 0..u32::try_from(SECONDS * 50).unwrap() {
        run.until(Time::ZERO + EVERY * n);
        for _ in 0..backlog {
            if run.gateway.pool().in_use() < backlog {
                run.offer(UPLOAD, uploads, FULL);
                uploads += 1;
            }
        }
        let number = u32::try_from(run.now.nanos() / 1_000).unwrap();
        run.offer_packet(Gateway::LAN, packet(VOICE, number, SMALL));
        for left in &run.left[seen..] {
            let len = Bytes(u64::from(if left.host == VOICE { SMALL } else { FULL }));
            line_free = line_free.max(left.at) + line_rate.time_for(len);
            bytes += len.0;
            if left.host == VOICE && left.at > WARM {
                let took = line_free.since(Time::from_micros(left.number.into()));
                longest = longest.max(took + PATH);
            }
        }
        seen = run.left.len();
    }
    let carried = rate.bytes_in(run.now.since(Time::ZERO)).0;
    (longest, bytes.cast_signed() - carried.cast_signed())
}

const SECONDS: u64 = 60;

/// Time at which the initial burst has left the queue of the line.
const WARM: Time = Time::from_secs(20);

/// Catches: a packet that is chosen before the line is free, so that voice waits for two frames.
#[test]
fn voice_waits_for_at_most_one_frame_of_an_upload() {
    for (kbps, most) in [(128, 125), (256, 73), (500, 47), (1_000, 33)] {
        for queue in ["per-flow", "fq-codel"] {
            let rate = Rate::from_kbps(kbps);
            let (longest, _) = play(queue, rate, Rate::from_kbps(kbps * 102 / 100));
            assert!(longest <= Duration::from_millis(most), "{queue}, {kbps} kbit/s: {longest:?}");
        }
    }
}

/// Catches: a rate that is not exact to the byte; a debt that is forgotten; two frames sent beyond
/// the burst.
#[test]
fn a_slow_link_that_is_always_busy_carries_its_rate_exactly() {
    for (kbps, burst) in [(128, 3_076), (500, 3_076), (20_000, 5_000)] {
        let rate = Rate::from_kbps(kbps);
        let (_, beyond) = play("per-flow", rate, rate);
        // A packet may start at a balance of zero. At the beginning, the bucket has `burst - frame`
        // bytes.
        assert!((burst - 1_538..=burst).contains(&beyond), "{kbps} kbit/s: {beyond} bytes");
    }
}

/// Catches: a check of the other direction's rate; a limit that a change of the rate does not
/// update.
#[test]
fn super_packets_are_split_for_an_egress_link_below_a_gigabit() {
    let mbps = |up, down| GatewayConfig {
        rate: [up, down].map(|it: Option<u64>| it.map(Rate::from_mbps)),
        ..config()
    };
    let mut run = Run::new(&mbps(Some(999), Some(1_000)), Vec::new());
    let wants = |run: &Run| [Gateway::LAN, Gateway::WAN].map(|port| run.gateway.wants_frames(port));
    assert_eq!(wants(&run), [true, false]);
    run.gateway.reconfigure(Time::ZERO, &mbps(None, Some(10)));
    assert_eq!(wants(&run), [false, true]);
}
