//! The end of a trunk that receives: it acknowledges management packets as any TCP would.
//!
//! Source: `trunking`, section 4.1, R003-10. User packets never come here: they go on at once, as if
//! there were no trunk.

use std::sync::Arc;

use super::packet::{Frame, describe};
use super::sender::take_in;
use super::{Config, USER};
use crate::packet::{Fifo, FlowKey, TcpFlags};
use crate::random::Random;
use crate::tcp::{self, Connection, Event};
use crate::{Cx, PacketId, Time};

pub(super) struct Receiver {
    tcp: Arc<tcp::Config>,
    random: Random,
    dscp: u8,
    ends: Vec<End>,
    /// When something is next due.
    due: Option<Time>,
    /// What the frames of all it sends are like, if not like those that come.
    frame: Option<Frame>,
    made: u64,
    absorbed: u64,
}

/// The end of a management connection.
struct End {
    /// The key of what it sends.
    key: FlowKey,
    /// Once a packet has come.
    tcp: Option<Connection>,
    /// What the frames that come are like.
    frame: Frame,
}

impl Receiver {
    pub(super) fn new(config: &Config, random: Random) -> Self {
        let end = |number| {
            let key = config.key_from_peer(number).reverse();
            End { key, tcp: None, frame: Frame::default() }
        };
        Self {
            tcp: Arc::new(config.tcp.clone()),
            random,
            dscp: config.dscp(USER),
            ends: (0..config.connections).map(end).collect(),
            due: None,
            frame: config.wire.frame(),
            made: 0,
            absorbed: 0,
        }
    }

    pub(super) const fn made(&self) -> u64 {
        self.made
    }

    pub(super) const fn absorbed(&self) -> u64 {
        self.absorbed
    }

    /// Takes in a packet of management connection `number`.
    pub(super) fn handle(
        &mut self,
        cx: &mut Cx<'_>,
        number: u16,
        packet: PacketId,
        out: &mut Fifo,
    ) {
        self.absorbed += 1;
        let frame = self.frame.unwrap_or_else(|| Frame::of(&cx.pool[&packet]));
        let segment = take_in(cx, packet);
        let (Some(segment), Some(end)) = (segment, self.ends.get_mut(usize::from(number))) else {
            return;
        };
        if end.tcp.as_ref().is_none_or(Connection::is_closed) {
            let isn = u32::try_from(self.random.below(1 << 32)).unwrap_or(0);
            let tcp = end.tcp.insert(Connection::listen(&self.tcp, cx.now, isn));
            if !segment.header.flags.any(TcpFlags::SYN) {
                // Of a connection from before this end began anew: it is told so (RFC 9293, 3.10.7.1).
                tcp.close();
            }
        }
        end.frame = frame;
        if let Some(tcp) = &mut end.tcp {
            tcp.handle_segment(cx.now, &segment);
        }
        self.made += end.answer(cx, self.dscp, out);
        self.due = self.earliest();
    }

    /// Sends what is due.
    pub(super) fn turn(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        for end in &mut self.ends {
            self.made += end.answer(cx, self.dscp, out);
        }
        self.due = self.earliest();
    }

    /// When something is next due.
    pub(super) const fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    fn earliest(&self) -> Option<Time> {
        self.ends.iter().filter_map(|end| end.tcp.as_ref()?.poll_timeout()).min()
    }
}

impl End {
    /// Sends what it has to say; says how many packets that made.
    fn answer(&mut self, cx: &mut Cx<'_>, dscp: u8, out: &mut Fifo) -> u64 {
        let Some(tcp) = &mut self.tcp else { return 0 };
        while let Some(event) = tcp.poll_event() {
            if event == Event::Readable {
                tcp.read(tcp.readable());
            }
        }
        let mut made = 0;
        while let Some(outgoing) = tcp.poll_transmit(cx.now) {
            let packet = describe(self.key, &outgoing.segment, self.frame, dscp);
            let Some(packet) = cx.pool.insert(packet) else { continue };
            if outgoing.segment.header.has_sack {
                cx.pool.set_sack(&packet, outgoing.segment.sack);
            }
            out.push(cx.pool, packet);
            made += 1;
        }
        made
    }
}
