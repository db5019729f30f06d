//! TCP rate control (TCR): each sender's window is `rate * RTT`, and its ACKs are paced.
//!
//! Source: `postack`, section 4 (R001-1 to R001-6); US patent 6,038,216.
//!
//! Differs: without observed SYNs, or with a window below the step of its scale, ACKs are only paced
//! (R001-1, R001-3). The window of a SYN is not changed: its right edge stays until ACKs have caught up
//! with it. A SYN that opens a download keeps its segment size, because it passes before the policy of its
//! flow is known.

use std::time::Duration;

use super::hold::{Holds, Taken};
use super::release::Paced;
use super::shares::Shares;
use super::windows::round_trip;
use super::{AckControl, Counts, CreditAccount, Known, Numbers, Placement, Queue, Sender};
use crate::meter::Profile;
use crate::packet::{Fifo, FlowIndex, LEAST_MSS, Packet, TcpSegment};
use crate::{Bytes, Cx, PacketId, Rate, Time, parameters};

parameters! {
    /// Parameters of `tcr`.
    pub Config {
        /// Side of the bottleneck on which the gateway is.
        placement: Placement = Placement::default();
        // Source: `postack`, R001-6; RFC 9293, section 3.7.1 (without the option senders take 536).
        /// Largest segments that SYNs of uploads ask for, in bytes of the MSS option, for rates below some 10 kbit/s.
        /// Default: the option of the receiver.
        mss: Option<Bytes> = None, in Bytes(LEAST_MSS.into())..=GREATEST_MSS;
    }
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, _: Time) -> Tcr {
        Tcr {
            config: self.clone(),
            holds: Holds::default(),
            shares: Shares::new(profile.mean(), Duration::ZERO),
            pace: Paced::default(),
        }
    }
}

/// The greatest value of the option (RFC 9293, section 3.2).
const GREATEST_MSS: Bytes = Bytes(65_535);

/// The TCR of an aggregate.
pub(super) struct Tcr {
    config: Config,
    holds: Holds<false>,
    shares: Shares,
    pace: Paced,
}

impl Tcr {
    /// The window of a flow. `None` if a round trip is unknown. The first flight then does not count as begun.
    fn window(
        &mut self,
        member: FlowIndex,
        known: &Known,
        tcp: Option<TcpSegment>,
    ) -> Option<Bytes> {
        let way = known.near? + known.far?;
        let flow = self.holds.flow(member);
        let first = tcp.map_or(0, |tcp| flow.rest_of_first_flight(&tcp));
        Some(round_trip(self.shares.of(member), way, flow.mss(), first.into()))
    }

    fn rate(&self, member: FlowIndex) -> Rate {
        self.shares.of(member)
    }

    /// Schedules the held ACKs of `member` for the time at which its rate has carried the data requested
    /// before.
    fn wait(&mut self, now: Time, member: FlowIndex) {
        if !self.pace.is_set(member) && self.holds.held(member) > 0 {
            let at = *self.pace.free(member);
            self.pace.set(member, at.max(now));
        }
    }

    /// Charges an ACK for `cost` bytes whose departure was scheduled at `at`.
    fn gone(&mut self, at: Time, member: FlowIndex, cost: u32) {
        let takes = self.rate(member).time_for(Bytes(u64::from(cost)));
        let free = self.pace.free(member);
        *free = (*free).max(at) + takes;
    }
}

impl AckControl for Tcr {
    fn placement(&self) -> Placement {
        self.config.placement
    }

    fn set_profile(&mut self, _: Time, profile: &Profile) {
        self.shares.set_rate(profile.mean());
    }

    fn on_data(&mut self, now: Time, member: FlowIndex, packet: &Packet, _: Bytes) -> Sender {
        self.holds.on_data(now, member, packet);
        if self.holds.flow(member).has_ended() {
            self.shares.leave(member);
        } else {
            self.shares.note(now, member, None);
        }
        Sender::Responsive
    }

