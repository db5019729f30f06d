//! The flow table of the gateway: its entries, and the time for which they stay.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::flow::{FlowTable, Handle, IDLE_LIMIT, Tracking};
use tidegate_core::packet::{
    Direction, Endpoint, FlowId, FlowIndex, FlowKey, NO_VLAN, Protocol, TcpFlags, TcpSegment,
};
use tidegate_core::{Packet, Time};

/// A UDP packet from LAN port `n` to a server.
fn packet(n: u16) -> Packet {
    let (src, dst) = (Endpoint::v4([10, 0, 0, 1], n), Endpoint::v4([1, 1, 1, 1], 53));
    let key = FlowKey { src, dst, protocol: Protocol::UDP };
    Packet { key, len: 100, ..Packet::default() }
}

fn answer(n: u16) -> Packet {
    Packet { key: packet(n).key.reverse(), ..packet(n) }
}

fn insert(table: &mut FlowTable, now: Time, n: u16) -> FlowId {
    table.insert(now, &packet(n), Direction::Up).unwrap().id
}

#[test]
fn both_directions_are_one_flow_and_packets_have_their_direction() {
    let mut table = FlowTable::new(10, 1);
    let id = insert(&mut table, Time::ZERO, 1);
    assert_eq!(table.find(&packet(1), Direction::Up), Some(id));
    assert_eq!(table.find(&answer(1), Direction::Down), Some(id));
    assert_eq!(table.find(&packet(1), Direction::Down), None);
    assert_eq!(table.find(&packet(2), Direction::Up), None);
    assert_eq!(table[id].key(Direction::Down), answer(1).key);
}

/// Catches: a flow key without the VLAN.
#[test]
fn the_same_addresses_on_another_vlan_are_another_flow() {
    let mut table = FlowTable::new(10, 1);
    let id = insert(&mut table, Time::ZERO, 1);
    let tagged = Packet { vlan: 7, ..packet(1) };
    assert_eq!(table.find(&tagged, Direction::Up), None);
    let other = table.insert(Time::ZERO, &tagged, Direction::Up).unwrap().id;
    assert_eq!(table.find(&tagged, Direction::Up), Some(other));
    assert_eq!(table.find(&packet(1), Direction::Up), Some(id));
}

/// Segment `number` of a TCP handshake in this VLAN: SYN, SYN-ACK, ACK.
fn handshake(number: u32, isn: u32, vlan: u16) -> (Packet, Direction) {
    let (src, dst) = (Endpoint::v4([10, 0, 0, 1], 40_000), Endpoint::v4([1, 1, 1, 1], 443));
    let key = FlowKey { src, dst, protocol: Protocol::TCP };
    let (flags, seq, ack) = match number {
        0 => (TcpFlags::SYN, isn, 0),
        1 => (TcpFlags::SYN | TcpFlags::ACK, 7_000, isn.wrapping_add(1)),
        _ => (TcpFlags::ACK, isn.wrapping_add(1), 7_001),
    };
    let tcp = Some(TcpSegment { flags: TcpFlags(flags), seq, ack, ..TcpSegment::default() });
    let direction = if number == 1 { Direction::Down } else { Direction::Up };
    let key = if number == 1 { key.reverse() } else { key };
    (Packet { key, tcp, vlan, len: 60, ..Packet::default() }, direction)
}

/// Handles a packet as the gateway does. Returns its flow.
fn take_in(table: &mut FlowTable, now: Time, (mut packet, way): (Packet, Direction)) -> FlowId {
    let known = table.find(&packet, way).or_else(|| table.join(&packet, way));
    let id = known.unwrap_or_else(|| table.insert(now, &packet, way).unwrap().id);
    table[id].on_arrival(now, &mut packet, way);
    id
}

/// Catches: two directions with different VLAN tags that stay two flows; a connection that splits
/// again after the handshake, at removal, or for filters; packets with a third tag that join the
/// flow.
#[test]
fn a_connection_whose_directions_have_different_tags_is_one_flow() {
    let mut table = FlowTable::new(4, 1);
    let id = take_in(&mut table, Time::ZERO, handshake(0, u32::MAX, 10));
    assert_eq!(take_in(&mut table, Time::ZERO, handshake(1, u32::MAX, 20)), id);
    assert_eq!(take_in(&mut table, Time::ZERO, handshake(2, u32::MAX, 10)), id);
    assert_eq!((table.len(), table[id].tracking()), (1, Tracking::Full));
    let vlans = Direction::BOTH.map(|way| table[id].packet(way).vlan);
    assert_eq!(vlans, [10, 20]);
    let (answer, down) = handshake(1, u32::MAX, 20);
    assert_eq!(table.find(&handshake(2, u32::MAX, 20).0, Direction::Up), None);
    assert_eq!(table.find(&handshake(1, u32::MAX, 30).0, down), None);

    let late = Time::ZERO + IDLE_LIMIT + Duration::from_millis(2);
    table.sweep(late, 10, |_, _| {});
    assert_eq!((table.len(), table.find(&answer, down)), (0, None));
    assert_eq!(take_in(&mut table, late, handshake(0, 5, 20)), id);
    assert_eq!(take_in(&mut table, late, handshake(1, 5, 20)), id);
}

