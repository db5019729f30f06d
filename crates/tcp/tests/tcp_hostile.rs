//! An end point whose peer sends arbitrary segments. It never panics or sends without end, and an
//! honest peer still gets all bytes.

#![expect(clippy::unwrap_used, reason = "numbers of a test's own making")]

use std::time::Duration;

use proptest::prelude::*;
use tidegate_base::packet::{Ecn, SackBlocks, TcpFlags, TcpSegment};
use tidegate_base::{Bytes, Time};
use tidegate_tcp::{Config, Connection, EcnMode, Profile, Segment};

/// Next action of the peer. Numbers are offsets from the correct value.
#[derive(Clone, Debug)]
enum Step {
    Segment {
        seq: i64,
        ack: i64,
        payload: u32,
        flags: u8,
        window: u16,
        sack: Vec<(i64, i64)>,
        timestamps: Option<(i64, i64)>,
        marked: bool,
    },
    /// A correct ACK for this part of the sent data, in thousandths.
    Honest(u64),
    Write(u64),
    Read(u64),
    Close,
    Wait(u64),
}

/// Mostly near zero, sometimes near the edges of a window, rarely any value.
fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -3..3i64,
        4 => -5_000..60_000i64,
        1 => prop_oneof![Just(1i64 << 30), Just(-(1i64 << 30)), Just(1i64 << 31), Just(-70_000i64)],
        1 => any::<u32>().prop_map(i64::from),
    ]
}