    fn on_ack(
        &mut self,
        cx: &mut Cx<'_>,
        known: &Known,
        packet: PacketId,
        _: Queue,
        out: &mut Fifo,
    ) {
        let member = known.member;
        if let Some(mss) = self.config.mss.and_then(|mss| u16::try_from(mss.0).ok()) {
            cx.pool[&packet].ask_for_segments(mss);
        }
        let tcp = cx.pool[&packet].tcp;
        if tcp.is_some_and(|tcp| self.holds.has_ended_with(member, &tcp)) {
            self.shares.leave(member);
        } else if self.holds.acknowledges(cx.pool, member, &packet) {
            self.shares.note(cx.now, member, Some(known.weight));
        }
        let window = self.window(member, known, tcp);
        self.holds.flow(member).cap_to(window);
        let open = *self.pace.free(member) <= cx.now;
        match self.holds.take_in(cx, known, packet, open, out) {
            Taken::Passed(cost) => self.gone(cx.now, member, cost),
            Taken::Held => self.wait(cx.now, member),
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>, _: Queue, out: &mut Fifo) -> CreditAccount {
        while let Some(member) = self.holds.unanswered(cx.now) {
            self.wait(cx.now, member);
        }
        while let Some((at, member)) = self.pace.due(cx.now) {
            let Some(cost) = self.holds.release(cx, member, out) else { continue };
            self.gone(at, member, cost);
            if self.holds.releasable(member) > 0 {
                let next = *self.pace.free(member);
                self.pace.set(member, next);
            }
        }
        CreditAccount::default()
    }

    fn ready_at(&self) -> Option<Time> {
        Time::earliest(self.pace.next(), self.holds.next_unanswered())
    }

    fn held(&self, member: FlowIndex) -> u32 {
        self.holds.held(member)
    }

    fn left(&self, member: FlowIndex) -> Option<Bytes> {
        self.holds.left(member)
    }

    fn withdraw(&mut self, cx: &mut Cx<'_>, member: FlowIndex, out: &mut Fifo) {
        self.holds.resume(member);
        self.holds.withdraw(cx, member, out);
    }

    fn stop(&mut self, now: Time, member: FlowIndex) {
        self.holds.stop(now, member);
    }

    fn resume(&mut self, cx: &mut Cx<'_>, member: FlowIndex) {
        self.holds.resume(member);
        self.wait(cx.now, member);
    }

    fn discard(&mut self, cx: &mut Cx<'_>, member: FlowIndex) {
        self.holds.discard(cx, member);
    }

    fn numbers(&self, member: FlowIndex) -> Option<Numbers> {
        self.holds.numbers(member)
    }

    fn set_numbers(&mut self, member: FlowIndex, numbers: Numbers) {
        self.holds.set_numbers(member, numbers);
    }

    fn leave(&mut self, member: FlowIndex) {
        self.pace.forget(member);
        self.shares.leave(member);
        self.holds.leave(member);
    }

    fn counts(&self) -> Counts {
        self.holds.counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::constants::FIRST_FLIGHT;
    use super::super::testing::{Bench, FRAME, MSS, US, plain};
    use super::*;
    use crate::packet::TcpFlags;

    /// Departure of the second ACK of member 0, at 10 Mbit/s and after the events in `before`. Each ACK
    /// requests two segments.
    fn second(before: impl Fn(&mut Bench)) -> Time {
        let mut bench = Bench::new("'tcr'", 10);
        before(&mut bench);
        bench.known.sent = Some(0);
        bench.ack(US(0), 0, 0);
        (1..=40).for_each(|n| bench.data(US(0), 0, n * MSS));
        assert_eq!(bench.ack(US(1), 0, 2 * MSS), [2 * MSS]);
        assert!(bench.ack(US(2), 0, 4 * MSS).is_empty());
        bench.run_until(US(1_000_000))[0].0
    }

    /// The same departure if member 0 has the whole rate.
    fn alone() -> Time {
        US(1) + Rate::from_mbps(10).time_for(Bytes(u64::from(2 * FRAME)))
    }

    /// Catches: a share of the rate for a connection that ended by FIN or RST, or that repeats its FIN.
    #[test]
    fn connections_that_have_ended_have_no_share_of_the_rate() {
        assert_eq!(second(|_| {}), alone());
        let ended = |sent: u8, back: u8| {
            second(move |bench| {
                for member in 1..=50 {
                    bench.known.sent = Some(0);
                    bench.ack(US(0), member, 0);
                    bench.data_with(US(0), member, MSS, sent);
                    bench.known.sent = Some(MSS + u32::from(sent));
                    let flags = TcpFlags(TcpFlags::ACK | back);
                    bench.back(US(0), member, TcpSegment { flags, ..plain(MSS) }, &[]);
                    if sent != 0 {
                        bench.data_with(US(0), member, MSS, sent);
                    }
                }
            })
        };
        assert_eq!(ended(TcpFlags::FIN, 0), alone());
        assert_eq!(ended(0, TcpFlags::RST), alone());
        assert!(ended(0, 0) > US(100_000), "they may send more");
    }

    /// Catches: a first window of two segments while many flows share the rate; a first window that stays.
    /// Catches: no first window for the next connection on the same ports.
    #[test]
    fn the_first_window_has_room_for_the_first_flight() {
        let mut bench = Bench::new("'tcr'", 10);
        for member in 1..=500 {
            bench.known.sent = Some(0);
            bench.ack(US(0), member, 0);
            bench.data(US(0), member, MSS);
        }
        for connection in 0..2 {
            bench.known.sent = Some(0);
            let at = US(1_000 * connection);
            let mut window = |now, ack| {
                let went = bench.back(now, 0, plain(ack), &[]);
                bench.data(now, 0, ack + MSS);
                went.last().map(|tcp| (u32::from(tcp.window) << 7) / MSS)
            };
            assert_eq!(window(at, 0), Some(FIRST_FLIGHT));
            (2..FIRST_FLIGHT).for_each(|n| bench.data(at, 0, n * MSS));
            bench.data_with(at, 0, FIRST_FLIGHT * MSS, TcpFlags::FIN);
            let went = bench.back(at, 0, plain(FIRST_FLIGHT * MSS), &[]);
            assert_eq!(went.last().map(|tcp| (u32::from(tcp.window) << 7) / MSS), Some(2));
            bench.control.leave(FlowIndex(0));
        }
    }

    /// Catches: a share of the rate for each earlier connection on the same ports.
    #[test]
    fn a_port_that_is_used_again_has_one_share_of_the_rate() {
        let used = second(|bench| {
            for _ in 0..20 {
                bench.known.sent = Some(0);
                bench.ack(US(0), 0, 0);
                bench.data(US(0), 0, MSS);
                bench.control.leave(FlowIndex(0));
            }
        });
        assert_eq!(used, alone());
    }
}
