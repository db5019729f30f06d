//! Tests that two ends agree on a session, whatever the path loses or an attacker sends.

use proptest::prelude::*;
use tidegate_core::packet::{SackBlocks, TcpFlags, TcpSegment};
use tidegate_core::tcp::Segment;

use super::message::{Message, VERSION};
use super::*;
use tidegate_core::Time;
use tidegate_core::trunk::Probing;

const ENDS: Ends = Ends {
    local: std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    peer: std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)),
    port: 4754,
};

const KEY: Key = Key([7; 32]);

/// The first or the second end. Each restart of an end has another `run` number.
fn end(second: bool, run: u8) -> Session {
    let ends = if second { ENDS.reverse() } else { ENDS };
    Session::new(&KEY, ends, [run; 32])
}

impl Session {
    /// Encodes a segment, and copies the datagram.
    fn authenticated(&mut self, channel: u8, segment: &Segment) -> Option<Vec<u8>> {
        self.authenticate(channel, segment).map(<[u8]>::to_vec)
    }

    /// Encodes a user packet. Returns the packet number and the datagram.
    fn authenticated_user(&mut self, packet: &[u8]) -> Option<(u64, Vec<u8>)> {
        let mut datagram = [&[0; 7][..], packet, &[0; 16]].concat();
        Some((self.authenticate_user(&mut datagram)?, datagram))
    }
}

fn second(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

/// Exchanges hellos until no answer is due. Returns all hellos, each with the index of its
/// receiver.
fn greet(ends: &mut [Session; 2], now: Time) -> Vec<(usize, Vec<u8>)> {
    let mut crossed = vec![(1, ends[0].hello())];
    let mut next = 0;
    while let Some((to, hello)) = crossed.get(next).cloned() {
        next += 1;
        if let Ok(Opened::Hello { answer: Some(nonce) }) = ends[to].open(now, &hello) {
            crossed.push((1 - to, ends[to].answer(nonce)));
        }
        assert!(next < 20, "they do not come to an end");
    }
    crossed
}

fn agreed() -> [Session; 2] {
    let mut ends = [end(false, 1), end(true, 2)];
    greet(&mut ends, Time::ZERO);
    assert!(ends.iter().all(Session::is_agreed));
    ends
}

fn segments() -> impl Strategy<Value = Segment> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>(), any::<u8>());
    let times = prop::option::of((any::<u32>(), any::<u32>()));
    let syn = (any::<u16>(), prop::option::of(0u8..=14), any::<bool>());
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..=4);
    (numbers, times, syn, blocks).prop_map(|(numbers, timestamps, syn, blocks)| {
        let (seq, ack, window, payload, flags) = numbers;
        let (mss, window_scale, sack_permitted) = syn;
        let mut sack = SackBlocks::default();
        blocks.iter().for_each(|block| assert!(sack.push(*block)));
        let (payload, flags) = (payload.into(), TcpFlags(flags));
        let has_sack = !sack.is_empty();
        #[rustfmt::skip]
        let header = TcpSegment {
            seq, ack, payload, timestamps, window, mss, flags, window_scale, sack_permitted, has_sack,
            ..TcpSegment::default()
        };
        Segment { header, sack, ..Segment::default() }
    })
}

#[test]
fn a_segment_with_timestamps_has_the_documented_length() {
    let mut ends = agreed();
    let header = TcpSegment { timestamps: Some((1, 2)), payload: 1_460, ..TcpSegment::default() };
    let bytes = ends[0].authenticated(0, &Segment { header, ..Segment::default() }).unwrap();
    assert_eq!(bytes.len(), 46);
    assert!((20 + 8 + bytes.len()) * 100 <= 1_500 * 5);
    assert!((40 + 8 + bytes.len()) * 1_000 <= 1_500 * 65);
}

#[test]
fn nothing_is_authenticated_or_accepted_before_both_ends_have_received_a_hello() {
    let mut ends = [end(false, 1), end(true, 2)];
    assert!(ends[0].authenticated(0, &Segment::default()).is_none());
    let hello = ends[0].hello();
    assert!(matches!(ends[1].open(Time::ZERO, &hello), Ok(Opened::Hello { answer: Some(_) })));
    assert!(!ends[1].is_agreed() && ends[1].alive().is_none(), "it may be one of long ago");
    greet(&mut ends, second(1));
    assert_eq!(ends.each_ref().map(Session::sessions), [1, 1]);
    // Periodic hellos change nothing.
    assert_eq!(greet(&mut ends, second(2)).len(), 1);
}

