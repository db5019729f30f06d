//! The interface between a device, such as the gateway, and the driver that runs it: packets in,
//! packets out, and the time of the next call.

use std::time::Duration;

use crate::{PacketId, PacketPool, Time};

/// One of the ports of a [`Machine`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PortId(pub u8);

/// A device with ports: the gateway, or the emulator of a network.
///
/// # Call order
///
/// 1. [Insert](PacketPool::insert) a packet into the [`pool`](Self::pool), and pass it to
///    [`handle_packet`](Self::handle_packet).
/// 2. Drain [`poll_transmit`](Self::poll_transmit) of every port until `None`. Transmit each packet,
///    then [release](PacketPool::release) it.
/// 3. Continue at the next packet, or at [`poll_timeout`](Self::poll_timeout).
///
/// # Time
///
/// A call before the time of [`poll_timeout`](Self::poll_timeout) has no effect on later results. A
/// late call delays packets, but breaks nothing. Time must not run backwards. If a driver's clock
/// does, the machine lets no packet depart.
///
/// # Example
///
/// A driver that works for every machine. Here, it drives a network with a delay of 10 ms between
/// its two ports.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::emulator::{Emulator, EmulatorConfig, Route};
/// use tidegate_core::link::LinkConfig;
/// use tidegate_core::packet::{Endpoint, FlowKey, Network, Packet, Protocol};
/// use tidegate_core::{Machine, PortId, Time};
///
/// /// Transmits all packets inside. Returns the time and the port of each departure.
/// fn drain(machine: &mut dyn Machine, ports: &[PortId]) -> Vec<(Time, PortId)> {
///     let (mut now, mut departures) = (Time::ZERO, Vec::new());
///     loop {
///         for port in ports {
///             while let Some(packet) = machine.poll_transmit(now, *port) {
///                 machine.pool().release(packet);
///                 departures.push((now, *port));
///             }
///         }
///         let Some(next) = machine.poll_timeout(now) else { return departures };
///         now = next;
///     }
/// }
///
/// let [client, server] = [PortId(0), PortId(1)];
/// let mut network = Emulator::new(&EmulatorConfig {
///     ports: vec![vec!["10.0.0.0/8".parse().unwrap()], vec!["192.0.2.0/24".parse().unwrap()]],
///     routes: vec![Route {
///         link: LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() },
///         ..Route::default()
///     }],
///     packets: 16,
///     seed: 1,
/// });
/// let key = FlowKey {
///     src: Endpoint::v4([10, 0, 0, 1], 5_000),
///     dst: Endpoint::v4([192, 0, 2, 1], 53),
///     protocol: Protocol::UDP,
/// };
/// let datagram = Packet { len: 100, key, network: Network::Ipv4, ..Packet::default() };
/// let packet = network.pool().insert(datagram).unwrap();
/// network.handle_packet(Time::ZERO, client, packet);
/// assert_eq!(drain(&mut network, &[client, server]), [(Time::from_millis(10), server)]);
/// ```
pub trait Machine {
    /// The pool with the packets inside the machine, and with free slots for further packets.
    fn pool(&mut self) -> &mut PacketPool;

    /// Passes a packet that arrived at `port` to the machine.
    fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId);

    /// The next packet to send out of `port` at `now`.
    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId>;

    /// Latest time for the next call of [`poll_transmit`](Self::poll_transmit). `None` if no packet
    /// waits.
    fn poll_timeout(&mut self, now: Time) -> Option<Time>;

    /// Returns `true` if [`poll_timeout`](Self::poll_timeout) also does a share of other work, such
    /// as installing new policies. A driver then calls it again soon.
    fn is_working(&self) -> bool {
        false
    }

    /// Returns `true` if the driver must split super-packets that arrive at `port` into frames.
    fn wants_frames(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// Sets the poll interval of the driver. The machine then handles packets of one interval
    /// together. The default, zero, means that each packet is handled at its own arrival time.
    fn set_poll_interval(&mut self, poll_interval: Duration) {
        let _ = poll_interval;
    }
}