fn flags() -> impl Strategy<Value = u8> {
    prop_oneof![
        8 => Just(TcpFlags::ACK),
        2 => Just(TcpFlags::ACK | TcpFlags::ECE),
        1 => Just(TcpFlags::ACK | TcpFlags::FIN),
        1 => Just(TcpFlags::SYN),
        1 => Just(TcpFlags::SYN | TcpFlags::ACK),
        1 => any::<u8>(),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let payload = prop_oneof![3 => Just(0u32), 2 => 1..3_000u32, 1 => Just(1_000_000u32)];
    let window = prop_oneof![Just(0u16), Just(1u16), 0..200u16, any::<u16>()];
    let sack = proptest::collection::vec((offset(), offset()), 0..4);
    let timestamps = proptest::option::of((offset(), offset()));
    let segment = (offset(), offset(), payload, flags(), window, sack, timestamps, any::<bool>());
    let segment =
        segment.prop_map(|(seq, ack, payload, flags, window, sack, timestamps, marked)| {
            Step::Segment { seq, ack, payload, flags, window, sack, timestamps, marked }
        });
    let step = prop_oneof![
        10 => segment,
        6 => (0..1_200u64).prop_map(Step::Honest),
        2 => (1..50_000u64).prop_map(Step::Write),
        1 => (0..100_000u64).prop_map(Step::Read),
        1 => Just(Step::Close),
        4 => (0..3_000u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..80)
}

/// The end point, and the state that an attacker on the path would know.
struct Victim {
    connection: Connection,
    now: Time,
    /// Sequence numbers of the stream of this end point: the lowest unacknowledged number and the
    /// end of the sent data.
    una: u32,
    sent: u32,
    /// The next sequence number that this end point expects from its peer.
    expected: u32,
    clock: u32,
}

/// More segments at one time than any window in this test permits.
const MOST_AT_ONCE: usize = 5_000;

/// More successive timers than a correct end point needs.
const MOST_TIMERS: usize = 10_000;

impl Victim {
    fn drain(&mut self) {
        let mut count = 0;
        while let Some(out) = self.connection.poll_transmit(self.now) {
            count += 1;
            assert!(count < MOST_AT_ONCE, "sends without end");
            let header = out.segment.header;
            if header.end_seq().wrapping_sub(self.sent).cast_signed() > 0 {
                self.sent = header.end_seq();
            }
            if header.flags.any(TcpFlags::ACK) {
                self.expected = header.ack;
            }
            self.clock = header.timestamps.map_or(self.clock, |(value, _)| value);
        }
        while self.connection.poll_event().is_some() {}
        let now = self.connection.statistics();
        assert!(now.congestion_window >= 1 && now.acknowledged <= now.written, "{now:?}");
        assert!(now.flight <= 1 << 33 && now.timeout <= Duration::from_secs(120), "{now:?}");
    }

    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..MOST_TIMERS {
            self.drain();
            match self.connection.poll_timeout().filter(|next| *next <= end) {
                Some(next) => self.now = self.now.max(next),
                None => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("timers without end at {:?}", self.now);
    }

    fn send(&mut self, header: TcpSegment, sack: SackBlocks, ecn: Ecn) {
        let header = TcpSegment { has_sack: !sack.is_empty(), ..header };
        self.connection.handle_segment(self.now, &Segment { header, sack, ecn });
        self.drain();
    }

    fn take(&mut self, step: &Step) {
        let near = |base: u32, offset: i64| base.wrapping_add_signed(low(offset));
        match step {
            Step::Segment { seq, ack, payload, flags, window, sack, timestamps, marked } => {
                let mut blocks = SackBlocks::default();
                for (from, to) in sack {
                    blocks.push((near(self.una, *from), near(self.una, *to)));
                }
                let timestamps =
                    timestamps.map(|(value, echo)| (near(0, value), near(self.clock, echo)));
                let header = TcpSegment {
                    seq: near(self.expected, *seq),
                    ack: near(self.una, *ack),
                    payload: *payload,
                    timestamps,
                    window: *window,
                    mss: *window,
                    window_scale: Some(200),
                    sack_permitted: *marked,
                    flags: TcpFlags(*flags),
                    has_sack: false,
                    authenticated: false,
                    options: Default::default(),
                    high_flags: 0,
                };
                self.send(header, blocks, if *marked { Ecn::Ce } else { Ecn::NotEct });
            }
            Step::Honest(thousandths) => {
                let out = self.sent.wrapping_sub(self.una).cast_signed().max(0).cast_unsigned();
                let part = u64::from(out) * thousandths / 1_000;
                self.una = self.una.wrapping_add(u32::try_from(part).unwrap().min(out));
                let header = TcpSegment {
                    seq: self.expected,
                    ack: self.una,
                    window: 4_000,
                    flags: TcpFlags(TcpFlags::ACK),
                    ..TcpSegment::default()
                };
                self.send(header, SackBlocks::default(), Ecn::NotEct);
            }
            Step::Write(bytes) => self.connection.write(*bytes),
            Step::Read(bytes) => self.connection.read(*bytes),
            Step::Close => self.connection.close(),
            Step::Wait(millis) => self.wait(Duration::from_millis(*millis)),
        }
        self.drain();
    }
}

fn low(offset: i64) -> i32 {
    i32::try_from(offset.rem_euclid(1 << 32) - (1 << 31)).unwrap().wrapping_add(i32::MIN)
}

fn victim(profile: u8, ecn: u8, listens: bool, isn: u32) -> Victim {
    let profile = [Profile::Ns2, Profile::Rfc, Profile::Linux][usize::from(profile)];
    let mut config = Config::new(profile);
    config.receive_window = Bytes(20_000);
    config.reports_arrivals = true;
    config.details.ecn = [EcnMode::Off, EcnMode::Classic, EcnMode::Accurate][usize::from(ecn)];
    let connection = if listens {
        Connection::listen(&config, Time::ZERO, isn)
    } else {
        Connection::connect(&config, Time::ZERO, isn)
    };
    let mut victim =
        Victim { connection, now: Time::ZERO, una: isn, sent: isn, expected: 0, clock: 0 };
    victim.drain();
    victim
}

/// A regular handshake with all options negotiated.
fn shake_hands(victim: &mut Victim, listens: bool) {
    let flags = if listens { TcpFlags::SYN } else { TcpFlags::SYN | TcpFlags::ACK };
    let isn = victim.una;
    let header = TcpSegment {
        seq: 77,
        ack: isn.wrapping_add(1),
        window: 60_000,
        mss: 1_000,
        window_scale: Some(3),
        sack_permitted: true,
        timestamps: Some((0, victim.clock)),
        flags: TcpFlags(flags | TcpFlags::ECE | if listens { TcpFlags::CWR } else { 0 }),
        ..TcpSegment::default()
    };
    victim.send(header, SackBlocks::default(), Ecn::NotEct);
    if listens {
        let header = TcpSegment {
            seq: 78,
            timestamps: Some((0, victim.clock)),
            flags: TcpFlags(TcpFlags::ACK),
            ..header
        };
        victim.send(header, SackBlocks::default(), Ecn::NotEct);
    }
    (victim.una, victim.expected) = (isn.wrapping_add(1), 78);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Catches: an ACK of unsent data that moves `una`; a persist timer without a reason; wrong
    /// counters after a segment was acknowledged in part.
    #[test]
    fn no_segments_of_a_peer_break_an_end_point(
        profile in 0..3u8,
        ecn in 0..3u8,
        listens: bool,
        open in prop::bool::weighted(0.8),
        isn: u32,
        steps in steps(),
    ) {
        let mut victim = victim(profile, ecn, listens, isn);
        if open {
            shake_hands(&mut victim, listens);
            victim.connection.write(30_000);
        }
        for step in &steps {
            victim.take(step);
        }
        victim.wait(Duration::from_secs(3_600));
    }
}