/// Catches: a SYN-ACK that joins a flow with a wrong acknowledgement number; a SYN with data for
/// which only one of the two correct acknowledgement numbers is accepted.
#[test]
fn only_an_answer_to_the_syn_joins_its_flow() {
    for (data, ack, joins) in [
        (0, 101, true),
        (0, 102, false),
        (0, 100, false),
        (9, 101, true),
        (9, 110, true),
        (9, 111, false),
    ] {
        let mut table = FlowTable::new(4, 1);
        let (mut syn, up) = handshake(0, 100, 10);
        syn.tcp.as_mut().unwrap().payload = data;
        let id = take_in(&mut table, Time::ZERO, (syn, up));
        let (mut answer, down) = handshake(1, 100, NO_VLAN);
        answer.tcp.as_mut().unwrap().ack = ack;
        let joined = take_in(&mut table, Time::ZERO, (answer, down)) == id;
        assert_eq!(joined, joins, "{data} {ack}");
    }
    // Only a SYN-ACK can join a flow, and only if the flow has no opposite direction yet.
    let mut table = FlowTable::new(4, 1);
    let id = take_in(&mut table, Time::ZERO, handshake(0, 100, 10));
    let (mut data, down) = handshake(1, 100, 20);
    data.tcp.as_mut().unwrap().flags = TcpFlags(TcpFlags::ACK);
    assert_ne!(take_in(&mut table, Time::ZERO, (data, down)), id);
    let mut table = FlowTable::new(4, 1);
    let id = take_in(&mut table, Time::ZERO, handshake(0, 100, 10));
    assert_eq!(take_in(&mut table, Time::ZERO, handshake(1, 100, 10)), id);
    assert_ne!(take_in(&mut table, Time::ZERO, handshake(1, 100, 20)), id);
}

/// Two tenants with equal addresses, ports and sequence numbers.
///
/// Catches: a SYN-ACK that joins the flow of one tenant although two flows match; a connection that
/// ended long ago and still prevents a join.
#[test]
fn two_tenants_with_equal_addresses_stay_apart() {
    for [first, second] in [[10, 11], [11, 10]] {
        let mut table = FlowTable::new(8, 1);
        let a = take_in(&mut table, Time::ZERO, handshake(0, 100, first));
        let b = take_in(&mut table, Time::ZERO, handshake(0, 100, second));
        assert_ne!(a, b);
        // With a third tag, the SYN-ACK may belong to either flow.
        let third = take_in(&mut table, Time::ZERO, handshake(1, 100, 20));
        assert!(third != a && third != b);
        assert_eq!(take_in(&mut table, Time::ZERO, handshake(1, 100, second)), b);
        assert_eq!(take_in(&mut table, Time::ZERO, handshake(1, 100, first)), a);
        let late = Time::ZERO + IDLE_LIMIT + Duration::from_millis(2);
        table.sweep(late, 10, |_, _| {});
        let alone = take_in(&mut table, late, handshake(0, 100, first));
        assert_eq!(take_in(&mut table, late, handshake(1, 100, 20)), alone);
    }
}

#[test]
fn handles_and_counts_are_kept_for_each_direction() {
    let mut table = FlowTable::new(10, 1);
    let id = insert(&mut table, Time::ZERO, 1);
    let handle = Handle { aggregate: 3, generation: 7, flow_index: FlowIndex(9) };
    table[id].set_handle(Direction::Down, handle, 0);
    table[id].on_arrival(Time::ZERO, &mut answer(1), Direction::Down);
    assert_eq!(table[id].handle(Direction::Down), handle);
    assert_eq!(table[id].handle(Direction::Up), Handle::NONE);
    assert_eq!(table[id].packets(Direction::Down), 1);
    assert_eq!(table[id].bytes(Direction::Down).0, 100);
    assert_eq!(table[id].packets(Direction::Up), 0);
}

#[test]
fn a_full_table_evicts_the_flow_that_is_idle_for_longest() {
    let mut table = FlowTable::new(3, 1);
    let ids = [3, 1, 2].map(|n| insert(&mut table, Time::from_secs(n.into()), n));
    table[ids[1]].on_arrival(Time::from_secs(4), &mut packet(1), Direction::Up);
    let inserted = table.insert(Time::from_secs(5), &packet(4), Direction::Up).unwrap();
    assert_eq!(inserted.evicted.unwrap().key(Direction::Up), packet(2).key);
    assert_eq!((table.len(), table.find(&packet(2), Direction::Up)), (3, None));
    assert_eq!(table.find(&packet(4), Direction::Up), Some(inserted.id));
}

