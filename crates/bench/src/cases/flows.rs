//! Flows in the flow table, and packets of these flows.

use std::net::IpAddr;

use tidegate_core::flow::FlowTable;
use tidegate_core::packet::{
    Direction, Endpoint, FlowKey, Network, Protocol, TcpFlags, TcpSegment,
};
use tidegate_core::random::Random;
use tidegate_core::{Packet, Time};

use super::{Case, Order, index, port};

/// The key of flow `number`, between random hosts. Every fourth flow is IPv6.
pub(crate) fn key(number: u32, random: &mut Random) -> FlowKey {
    let [_, b, c, d] = number.to_be_bytes();
    let end = |v6: bool, random: &mut Random| {
        let host = random.below(1 << 32).to_be_bytes();
        let [.., p, q, r, s] = host;
        let port = port(random);
        if v6 {
            let site = [0x20, 0x01, 0x0d, 0xb8, 0, b, c, d, 0, 0, 0, 0, p, q, r, s];
            return Endpoint::v6(site, port);
        }
        Endpoint::v4([p, q, r, s], port)
    };
    let v6 = number % 4 == 3;
    let lan = if v6 { end(true, random) } else { Endpoint::v4([10, b, c, d], port(random)) };
    FlowKey { src: lan, dst: end(v6, random), protocol: Protocol::TCP }
}

/// The number of the flow whose LAN host has the address `lan`, in which [`key`] stores the number.
pub(crate) fn number(lan: Endpoint) -> u32 {
    let [b, c, d] = match lan.address() {
        IpAddr::V4(address) => {
            let [_, rest @ ..] = address.octets();
            rest
        }
        IpAddr::V6(address) => {
            let [_, _, _, _, _, b, c, d, ..] = address.octets();
            [b, c, d]
        }
    };
    u32::from_be_bytes([0, b, c, d])
}

/// A full-size data segment of the flow `key`.
pub(crate) fn segment(key: FlowKey) -> Packet {
    let flags = TcpFlags(TcpFlags::ACK);
    let tcp = TcpSegment { payload: 1_448, flags, window: 500, ..TcpSegment::default() };
    let tcp = Some(TcpSegment { timestamps: Some((1, 1)), ..tcp });
    Packet { len: 1_514, key, tcp, network: Network::Ipv4, segments: 1, ..Packet::default() }
}

/// An operation looks up the flow of a packet. Packets of even flows are upwards, packets of odd
/// flows downwards.
pub(super) struct Lookup {
    table: FlowTable,
    keys: Vec<FlowKey>,
    order: Order,
}

const fn direction(number: u32) -> Direction {
    if number.is_multiple_of(2) { Direction::Up } else { Direction::Down }
}

impl Lookup {
    pub(super) fn new(size: u32, seed: u64, mut random: Random) -> Self {
        let mut table = FlowTable::new(size, seed);
        let mut keys: Vec<FlowKey> = (0..size).map(|number| key(number, &mut random)).collect();
        for key in &keys {
            let packet = Packet { key: *key, ..Packet::default() };
            table.insert(Time::ZERO, &packet, Direction::Up);
        }
        keys.iter_mut().skip(1).step_by(2).for_each(|key| *key = key.reverse());
        Self { table, keys, order: Order::new(size, &mut random) }
    }
}

impl Case for Lookup {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        let mut packet = Packet::default();
        for _ in 0..operations {
            let number = self.order.next();
            packet.key = self.keys[index(number.into())];
            let flow = self.table.find(&packet, direction(number));
            sum += flow.map_or(0, |flow| u64::from(flow.0));
        }
        sum
    }
}
