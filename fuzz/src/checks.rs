//! Checks for the fuzzers that take any bytes. An ordinary test of each crate also runs them on the
//! corpus.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each target uses its part, and fails by panicking"
)]

use std::time::Duration;

use tidegate_core::flow::FlowTable;
use tidegate_core::itcp::{self, LawKind, Most, RateAdjuster, ServiceSamples};
use tidegate_core::marking::tracker::{Sighting, Track, TrackerSpec};
use tidegate_core::packet::{Direction, Ecn, Network, TcpFlags, TcpSegment};
use tidegate_core::random::Random;
use tidegate_core::tcp::Segment;
use tidegate_core::{Bytes, Factor, Packet, Time};
use tidegate_wire::aggregate::{Answer, Bad, Confirmation, FIXED, Header, LONGEST};
use tidegate_wire::trunk::message::Message;
use tidegate_wire::trunk::{Ends, Form, Key, Opened, Session, admit, user_packet};
use tidegate_wire::{
    Checksum, Completed, clamp_segment_size, complete_checksum, describe, icmp, rewrite, segment,
    split,
};

fn described(frame: &[u8]) -> Packet {
    let mut packet = Packet::default();
    describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet);
    packet
}

/// The parser must return offsets and lengths inside the frame. Writing the unchanged descriptor
/// back must change no byte.
pub(crate) fn describe_any(bytes: &[u8]) {
    let packet = described(bytes);
    let (network, transport) =
        (usize::from(packet.network_offset), usize::from(packet.transport_offset));
    assert_eq!(packet.network == Network::Opaque, network == 0);
    assert!(transport <= bytes.len() && (transport == 0 || transport >= network + 20));
    if let Some(tcp) = packet.tcp {
        let header = usize::from(bytes[transport + 12] >> 4) * 4;
        assert!(transport + header + usize::try_from(tcp.payload).unwrap() <= bytes.len());
    }

    let selective = segment::sack(bytes, &packet);
    assert!(selective.is_empty() || packet.tcp.is_some_and(|tcp| tcp.has_sack));

    let mut copy = bytes.to_vec();
    rewrite(&mut copy, &packet, Checksum::Finished);
    assert_eq!(copy, bytes);
    let transport = Some(usize::from(packet.transport_offset));
    for piece in split::frames(bytes, 8, transport).into_iter().flatten() {
        assert!(piece.len() <= bytes.len());
    }
    if complete_checksum(&mut copy, &packet) == Completed::Some {
        assert_eq!(described(&copy).key, packet.key);
    }

    // Two variants of the frame: only its first half is available; its stated length is larger than
    // its bytes.
    let half = &bytes[..bytes.len() / 2];
    let mut short = Packet::default();
    describe(half, packet.len, &mut short);
    assert_eq!((short.len, usize::from(short.network_offset) > half.len()), (packet.len, false));
    describe(bytes, packet.len.saturating_add(70_000), &mut short);
}

/// Rewrites a frame. The first [`VALUES`] bytes are new header values, the rest is the frame.
/// Afterwards, the parser must return these values, and no other field may have changed. A correct
/// checksum must still be correct, and a wrong one must still be wrong.
pub(crate) fn rewrite_any(bytes: &[u8]) {
    let Some((values, frame)) = bytes.split_first_chunk::<VALUES>() else { return };
    let before = described(frame);
    let mut wanted = before;
    if before.network != Network::Opaque {
        wanted.dscp = values[0] >> 2;
        wanted.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(values[0] & 3)];
    }
    if let Some(tcp) = &mut wanted.tcp {
        tcp.ack = u32::from_be_bytes([values[1], values[2], values[3], values[4]]);
        tcp.window = u16::from_be_bytes([values[5], values[6]]);
        tcp.timestamps = tcp.timestamps.map(|(value, echo)| (value ^ tcp.ack, !echo));
    }
    let mut finished = frame.to_vec();
    rewrite(&mut finished, &wanted, Checksum::Finished);
    let after = described(&finished);
    // Under MPLS, the parser recognises an IPv4 header by its checksum. The rewrite keeps the
    // checksum, so the frame must still parse as IPv4. A header that TCP-AO authenticates must not
    // change.
    let written = if before.tcp.is_some_and(|tcp| tcp.authenticated) { before } else { wanted };
    assert_eq!((after.dscp, after.ecn, after.tcp), (wanted.dscp, wanted.ecn, written.tcp));
    assert_eq!((after.key, after.network), (before.key, before.network));
    assert_eq!(header_sum(&finished, &after), header_sum(frame, &before));
    assert_eq!(segment_sum(&finished, &after), segment_sum(frame, &before));

    let mut partial = frame.to_vec();
    rewrite(&mut partial, &wanted, Checksum::Partial);
    if before.tcp.is_some() {
        let field = usize::from(before.transport_offset) + 16;
        assert_eq!(partial[field..field + 2], frame[field..field + 2]);
        finished[field..field + 2].copy_from_slice(&frame[field..field + 2]);
    }
    assert_eq!(partial, finished);
}