/// Catches: equal keys for both directions; a key that does not depend on addresses and port.
#[test]
fn a_datagram_is_refused_by_its_own_sender_and_by_another_trunk() {
    let mut ends = agreed();
    let bytes = ends[0].authenticated(0, &Segment::default()).unwrap();
    assert_eq!(ends[0].open(Time::ZERO, &bytes), Err(Refusal::Forged));
    assert_eq!(ends[0].open(Time::ZERO, &ends[0].hello()), Err(Refusal::Forged));
    let mut other = Session::new(&KEY, Ends { port: 9, ..ENDS.reverse() }, [2; 32]);
    assert_eq!(other.open(Time::ZERO, &ends[0].hello()), Err(Refusal::Forged));
    let mut other = Session::new(&Key([8; 32]), ENDS.reverse(), [2; 32]);
    assert_eq!(other.open(Time::ZERO, &ends[0].hello()), Err(Refusal::Forged));
}

/// Catches: a session that begins with a hello of an earlier run of the peer; a nonce that serves
/// two sessions.
#[test]
fn after_a_restart_of_the_peer_datagrams_of_its_earlier_run_are_refused() {
    let mut ends = [end(false, 1), end(true, 2)];
    let mut recorded: Vec<_> = greet(&mut ends, Time::ZERO);
    for channel in 0..3 {
        recorded.push((1, ends[0].authenticated(channel, &Segment::default()).unwrap()));
    }
    ends[0] = end(false, 3);
    greet(&mut ends, second(2));
    let bytes = ends[0].authenticated(5, &Segment::default()).unwrap();
    assert!(matches!(ends[1].open(second(2), &bytes), Ok(Opened::Segment { channel: 5, .. })));
    let sessions = ends[1].sessions();
    for (_, bytes) in recorded.iter().chain(&recorded).filter(|(to, _)| *to == 1) {
        let opened = ends[1].open(second(4), bytes);
        assert!(!matches!(opened, Ok(Opened::Segment { .. })), "{opened:?}");
    }
    assert_eq!((ends[1].sessions(), ends[1].alive()), (sessions, Some(second(2))));
    // The answer to a replayed hello does not end the session.
    greet(&mut ends, second(5));
    let bytes = ends[0].authenticated(6, &Segment::default()).unwrap();
    assert!(matches!(ends[1].open(second(5), &bytes), Ok(Opened::Segment { channel: 6, .. })));
}

/// Catches: a nonce that is answered twice within a second; an unlimited number of answers.
#[test]
fn each_nonce_is_answered_once_a_second_and_the_number_of_answers_is_limited() {
    let mut here = end(true, 0);
    let mut answers = |now, runs: std::ops::Range<u8>| {
        let hellos = runs.map(|run| end(false, run).hello());
        let opened = hellos.cycle().take(1_000).map(|hello| here.open(now, &hello));
        opened.filter(|it| matches!(it, Ok(Opened::Hello { answer: Some(_) }))).count()
    };
    assert_eq!([answers(Time::ZERO, 1..2), answers(Time::ZERO, 1..5)], [1, 3]);
    assert_eq!([answers(second(1), 1..2), answers(second(1), 1..200)], [1, 63]);
}

/// Two new ends send a hello each second over a path with a delay of 50 ms, for `end_ms`
/// milliseconds. Each end in `victims` also receives `hello_rate` recorded hellos per second, which
/// its peer sent in `runs` earlier runs.
fn flooded(victims: &[usize], runs: u8, hello_rate: u64, end_ms: u64) -> [Session; 2] {
    let mut recorded = [Vec::new(), Vec::new()];
    for run in 0..runs {
        let mut ends = [end(false, 100 + run), end(true, 100 + run)];
        greet(&mut ends, Time::ZERO).into_iter().for_each(|(to, hello)| recorded[to].push(hello));
    }
    let mut ends = [end(false, 1), end(true, 2)];
    let mut crossing: std::collections::VecDeque<(u64, usize, Vec<u8>)> = [].into();
    for ms in 0..end_ms {
        let now = Time::from_millis(ms);
        for &to in victims {
            for n in ms * hello_rate / 1_000..(ms + 1) * hello_rate / 1_000 {
                let n = usize::try_from(n).unwrap();
                crossing.push_front((ms, to, recorded[to][n % recorded[to].len()].clone()));
            }
        }
        for to in [0, 1] {
            if ms % 1_000 == 300 + 400 * u64::try_from(to).unwrap() {
                crossing.push_back((ms + 50, 1 - to, ends[to].hello()));
            }
        }
        while let Some((_, to, hello)) = crossing.pop_front_if(|(due, ..)| *due <= ms) {
            if let Ok(Opened::Hello { answer: Some(nonce) }) = ends[to].open(now, &hello) {
                crossing.push_back((ms + 50, 1 - to, ends[to].answer(nonce)));
            }
        }
    }
    ends
}

