//! A network emulator: it delays, drops and limits packets between its ports, as a wide area network does.
//!
//! A *route* leads packets with certain addresses to the port of their destination. Each route is an emulated link with
//! rate, queue, delay, jitter and losses.
//!
//! Source: `aggregates`, section 7 (the paper's WAN emulator delays and drops packets between real hosts).
//! Differs: a route also has a rate and a queue, jitter, and losses in bursts.

mod path;

use ipnet::IpNet;

use crate::Count;
use crate::link::Overhead;
use crate::link::{Link, LinkChange, LinkConfig};
use crate::packet::{Fifo, Network, slot};
use crate::qdisc::Backlog;
use crate::wheel::TimerWheel;
use crate::{ByReason, Cx, Machine, PacketId, PacketPool, PortId, Reason, Tally, Time};

use self::path::Paths;

/// Configuration of an emulated network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EmulatorConfig {
    /// Addresses of the hosts at each port.
    pub ports: Vec<Vec<IpNet>>,
    /// The routes between ports. A packet takes the first route that matches its addresses.
    pub routes: Vec<Route>,
    /// Most packets in the network at once: the number of packet buffers.
    pub packets: u32,
    /// Seed of the random numbers for jitter, losses and queues.
    pub seed: u64,
}

/// A one-way route through the network. All packets on the route share one link.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Route {
    /// Source addresses of the packets. An empty list matches any address.
    pub from: Vec<IpNet>,
    /// Destination addresses of the packets. An empty list matches any address.
    pub to: Vec<IpNet>,
    /// The link of the route.
    pub link: LinkConfig,
}

/// An emulated network.
///
/// An IP packet passes the link of its route, then departs at the port of its destination. A frame without IP goes to the
/// other port at once if there are two ports. If there are more, it is dropped.
///
/// [`Machine`] has an example with a driver. In this example, no port has the destination address, so the packet is
/// dropped:
///
/// ```
/// use tidegate_core::emulator::{Emulator, EmulatorConfig};
/// use tidegate_core::packet::{Endpoint, FlowKey, Network, Packet, Protocol};
/// use tidegate_core::{Machine, PortId, Reason, Time};
///
/// let mut network = Emulator::new(&EmulatorConfig {
///     ports: vec![vec!["10.0.0.0/24".parse().unwrap()], vec!["10.0.1.0/24".parse().unwrap()]],
///     packets: 4,
///     ..EmulatorConfig::default()
/// });
/// let (src, dst) = (Endpoint::v4([10, 0, 0, 1], 0), Endpoint::v4([192, 0, 2, 1], 0));
/// let key = FlowKey { src, dst, protocol: Protocol::UDP };
/// let packet = Packet { len: 100, key, network: Network::Ipv4, ..Packet::default() };
/// let packet = network.pool().insert(packet).unwrap();
/// network.handle_packet(Time::ZERO, PortId(0), packet);
/// assert_eq!(network.report().drops.of(Reason::NoRoute), 1);
/// ```
pub struct Emulator {
    pool: PacketPool,
    /// One timer for each route.
    wheel: TimerWheel,
    paths: Paths,
    /// State of each route.
    lanes: Vec<Lane>,
    /// Packets that may depart from each port now.
    ready: Vec<Fifo>,
    /// Packets that were dropped because they have no route.
    tally: Tally,
}

/// State of a route in the emulator.
struct Lane {
    link: Link,
    /// Packets sent into the route.
    offered: Count,
    /// Packets delivered by the route.
    delivered: Count,
    /// Packets dropped and marked by the link.
    tally: Tally,
}

/// The state of an emulated network at one instant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EmulatorReport {
    /// Packets dropped on all routes and for lack of a route, by reason.
    pub drops: ByReason,
    /// Packets marked "congestion experienced" on all routes, by reason.
    pub marks: ByReason,
    /// State of each route, in the order of the configuration.
    pub routes: Vec<RouteReport>,
}

/// State of a route in a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RouteReport {
    /// Packets sent into the route.
    pub offered: Count,
    /// Packets delivered by the route.
    pub delivered: Count,
    /// Packets dropped by the route.
    pub drops: ByReason,
    /// Packets marked "congestion experienced" by the route.
    pub marks: ByReason,
    /// Packets that wait in the queue of the link.
    pub backlog: Backlog,
}