/// The checksum sum over the IPv4 header.
fn header_sum(frame: &[u8], packet: &Packet) -> u32 {
    if packet.network != Network::Ipv4 {
        return 0;
    }
    let at = usize::from(packet.network_offset);
    slow_sum(&frame[at..at + usize::from(frame[at] & 0xf) * 4])
}

/// The checksum sum over the TCP segment, without the pseudo header, which no rewrite changes.
fn segment_sum(frame: &[u8], packet: &Packet) -> u32 {
    let Some(tcp) = packet.tcp else { return 0 };
    let at = usize::from(packet.transport_offset);
    let header = usize::from(frame[at + 12] >> 4) * 4;
    slow_sum(&frame[at..at + header + usize::try_from(tcp.payload).unwrap()])
}

/// The sum of all 16-bit words modulo 0xffff, as in one's complement arithmetic. Slow, but
/// obviously correct.
fn slow_sum(bytes: &[u8]) -> u32 {
    let word =
        |word: &[u8]| u32::from(word[0]) * 256 + word.get(1).map_or(0, |low| u32::from(*low));
    bytes.chunks(2).fold(0, |sum, bytes| (sum + word(bytes)) % 0xffff)
}

/// Decodes headers and confirmations of an aggregate connection. If they are accepted, encoding
/// them again must give the same bytes. The first bytes must determine the length.
pub(crate) fn aggregate_any(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.encode(), bytes);
        assert!(header.destination.port() != 0 && bytes.len() <= LONGEST);
        assert!(header.client.is_none_or(|it| it.is_ipv4() == header.destination.is_ipv4()));
    }
    if let Some((fixed, rest)) = bytes.split_first_chunk()
        && let Ok(length) = Header::rest(*fixed)
    {
        assert!(FIXED + length <= LONGEST);
        assert_eq!(Header::decode(bytes) == Err(Bad::Length), length != rest.len());
    }
    if let Some(bytes) = bytes.first_chunk()
        && let Ok(confirmation) = Confirmation::decode(*bytes)
    {
        assert_eq!(confirmation.encode(), *bytes);
    }
    if let Some(answer) = bytes.first().and_then(|byte| Answer::of(*byte)) {
        assert_eq!(Some(answer.byte()), bytes.first().copied());
    }
}

/// Decodes messages of a trunk. If a message is accepted, encoding it again must give the same
/// bytes. A trunk must refuse all datagrams from a sender without the key, even if only a few bits
/// differ from an authentic datagram. Afterwards, it must still accept the authentic datagram.
pub(crate) fn trunk_any(bytes: &[u8]) {
    if let Ok(message) = Message::read(bytes) {
        let mut again = Vec::new();
        assert!(message.write(&mut again).is_some());
        assert_eq!(again, bytes);
    }
    let (local, peer) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let ends = Ends { local, peer, port: 4754 };
    let [mut here, mut there] = [(ends, 1), (ends.reverse(), 2)]
        .map(|(ends, run)| Session::new(&Key([9; 32]), ends, [run; 32]));
    let now = Time::from_secs(1);
    assert!(here.open(now, bytes).is_err());
    agree(now, [&mut here, &mut there], bytes);
    let right = there.authenticate(3, &Segment::default()).unwrap().to_vec();
    let mut wrong = right.clone();
    wrong.iter_mut().zip(bytes).for_each(|(byte, change)| *byte ^= change);
    assert!(wrong == right || here.open(now, &wrong).is_err());
    // The fuzzer sees which bytes the code compares, so it may find the authentic datagram itself.
    // The trunk may accept this datagram.
    assert!(bytes == right || here.open(now, bytes).is_err());
    assert!(matches!(here.open(now, &right), Ok(Opened::Segment { channel: 3, .. })));
    carried_any(bytes);
}

