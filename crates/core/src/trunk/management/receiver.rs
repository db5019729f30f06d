//! The receiving gateway of the management connections: it acknowledges management packets as any TCP receiver does.
//!
//! The receiver does not see user packets. The gateway forwards them at once, as if there were no
//! trunk.
//!
//! Source: `trunking`, section 4.1, R003-10 (the receiver acknowledges segments, and delivers no data).

use std::sync::Arc;

use crate::packet::{FlowKey, TcpFlags};
use crate::random::Random;
use crate::tcp::{self, Connection, Event};
use crate::trunk::Config;
use crate::trunk::packet::{Frame, describe};
use crate::trunk::probe::{self, TrunkOutput};
use crate::{PacketId, Time};

/// The receiving ends of all management connections of a trunk.
pub(in crate::trunk) struct ManagementReceiver {
    tcp: Arc<tcp::Config>,
    random: Random,
    dscp: u8,
    ends: Vec<ReceivingEnd>,
    /// Earliest expiry of a TCP timer, for example the timer of a delayed ACK.
    due: Option<Time>,
    /// Frame format of ACKs. `None`: each ACK gets the format of the management packet that it
    /// acknowledges.
    frame: Option<Frame>,
}

/// The receiving end of a management connection.
struct ReceivingEnd {
    /// Flow key of the ACKs.
    key: FlowKey,
    /// The TCP connection. `None` until the first packet arrives.
    tcp: Option<Connection>,
    /// Frame format of the last management packet.
    frame: Frame,
}

impl ManagementReceiver {
    pub(in crate::trunk) fn new(config: &Config, random: Random) -> Self {
        let end = |number| {
            let key = config.key_from_peer(number).reverse();
            ReceivingEnd { key, tcp: None, frame: Frame::default() }
        };
        Self {
            tcp: Arc::new(config.tcp.clone()),
            random,
            dscp: config.user_dscp(),
            ends: (0..config.channels()).map(end).collect(),
            due: None,
            frame: config.wire.frame(),
        }
    }

    fn earliest(&self) -> Option<Time> {
        self.ends.iter().filter_map(|end| end.tcp.as_ref()?.poll_timeout()).min()
    }
}

impl probe::ProbeReceiver for ManagementReceiver {
    fn handle(&mut self, to: &mut TrunkOutput<'_, '_>, number: u16, packet: PacketId) {
        let frame = self.frame.unwrap_or_else(|| Frame::of(&to.cx.pool[&packet]));
        let segment = to.take_in(packet);
        let (Some(segment), Some(end)) = (segment, self.ends.get_mut(usize::from(number))) else {
            return;
        };
        if end.tcp.as_ref().is_none_or(Connection::is_closed) {
            let isn = u32::try_from(self.random.below(1 << 32)).unwrap_or(0);
            let tcp = end.tcp.insert(Connection::listen(&self.tcp, to.cx.now, isn));
            if !segment.header.flags.any(TcpFlags::SYN) {
                // The segment belongs to a connection from before this gateway started. A closed TCP connection
                // answers with a reset (RFC 9293, 3.10.7.1).
                tcp.close();
            }
        }
        end.frame = frame;
        if let Some(tcp) = &mut end.tcp {
            tcp.handle_segment(to.cx.now, &segment);
        }
        end.answer(to, self.dscp);
        self.due = self.earliest();
    }

    fn send_due_acks(&mut self, to: &mut TrunkOutput<'_, '_>) {
        for end in &mut self.ends {
            end.answer(to, self.dscp);
        }
        self.due = self.earliest();
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
}

impl ReceivingEnd {
    /// Sends the ACKs that TCP has ready.
    fn answer(&mut self, to: &mut TrunkOutput<'_, '_>, dscp: u8) {
        let Some(tcp) = &mut self.tcp else { return };
        while let Some(event) = tcp.poll_event() {
            if event == Event::Readable {
                tcp.read(tcp.readable());
            }
        }
        while let Some(outgoing) = tcp.poll_transmit(to.cx.now) {
            to.make(describe(self.key, &outgoing.segment, self.frame, dscp), &outgoing.segment);
        }
    }
}
