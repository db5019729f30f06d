//! Authentication of a trunk's management packets, between two ends that have agreed on a session.
//! Management packets are TCP segments without user data, which find the rate of the trunk.

use std::net::Ipv4Addr;

use anyhow::ensure;
use tidegate_core::Time;
use tidegate_core::packet::{TcpFlags, TcpSegment};
use tidegate_core::tcp::Segment;
use tidegate_wire::trunk::{Ends, Key, Opened, Session};

use super::Case;

/// An operation encodes and authenticates a management packet at one end. The other end verifies
/// and decodes it.
pub(super) struct Authenticated {
    ends: [Session; 2],
    segment: Segment,
}

impl Authenticated {
    /// `vmss` is the number of user bytes for which a management packet is sent.
    pub(super) fn new(vmss: u32, seed: u64) -> anyhow::Result<Self> {
        let [local, peer] = [1, 2].map(|last| Ipv4Addr::new(192, 0, 2, last).into());
        let ends = Ends { local, peer, port: 4_754 };
        let of = |ends, number| {
            let [.., low] = seed.to_be_bytes();
            Session::new(&Key([low; 32]), ends, [number; 32])
        };
        let mut ends = [of(ends, 1), of(ends.reverse(), 2)];
        let mut next = Some((1, ends[0].hello()));
        while let Some((to, hello)) = next.take() {
            if let Ok(Opened::Hello { answer: Some(heard) }) = ends[to].open(Time::ZERO, &hello) {
                next = Some((1 - to, ends[to].answer(heard)));
            }
        }
        ensure!(ends.iter().all(Session::is_agreed), "no session");
        let header = TcpSegment {
            payload: vmss,
            flags: TcpFlags(TcpFlags::ACK),
            timestamps: Some((1, 2)),
            ..TcpSegment::default()
        };
        let mut this = Self { ends, segment: Segment { header, ..Segment::default() } };
        ensure!(this.run(1) == u64::from(vmss), "an authentic packet is refused");
        Ok(this)
    }
}

impl Case for Authenticated {
    fn run(&mut self, operations: u64) -> u64 {
        let [from, to] = &mut self.ends;
        let mut sum = 0;
        for _ in 0..operations {
            let header = &mut self.segment.header;
            header.seq = header.seq.wrapping_add(header.payload);
            let datagram = from.authenticate(0, &self.segment).unwrap_or_default();
            if let Ok(Opened::Segment { segment, .. }) = to.open(Time::ZERO, datagram) {
                sum += u64::from(segment.header.seq);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: two ends that do not agree on a session, or an end that refuses authentic
    /// datagrams.
    #[test]
    fn an_authentic_packet_is_accepted() {
        let mut case = Authenticated::new(1_500, 1).expect("a session");
        assert_eq!(case.run(2), (2 + 3) * 1_500);
    }
}