/// Exchanges hello messages until both ends of a trunk agree on a session. The first end starts,
/// and each end answers if its peer requires it. The bytes `old` select replayed hellos of earlier
/// sessions, which must not prevent the agreement.
fn agree(now: Time, [here, there]: [&mut Session; 2], old: &[u8]) {
    let earlier = |of: &Session, run| Session::new(&Key([9; 32]), of.ends().reverse(), [run; 32]);
    let mut old = old.chunks(8);
    let (mut from, mut to, mut hello) = (here, there, None);
    for _ in 0..3 {
        for byte in old.next().unwrap_or_default() {
            let of = if byte & 1 == 0 { &mut *from } else { &mut *to };
            let _ = of.open(now, &earlier(of, 3 + byte / 2).hello());
        }
        let said = hello.take().unwrap_or_else(|| from.hello());
        let Ok(Opened::Hello { answer: Some(nonce) }) = to.open(now, &said) else { break };
        hello = Some(to.answer(nonce));
        std::mem::swap(&mut from, &mut to);
    }
    assert!(from.is_agreed() && to.is_agreed());
}

/// Encapsulates any bytes as a user packet. The other end must return the same bytes, and only
/// once. It must then admit or refuse the packet without a panic. The same holds for ICMP errors,
/// fragments and SYNs made from it.
fn carried_any(bytes: &[u8]) {
    let (local, peer) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let ends = Ends { local, peer, port: 4754 };
    let [mut here, mut there] = [(ends, 1), (ends.reverse(), 2)].map(|(ends, run)| {
        Session::new(&Key([9; 32]), ends, [run; 32])
            .like(Form { encapsulates: true, ..Form::default() })
    });
    let now = Time::from_secs(1);
    agree(now, [&mut here, &mut there], &[]);
    let mut datagram = [&[0; 7][..], bytes, &[0; 16]].concat();
    assert_eq!(there.authenticate_user(&mut datagram), Some(1));
    assert_eq!(here.open(now, &datagram), Ok(Opened::User));
    assert_eq!(user_packet(&datagram), bytes);
    assert!(here.open(now, &datagram).is_err());
    let mut packet = bytes.to_vec();
    let admitted = admit(&mut packet, Ecn::Ce).is_ok();
    let _ = icmp::read_too_big(bytes);
    let ethertype: [u8; 2] =
        if bytes.first().is_some_and(|it| it >> 4 == 6) { [0x86, 0xdd] } else { [8, 0] };
    let mut about = described(&[&[2; 12][..], &ethertype, &packet].concat());
    about.transport_offset = about.transport_offset.saturating_sub(about.network_offset);
    if admitted {
        for piece in split::fragments(&packet, 100).into_iter().flatten() {
            assert!(piece.len() <= 100 && admit(&mut piece.clone(), Ecn::NotEct).is_ok());
        }
    }
    for piece in split::segments(&packet, 8, None).into_iter().flatten() {
        assert!(piece.len() <= packet.len());
    }
    let _ = icmp::too_big(&packet, &about, 1_400, local);
    clamp_segment_size(&mut packet, &about, 1_400);
    assert_eq!(packet.len(), bytes.len());
}

/// Bytes at the start of the input of [`rewrite_any`]: DSCP and ECN, ACK number, window.
pub(crate) const VALUES: usize = 7;

/// Bytes that describe one packet in the input of [`trackers_any`].
const PACKET: usize = 20;