/// Catches: a flow with packets inside the gateway that is evicted; a packet count that never
/// returns to zero.
#[test]
fn a_full_table_of_flows_with_packets_inside_tracks_no_more() {
    let mut table = FlowTable::new(2, 1);
    let ids = [1, 2].map(|n| insert(&mut table, Time::ZERO, n));
    ids.iter().for_each(|id| table[*id].enter(2));
    assert!(table.insert(Time::ZERO, &packet(3), Direction::Up).is_none());
    assert_eq!((table.untracked(), table.len()), (1, 2));
    ids.iter().for_each(|id| table[*id].leave());
    assert!(table.insert(Time::ZERO, &packet(3), Direction::Up).is_none());
    table[ids[1]].leave();
    let inserted = table.insert(Time::ZERO, &packet(3), Direction::Up).unwrap();
    assert_eq!(inserted.evicted.unwrap().key(Direction::Up), packet(2).key);
    assert_eq!((inserted.id, table[inserted.id].inside()), (ids[1], 0));
}

#[test]
fn a_table_for_no_flows_tracks_none() {
    let mut table = FlowTable::new(0, 1);
    assert!(table.insert(Time::ZERO, &packet(1), Direction::Up).is_none());
    table.sweep(Time::MAX, 10, |_, _| panic!("there is none"));
}

#[test]
fn idle_flows_without_packets_inside_are_forgotten_a_few_at_a_time() {
    let mut table = FlowTable::new(10, 1);
    let ids = [1, 2, 3, 4].map(|n| insert(&mut table, Time::ZERO, n));
    let late = Time::ZERO + IDLE_LIMIT + Duration::from_millis(2);
    table[ids[2]].on_arrival(late, &mut packet(3), Direction::Up);
    let mut expired = Vec::new();
    table[ids[3]].enter(1);
    table.sweep(late, 2, |id, _| expired.push(id));
    assert!(expired.len() <= 2);
    table.sweep(late, 10, |id, _| expired.push(id));
    expired.sort_by_key(|id| id.0);
    assert_eq!(expired, [ids[0], ids[1]]);
    assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [ids[2], ids[3]]);
}

#[test]
fn a_closed_or_unanswered_flow_is_evicted_before_a_longer_idle_flow() {
    for flags in [TcpFlags::SYN, TcpFlags::RST] {
        let mut table = FlowTable::new(2, 1);
        insert(&mut table, Time::ZERO, 1);
        let spent = insert(&mut table, Time::from_secs(9), 2);
        let tcp = TcpSegment { flags: TcpFlags(flags), ..TcpSegment::default() };
        let mut segment = Packet { tcp: Some(tcp), ..packet(2) };
        table[spent].on_arrival(Time::from_secs(9), &mut segment, Direction::Up);
        assert_eq!(insert(&mut table, Time::from_secs(10), 3), spent);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Packet { port: u16, after: u64 },
    Sweep { budget: usize },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let packet = (1u16..12, prop_oneof![5 => 0u64..2_000, 1 => 30_000u64..70_000])
        .prop_map(|(port, after)| Operation::Packet { port, after });
    let sweep = (1usize..8).prop_map(|budget| Operation::Sweep { budget });
    prop::collection::vec(prop_oneof![4 => packet, 1 => sweep], 1..200)
}

proptest! {
    /// The table contains exactly the flows that were inserted, and neither evicted nor expired.
    /// There are fewer entries than flows, so entries are used again.
    ///
    /// Catches: a free entry given to two flows; an evicted flow that stays in its hash list; flows
    /// that expire after 59 s.
    #[test]
    fn the_table_holds_all_flows_that_were_neither_evicted_nor_expired(operations in operations()) {
        let mut table = FlowTable::new(6, 3);
        let mut model: BTreeMap<u16, (FlowId, u64)> = BTreeMap::new();
        let mut now = 0;
        for operation in operations {
            match operation {
                Operation::Packet { port, after } => {
                    now += after;
                    let id = table.find(&packet(port), Direction::Up).unwrap_or_else(|| {
                        let at = Time::from_millis(now);
                        let new = table.insert(at, &packet(port), Direction::Up).unwrap();
                        if let Some(flow) = new.evicted {
                            model.remove(&flow.key(Direction::Up).src.port).unwrap();
                        }
                        new.id
                    });
                    table[id].on_arrival(Time::from_millis(now), &mut packet(port), Direction::Up);
                    model.insert(port, (id, now));
                }
                Operation::Sweep { budget } => {
                    table.sweep(Time::from_millis(now), budget, |id, flow| {
                        let (known, seen) = model.remove(&flow.key(Direction::Up).src.port).unwrap();
                        assert!(known == id && now - seen >= 59_990, "{}", now - seen);
                    });
                }
            }
            prop_assert!(table.len() == model.len() && model.len() <= 6);
            for port in 1..12 {
                let expected = model.get(&port).map(|(id, _)| *id);
                prop_assert_eq!(table.find(&packet(port), Direction::Up), expected);
            }
        }
    }
}