/// In the last case, replayed hellos use up the limit of answers to unverified nonces.
///
/// Catches: a live peer without an answer, because replayed hellos used up the limit; answers that
/// all repeat the same nonce; an answer to a live peer that counts towards the limit.
#[test]
fn replayed_hellos_prevent_neither_a_session_nor_its_keepalives() {
    let both: &[usize] = &[0, 1];
    for (to, runs, flood) in
        [(both, 1, 10), (both, 1, 300), (both, 1, 2_000), (both, 20, 700), (&[1], 100, 5_000)]
    {
        for end_ms in [500, 30_000] {
            let mut ends = flooded(to, runs, flood, end_ms);
            let now = Time::from_millis(end_ms);
            let segment = ends.each_mut().map(|it| it.authenticated(9, &Segment::default()));
            let [Some(here), Some(there)] = segment else {
                panic!("{runs} runs, {flood} a second")
            };
            let alive = ends.each_ref().map(|it| now.since(it.alive().unwrap()).as_millis());
            assert!(
                alive.iter().all(|ms| *ms <= 1_000),
                "{runs} runs, {flood} a second: {alive:?}"
            );
            assert_eq!(ends.each_ref().map(Session::sessions), [1, 1]);
            assert!(matches!(ends[0].open(now, &there), Ok(Opened::Segment { channel: 9, .. })));
            assert!(matches!(ends[1].open(now, &here), Ok(Opened::Segment { channel: 9, .. })));
        }
    }
}

const DATAGRAMS: Form = Form { encapsulates: true, probing: Probing::Management, weighted: false };

fn encapsulating() -> [Session; 2] {
    let mut ends = [end(false, 1), end(true, 2)].map(|it| it.like(DATAGRAMS));
    greet(&mut ends, Time::ZERO);
    ends
}

/// Catches: ends that agree although only one of them encapsulates user packets; a reported
/// difference that remains after the settings are equal.
#[test]
fn ends_that_differ_on_encapsulation_begin_no_session_and_report_the_difference() {
    let mut ends = [end(false, 1).like(DATAGRAMS), end(true, 2)];
    for now in 0..3 {
        greet(&mut ends, second(now));
        ends.reverse();
    }
    for it in &ends {
        assert!(
            it.difference() == Some(Refusal::Encapsulation)
                && !it.is_agreed()
                && it.alive().is_none()
        );
        assert!(it.refused().of(Refusal::Encapsulation) > 0);
    }
    let mut ends = [end(false, 1).like(DATAGRAMS), end(true, 3).like(DATAGRAMS)];
    greet(&mut ends, second(9));
    assert!(ends.iter().all(|it| it.is_agreed() && it.difference().is_none()));
}

/// Catches: ends that agree although their probing mechanisms differ, or only one of them has a
/// weight.
#[test]
fn ends_with_different_probing_begin_no_session_and_report_the_difference() {
    let form = |probing, weighted| Form { encapsulates: false, probing, weighted };
    let management = form(Probing::Management, false);
    let vegas = form(Probing::Vegas, false);
    for (one, other, reason) in [
        (form(Probing::Epochs, false), management, Refusal::Probing),
        (vegas, management, Refusal::Probing),
        (vegas, form(Probing::Epochs, false), Refusal::Probing),
        (form(Probing::Management, true), management, Refusal::Weight),
    ] {
        let mut ends = [end(false, 1).like(one), end(true, 2).like(other)];
        for now in 0..3 {
            greet(&mut ends, second(now));
            ends.reverse();
        }
        for it in &ends {
            assert!(it.difference() == Some(reason) && !it.is_agreed());
            assert!(it.refused().of(reason) > 0, "{one:?}, {other:?}");
            let others = it.refused().iter().filter(|(_, count)| *count > 0);
            assert_eq!(others.count(), 1);
        }
        let mut ends = [end(false, 1).like(one), end(true, 3).like(one)];
        greet(&mut ends, second(9));
        assert!(ends.iter().all(|it| it.is_agreed() && it.difference().is_none()));
    }
}

