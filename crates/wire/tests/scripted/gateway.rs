//! A gateway that receives and sends complete Ethernet frames, in virtual time.

use tidegate_core::ack::AckSpec;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::Gateway;
use tidegate_gateway::policy::{Action, Filter};
use tidegate_gateway::report::Report;
use tidegate_wire::{Checksum, cut, describe, rewrite, segment};

use crate::gateways::{conditioning, gateway};

/// The rate of the policy in each direction.
const RATE: Rate = Rate::from_mbps(5);

/// The driver of a gateway. Buffer `n` holds the frame of pool slot `n`.
pub(crate) struct Wire {
    gateway: Gateway,
    buffers: Vec<Vec<u8>>,
}

impl Wire {
    /// A gateway with buffers for `packets` frames, and one policy that shapes all packets.
    /// `control` is the policy's ACK control (the mechanism that holds ACKs), as written in a
    /// policy file.
    pub(crate) fn new(control: &str, packets: u32) -> Self {
        let spec: toml::Table = toml::from_str(&format!("it = {control}")).unwrap();
        let spec: AckSpec = spec["it"].clone().try_into().unwrap();
        let action = Action::Shape {
            conditioning: conditioning(RATE, Bytes(3_000)),
            queue: QdiscSpec::PerFlow(Default::default()),
            ack_control: Some(spec),
        };
        let mut gateway = gateway(Filter::default(), action, packets);
        gateway.pool().make_copies();
        Self { gateway, buffers: vec![Vec::new(); usize::try_from(packets).unwrap()] }
    }

    /// Passes a frame that arrived at `port` to the gateway.
    pub(crate) fn arrive(&mut self, now: Time, port: PortId, frame: Vec<u8>) {
        let pool = self.gateway.pool();
        let id = pool.reserve().expect("a buffer");
        let mut packet = Packet::default();
        assert_eq!(describe(&frame, u32::try_from(frame.len()).unwrap(), &mut packet), None);
        pool[&id] = packet;
        if packet.tcp.is_some_and(|tcp| tcp.has_sack) {
            pool.set_sack(&id, segment::sack(&frame, &packet));
        }
        self.buffers[id.index()] = frame;
        self.gateway.handle_packet(now, port, id);
        self.make_copies();
    }

    /// The frames that depart now, each with its port.
    pub(crate) fn depart(&mut self, now: Time) -> Vec<(PortId, Vec<u8>)> {
        let mut all = Vec::new();
        for port in [Gateway::LAN, Gateway::WAN] {
            while let Some(id) = self.gateway.poll_transmit(now, port) {
                self.make_copies();
                let packet = self.gateway.pool()[&id];
                let mut frame = std::mem::take(&mut self.buffers[id.index()]);
                if packet.rewritten {
                    rewrite(&mut frame, &packet, Checksum::Finished);
                }
                self.gateway.pool().release(id);
                all.push((port, frame));
            }
        }
        all
    }

    pub(crate) fn next(&mut self, now: Time) -> Option<Time> {
        self.gateway.poll_timeout(now)
    }

    pub(crate) fn report(&self) -> Report {
        self.gateway.report()
    }

    /// Number of buffers in use.
    pub(crate) fn in_use(&mut self) -> u32 {
        self.gateway.pool().in_use()
    }

    fn make_copies(&mut self) {
        let copies: Vec<_> = self.gateway.pool().copies().collect();
        for copy in copies {
            let whole = self.buffers[copy.from].clone();
            let mut part = whole[..usize::try_from(copy.len).unwrap()].to_vec();
            if copy.len < copy.whole {
                assert!(cut(&whole, &mut part, Checksum::Finished));
            }
            self.buffers[copy.to] = part;
        }
    }
}