/// Feeds packets of one flow, in either direction, to all trackers. Every [`PACKET`] bytes of the
/// input describe a packet and the time before it. The window of a tracker must consist of bytes
/// that it has seen, its round-trip time must not be zero, and its round must not begin in the
/// future.
pub(crate) fn trackers_any(bytes: &[u8]) {
    let specs = [
        TrackerSpec::TwoWay(Default::default()),
        TrackerSpec::Paper(Default::default()),
        TrackerSpec::PaperIdle(Default::default()),
    ];
    for spec in specs {
        let mut table = FlowTable::new(1, 1);
        let (mut now, mut seen, mut track) = (Time::ZERO, 0, None);
        for bytes in bytes.chunks_exact(PACKET) {
            let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let what = bytes[0];
            now = Time::from_micros(now.nanos() / 1_000 + (u64::from(bytes[1]) << (what >> 4)));
            let tcp = TcpSegment {
                seq: number(2),
                ack: number(6),
                payload: u32::from(short(10)),
                flags: TcpFlags(bytes[12]),
                window: short(13),
                timestamps: (bytes[15] > 127).then(|| (u32::from(short(16)), u32::from(short(18)))),
                ..TcpSegment::default()
            };
            let direction = Direction::BOTH[usize::from(what & 1)];
            let mut packet = Packet {
                len: tcp.payload + 54,
                tcp: Some(tcp),
                ecn: [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(what >> 1 & 3)],
                segments: u16::from(bytes[15] & 15),
                segment: short(10) / 16,
                ..Packet::default()
            };
            let found = table.find(&packet, Direction::Up);
            let id = found.unwrap_or_else(|| table.insert(now, &packet, Direction::Up).unwrap().id);
            table[id].on_arrival(now, &mut packet, direction);
            table[id].on_departure(now, &packet, direction);
            let sighting = Sighting { now, packet: &packet, direction, flow: Some(&table[id]) };
            if direction == Direction::Down {
                if let Some(track) = &mut track {
                    Track::on_ack(track, &sighting);
                }
                continue;
            }
            seen += u64::from(packet.len);
            match &mut track {
                Some(track) => {
                    Track::on_arrival(track, &sighting);
                }
                None => track = Some(Track::new(&spec, &sighting)),
            }
            let track = track.as_mut().unwrap();
            if what & 8 != 0 {
                track.on_mark(now);
            }
            let estimate = track.estimate(now);
            assert!(estimate.window.0 <= seen && estimate.growth.0 < 1 << 16);
            assert!(estimate.round_start <= now && !estimate.rtt.is_zero());
        }
    }
}

/// Bytes that describe one sample in the input of [`adjuster_any`].
const SAMPLE: usize = 16;

/// Feeds samples to a rate adjuster. The first byte of the input selects the parameters; the other
/// bytes are samples. The weight must stay within its bounds, a returned weight must differ from
/// the last one, and timeouts must not move back in time.
pub(crate) fn adjuster_any(bytes: &[u8]) {
    let Some((what, samples)) = bytes.split_first() else { return };
    let config = itcp::Config {
        kind: [LawKind::Fixed, LawKind::Literal, LawKind::Measured][usize::from(what & 3).min(2)],
        service: if what & 4 == 0 { ServiceSamples::Mean } else { ServiceSamples::Contended },
        most: if what & 8 == 0 { Most::Constant(10) } else { Most::Connections },
        samples: 3 + u32::from(what >> 4),
        every: Duration::from_millis(1),
        max_queue: Bytes(if what & 32 == 0 { 1 } else { 1 << 20 }),
        ..itcp::Config::default()
    };
    assert_eq!(config.check(), Ok(()));
    let mut adjuster = RateAdjuster::new(&config, Random::new(1, u64::from(*what)), Time::ZERO);
    let mut seen = itcp::GatewayLoad::default();
    for bytes in samples.chunks_exact(SAMPLE) {
        let short = |at: usize| u64::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let scaled = |at: usize| (short(at) & 0xfff) << (short(at) >> 12 << 2).min(51);
        seen = itcp::GatewayLoad {
            queue: Bytes(scaled(0)),
            // The totals wrap around, as if a driver had reset them.
            arrived: seen.arrived.wrapping_add(scaled(2)),
            sent: seen.sent.wrapping_add(short(4)),
            sent_busy: seen.sent_busy.wrapping_add(short(6).min(short(4))),
            busy: seen.busy.saturating_add(Duration::from_nanos(scaled(8))),
            blocked: bytes[10] & 1 == 1,
            window: Bytes(scaled(11)),
            least_rtt: (bytes[10] & 2 == 2).then(|| Duration::from_nanos(scaled(13))),
            connections: u32::from(bytes[15]),
        };
        let due = adjuster.poll_timeout();
        let now = if bytes[10] & 4 == 4 { due + Duration::from_micros(short(13)) } else { due };
        let before = adjuster.weight();
        let changed = adjuster.handle_timeout(now, &seen);
        let weight = adjuster.weight();
        assert_eq!(changed, (weight != before).then_some(weight));
        let most = if config.most == Most::Connections { seen.connections } else { 10 };
        assert!(weight >= Factor::ONE && weight <= Factor::whole(most.max(1)));
        assert!(adjuster.poll_timeout() >= now);
    }
}