/// Catches: a hello that earlier releases refuse, although the trunk uses neither `vegas` nor a
/// weight; a hello that states two probing mechanisms.
#[test]
fn earlier_releases_can_read_the_form_of_a_hello_that_uses_only_their_features() {
    let byte = |form| {
        let mut bytes = Vec::new();
        Message::Hello { form, own: [1; 16], heard: [2; 16] }.write(&mut bytes).unwrap();
        assert_eq!(
            Message::read(&bytes),
            Ok(Message::Hello { form, own: [1; 16], heard: [2; 16] })
        );
        bytes[1]
    };
    let form = |encapsulates, probing, weighted| Form { encapsulates, probing, weighted };
    assert_eq!(byte(form(false, Probing::Management, false)), 0);
    assert_eq!(byte(form(true, Probing::Epochs, false)), 3);
    assert_eq!(byte(form(true, Probing::Vegas, false)), 5);
    assert_eq!(byte(form(false, Probing::Management, true)), 8);
    for unknown in [6, 16, 0xff] {
        let bytes = [&[0x21, unknown, 0, 0][..], &[0; 32]].concat();
        assert_eq!(Message::read(&bytes), Err(Refusal::Malformed));
    }
}

/// Catches: one number space for segments and user packets, in which many user packets make a
/// delayed segment too old.
#[test]
fn many_user_packets_do_not_make_a_segment_too_old() {
    let mut ends = encapsulating();
    let early = ends[0].authenticated(0, &Segment::default()).unwrap();
    for _ in 0..3_000 {
        let (_, datagram) = ends[0].authenticated_user(&[0; 40]).unwrap();
        assert_eq!(ends[1].open(second(1), &datagram), Ok(Opened::User));
    }
    assert!(matches!(ends[1].open(second(1), &early), Ok(Opened::Segment { .. })));
}

#[test]
fn without_encapsulation_no_user_packet_is_authenticated() {
    assert!(agreed()[0].authenticated_user(&[0; 40]).is_none());
}

#[test]
fn a_datagram_of_another_version_is_refused_as_such() {
    let mut ends = agreed();
    let mut bytes = ends[0].hello();
    bytes[0] = (VERSION + 1) << 4 | 1;
    assert_eq!(ends[1].open(Time::ZERO, &bytes), Err(Refusal::Version));
    assert_eq!(ends[1].refused().of(Refusal::Version), 1);
}