impl Emulator {
    /// An empty network.
    #[must_use]
    pub fn new(config: &EmulatorConfig) -> Self {
        let lane = |(number, route): (u64, &Route)| Lane {
            link: Link::new(&route.link, config.seed, number),
            offered: Count::default(),
            delivered: Count::default(),
            tally: Tally::default(),
        };
        Self {
            pool: PacketPool::with_capacity(config.packets),
            wheel: TimerWheel::new(),
            paths: Paths::new(config),
            lanes: (0..).zip(&config.routes).map(lane).collect(),
            ready: vec![Fifo::new(); config.ports.len()],
            tally: Tally::default(),
        }
    }

    /// The present state of the network.
    #[must_use]
    pub fn report(&self) -> EmulatorReport {
        let route = |lane: &Lane| RouteReport {
            offered: lane.offered,
            delivered: lane.delivered,
            drops: lane.tally.drops,
            marks: lane.tally.marks,
            backlog: lane.link.backlog(),
        };
        let routes: Vec<_> = self.lanes.iter().map(route).collect();
        let mut tally = self.tally;
        self.lanes.iter().for_each(|lane| tally += lane.tally);
        EmulatorReport { drops: tally.drops, marks: tally.marks, routes }
    }

    /// Changes the link of route `number` as [`Link::change`] does. The first route is number 0. Returns `false` if there
    /// is no such route.
    #[must_use]
    pub fn change(&mut self, now: Time, number: u32, change: LinkChange) -> bool {
        let Some(lane) = self.lanes.get_mut(slot(number)) else { return false };
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut lane.tally };
        let changed = lane.link.change(&mut cx, change);
        self.set_timer(number);
        changed
    }

    /// Sends `packet` into its route. Returns the packet as an error if it has no route.
    fn enter(&mut self, now: Time, from: usize, packet: PacketId) -> Result<(), PacketId> {
        let described = &mut self.pool[&packet];
        let Some(path) = self.paths.find(&described.key).filter(|path| path.port != from) else {
            return Err(packet);
        };
        described.cost = Overhead::default().charge(described);
        let lane = &mut self.lanes[slot(path.route)];
        lane.offered.add(described.len);
        lane.link.send(&mut Cx { now, pool: &mut self.pool, tally: &mut lane.tally }, packet);
        self.set_timer(path.route);
        Ok(())
    }

    /// Forwards a frame without IP to the other port. Returns the packet as an error unless there are two ports.
    fn cross(&mut self, from: usize, packet: PacketId) -> Result<(), PacketId> {
        match self.ready.as_mut_slice() {
            [first, second] => {
                let other = if from == 0 { second } else { first };
                other.push(&mut self.pool, packet);
                Ok(())
            }
            _ => Err(packet),
        }
    }

    /// Moves packets that have passed their link to their egress port.
    fn fire(&mut self, now: Time) {
        while let Some(number) = self.wheel.pop(now) {
            let lane = &mut self.lanes[slot(number)];
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut lane.tally };
            while let Some(packet) = lane.link.poll(&mut cx) {
                let described = &cx.pool[&packet];
                match self.paths.find(&described.key) {
                    Some(path) => {
                        lane.delivered.add(described.len);
                        self.ready[path.port].push(cx.pool, packet);
                    }
                    None => cx.drop(packet, Reason::NoRoute),
                }
            }
            self.set_timer(number);
        }
    }

    fn set_timer(&mut self, number: u32) {
        match self.lanes[slot(number)].link.ready_at() {
            Some(at) => self.wheel.set(number, at),
            None => {
                self.wheel.cancel(number);
            }
        }
    }
}