proptest! {
    /// Catches: a field that is left out; two fields exchanged; a lost SACK block.
    #[test]
    fn a_segment_is_decoded_as_it_was_encoded(channel in any::<u8>(), segment in segments()) {
        let mut ends = agreed();
        let bytes = ends[0].authenticated(channel, &segment).unwrap();
        prop_assert_eq!(ends[1].open(second(1), &bytes), Ok(Opened::Segment { channel, segment }));
        prop_assert_eq!(ends[1].alive(), Some(second(1)));
    }

    /// Catches: a tag that is not checked, or that covers only a part; an anti-replay window that
    /// is updated before the tag is checked.
    #[test]
    fn a_changed_or_cut_segment_is_refused_and_the_original_is_accepted_afterwards(
        segment in segments(), at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<bool>(),
        hello in any::<bool>(),
    ) {
        let mut ends = agreed();
        let right = if hello { ends[0].hello() } else { ends[0].authenticated(1, &segment).unwrap() };
        let (mut wrong, at) = (right.clone(), at.index(right.len()));
        if cut { wrong.truncate(at) } else { wrong[at] ^= flip }
        prop_assert!(ends[1].open(second(1), &wrong).is_err());
        prop_assert_eq!((ends[1].alive(), ends[1].refused().total()), (Some(Time::ZERO), 1));
        prop_assert!(ends[1].open(second(1), &right).is_ok());
    }

    /// Catches: a user packet whose tag is not checked, or covers only a part; a user packet that
    /// is accepted twice; bytes of header or tag in the user packet.
    #[test]
    fn a_user_packet_is_accepted_once_and_unchanged(
        packet in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), flip in 1u8.., cut in any::<bool>(),
    ) {
        let mut ends = encapsulating();
        let (number, right) = ends[0].authenticated_user(&packet).unwrap();
        prop_assert_eq!((number, right.len()), (1, packet.len() + 23));
        let (mut wrong, at) = (right.clone(), at.index(right.len()));
        if cut { wrong.truncate(at) } else { wrong[at] ^= flip }
        prop_assert!(ends[1].open(second(1), &wrong).is_err());
        prop_assert_eq!(ends[0].open(second(1), &right), Err(Refusal::Forged));
        prop_assert_eq!(ends[1].open(second(1), &right), Ok(Opened::User));
        prop_assert_eq!(user_packet(&right), &packet[..]);
        prop_assert_eq!(ends[1].open(second(1), &right), Err(Refusal::Replayed));
    }

    /// The gateway computes the lengths of datagrams, and these are the lengths that are sent.
    ///
    /// Catches: an option that is not counted; a management packet that is counted with a TCP
    /// header.
    #[test]
    fn a_datagram_is_as_long_as_the_gateway_counts(segment in segments(), packet in prop::collection::vec(any::<u8>(), 0..99)) {
        let mut ends = encapsulating();
        let counted = tidegate_core::trunk::datagram_len(&segment);
        let authenticated = ends[0].authenticated(1, &segment).unwrap();
        prop_assert_eq!(u32::try_from(authenticated.len() + 8).unwrap(), counted);
        let wire = tidegate_core::trunk::Wire::Datagrams {
            vlan: None,
            encapsulation: tidegate_core::trunk::Encapsulation::Udp,
        };
        let (_, authenticated) = ends[0].authenticated_user(&packet).unwrap();
        let longer = u32::try_from(20 + 8 + authenticated.len() - packet.len()).unwrap();
        prop_assert_eq!(wire.overhead(ENDS.local), longer);
        prop_assert_eq!(wire.overhead("2001:db8::1".parse().unwrap()), longer + 20);
    }

    /// Catches: packet numbers that are not checked, so that a datagram is accepted twice.
    #[test]
    fn each_datagram_is_accepted_once_in_any_order(order in prop::collection::vec(0usize..40, 1..120)) {
        let mut ends = agreed();
        let sent: Vec<_> = (0..40).map(|n| ends[0].authenticated(n, &Segment::default()).unwrap()).collect();
        let mut taken = [false; 40];
        for n in order {
            let opened = ends[1].open(second(1), &sent[n]);
            prop_assert_eq!(opened.is_ok(), !std::mem::replace(&mut taken[n], true));
            prop_assert!(opened.is_ok() || opened == Err(Refusal::Replayed));
        }
    }

    /// If random bytes decode to a message, encoding this message yields the same bytes.
    #[test]
    fn any_bytes_are_refused_or_are_a_message_in_its_only_encoding(mut bytes in prop::collection::vec(any::<u8>(), 0..90), kind in 1u8..3) {
        if let Some(first) = bytes.first_mut() {
            *first = VERSION << 4 | kind;
        }
        if let Ok(message) = Message::read(&bytes) {
            let mut again = Vec::new();
            prop_assert!(message.write(&mut again).is_some());
            prop_assert_eq!(&again, &bytes);
        }
        prop_assert!(agreed()[1].open(Time::ZERO, &bytes).is_err());
    }

    /// The path loses, duplicates or delays any hellos, and either end restarts. As soon as hellos
    /// arrive again, the ends agree on a session.
    ///
    /// Catches: an answer that is never sent; a nonce that is not renewed after a restart.
    #[test]
    fn ends_agree_on_a_session_when_hellos_arrive_again(steps in prop::collection::vec((0usize..2, 0u8..6, any::<prop::sample::Index>()), 0..60)) {
        let mut ends = [end(false, 1), end(true, 2)];
        let (mut run, mut crossed) = (2, Vec::new());
        for (now, (at, what, which)) in (1u64..).zip(steps) {
            match what {
                0 => {
                    run += 1;
                    ends[at] = end(at == 1, run);
                }
                1 | 2 => crossed.push((1 - at, ends[at].hello())),
                _ if crossed.is_empty() => {}
                _ => {
                    let (to, hello) = crossed[which.index(crossed.len())].clone();
                    let opened = ends[to].open(second(now), &hello);
                    if let Ok(Opened::Hello { answer: Some(nonce) }) = opened {
                        crossed.push((1 - to, ends[to].answer(nonce)));
                    }
                }
            }
        }
        for now in 100..103 {
            greet(&mut ends, second(now));
            ends.reverse();
            greet(&mut ends, second(now));
            ends.reverse();
        }
        for from in [0, 1] {
            let bytes = ends[from].authenticated(9, &Segment::default()).unwrap();
            let opened = ends[1 - from].open(second(200), &bytes);
            let taken = matches!(opened, Ok(Opened::Segment { channel: 9, .. }));
            prop_assert!(taken, "{:?}", opened);
        }
    }
}