impl Machine for Emulator {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId) {
        let from = usize::from(port.0);
        let taken = match self.pool[&packet].network {
            Network::Opaque => self.cross(from, packet),
            Network::Ipv4 | Network::Ipv6 => self.enter(now, from, packet),
        };
        if let Err(packet) = taken {
            Cx { now, pool: &mut self.pool, tally: &mut self.tally }.drop(packet, Reason::NoRoute);
        }
    }

    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
        self.fire(now);
        self.ready.get_mut(usize::from(port.0))?.pop(&self.pool)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        if self.ready.iter().any(|ready| ready.packets() > 0) {
            return Some(now);
        }
        self.wheel.next_deadline()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::link::{Jitter, Loss};
    use crate::packet::{Endpoint, FlowKey, Packet};
    use crate::{Chance, Rate};

    fn host(n: u8) -> IpNet {
        std::net::IpAddr::from([10, 0, 0, n]).into()
    }

    fn route(from: &[u8], to: &[u8], delay_ms: u64) -> Route {
        let nets = |hosts: &[u8]| hosts.iter().map(|n| host(*n)).collect();
        let delay = Duration::from_millis(delay_ms);
        Route {
            from: nets(from),
            to: nets(to),
            link: LinkConfig { delay, ..LinkConfig::default() },
        }
    }

    /// A network with host `n` at port `n`.
    fn network(ports: u8, routes: Vec<Route>) -> Emulator {
        let ports = (0..ports).map(|n| vec![host(n)]).collect();
        Emulator::new(&EmulatorConfig { ports, routes, packets: 2_000, seed: 1 })
    }

    fn send(network: &mut Emulator, now: Time, from: u8, to: u8) {
        let end = |n| Endpoint::v4([10, 0, 0, n], 0);
        let key = FlowKey { src: end(from), dst: end(to), ..FlowKey::default() };
        let packet = Packet { len: 1_000, network: Network::Ipv4, key, ..Packet::default() };
        let packet = network.pool.insert(packet).unwrap();
        network.handle_packet(now, PortId(from), packet);
    }

    /// Runs the network until it is empty. Returns time and port of each departure.
    fn run(network: &mut Emulator, mut now: Time) -> Vec<(Time, u8)> {
        let mut left = Vec::new();
        loop {
            for port in 0..u8::try_from(network.ready.len()).unwrap() {
                while let Some(packet) = network.poll_transmit(now, PortId(port)) {
                    network.pool.release(packet);
                    left.push((now, port));
                }
            }
            match network.poll_timeout(now) {
                Some(at) => now = at.max(now),
                None => return left,
            }
        }
    }

    #[test]
    fn each_pair_of_hosts_has_its_own_delay_and_the_first_matching_route_applies() {
        let routes = vec![route(&[0], &[1], 5), route(&[0], &[2], 20), route(&[], &[0], 1)];
        let mut network = network(3, routes);
        for (from, to) in [(0, 2), (0, 1), (1, 0), (2, 0)] {
            send(&mut network, Time::ZERO, from, to);
        }
        let ms = Time::from_millis;
        assert_eq!(run(&mut network, ms(0)), [(ms(1), 0), (ms(1), 0), (ms(5), 1), (ms(20), 2)]);
    }

    #[test]
    fn packets_without_a_route_are_dropped_and_counted() {
        let mut network = network(3, vec![route(&[], &[1], 5)]);
        send(&mut network, Time::ZERO, 0, 2); // no route
        send(&mut network, Time::ZERO, 0, 9); // no port has that address
        send(&mut network, Time::ZERO, 1, 1); // back to its own port
        let opaque = network.pool.insert(Packet { len: 60, ..Packet::default() }).unwrap();
        network.handle_packet(Time::ZERO, PortId(0), opaque); // no address at all
        assert_eq!(run(&mut network, Time::ZERO), []);
        assert_eq!((network.report().drops.of(Reason::NoRoute), network.pool.in_use()), (4, 0));
    }

    #[test]
    fn frames_without_ip_cross_between_two_ports() {
        let mut network = network(2, Vec::new());
        for port in [0, 1] {
            let frame = network.pool.insert(Packet { len: 60, ..Packet::default() }).unwrap();
            network.handle_packet(Time::ZERO, PortId(port), frame);
        }
        assert_eq!(network.poll_timeout(Time::ZERO), Some(Time::ZERO));
        assert_eq!(run(&mut network, Time::ZERO), [(Time::ZERO, 0), (Time::ZERO, 1)]);
    }

    #[test]
    fn all_packets_of_a_route_share_its_link() {
        let mut shared = route(&[], &[0], 0);
        shared.link.rate = Some(Rate::from_mbps(8));
        let mut network = network(3, vec![shared]);
        (0..10)
            .for_each(|_| [1, 2].iter().for_each(|from| send(&mut network, Time::ZERO, *from, 0)));
        let left = run(&mut network, Time::ZERO);
        assert_eq!((left.len(), left.last()), (20, Some(&(Time::from_millis(20), 0))));
        let report = network.report().routes[0];
        assert_eq!(
            (report.offered, report.delivered),
            (Count { packets: 20, bytes: 20_000 }, report.offered)
        );
    }

    /// Catches: a changed route whose timer is not set again; a rate that is set on a link without a rate.
    #[test]
    fn a_changed_route_applies_to_packets_that_still_wait() {
        let mut slow = route(&[0], &[1], 1_000);
        slow.link.rate = Some(Rate::from_kbps(8)); // A packet takes a second.
        let mut network = network(2, vec![slow, route(&[], &[0], 1)]);
        (0..3).for_each(|_| send(&mut network, Time::ZERO, 0, 1));
        let ms = Time::from_millis;
        let rate = Some(Rate::from_mbps(8));
        let delay = Some(Duration::from_millis(10));
        assert!(network.change(ms(500), 0, LinkChange { rate, delay }));
        assert!(!network.change(ms(500), 1, LinkChange { rate, delay }));
        assert!(!network.change(ms(500), 2, LinkChange { rate: None, delay }));
        // The first packet is already in flight, and the others overtake it.
        assert_eq!(run(&mut network, ms(500)), [(ms(1_011), 1), (ms(1_012), 1), (ms(2_000), 1)]);

        let nothing = LinkChange { rate: Some(Rate::from_bps(0)), delay: None };
        assert!(network.change(ms(3_000), 0, nothing));
        send(&mut network, ms(3_000), 0, 1);
        assert_eq!(run(&mut network, ms(3_000)), []);
        assert!(network.change(ms(4_000), 0, LinkChange { rate, delay: None }));
        assert_eq!(run(&mut network, ms(4_000)), [(ms(4_011), 1)]);
    }

    /// Catches: a timer that is set only if it was not running, so that a packet that overtakes others departs late.
    #[test]
    fn a_packet_that_overtakes_others_departs_at_its_own_time() {
        let mut way = route(&[], &[1], 20);
        way.link.jitter = Jitter::Uniform(Duration::from_millis(10));
        way.link.reorder = true;
        let mut network = network(2, vec![way]);
        (0..20).for_each(|_| send(&mut network, Time::ZERO, 0, 1));
        let left = run(&mut network, Time::ZERO);
        assert!(left.windows(2).all(|pair| pair[0].0 < pair[1].0), "{left:?}");
    }

    proptest! {
        /// Each packet is delivered or dropped, on a hundred routes with different delays and with losses, for any times of
        /// calls.
        ///
        /// Catches: a timer that is not set again after a route has delivered a packet.
        #[test]
        fn every_packet_is_accounted_for(
            packets in prop::collection::vec((0u64..3_000_000, 0u8..100), 1..300), asks in 1usize..10,
        ) {
            let each = |n: u8| {
                let mut route = route(&[n], &[100], u64::from(n) % 7);
                route.link.loss = Loss::Bernoulli(Chance::from_ppb(200_000_000));
                route
            };
            let mut network = network(101, (0..100).map(each).collect());
            let (mut now, mut out) = (Time::ZERO, 0u64);
            let sent = u64::try_from(packets.len()).unwrap();
            for (n, (gap, from)) in packets.into_iter().enumerate() {
                now += Duration::from_nanos(gap);
                send(&mut network, now, from, 100);
                if n % asks == 0 {
                    while let Some(packet) = network.poll_transmit(now, PortId(100)) {
                        network.pool.release(packet);
                        out += 1;
                    }
                }
            }
            out += u64::try_from(run(&mut network, now).len()).unwrap();
            prop_assert_eq!(sent, out + network.report().drops.total());
            prop_assert_eq!(network.pool.in_use(), 0);
        }
    }
}
