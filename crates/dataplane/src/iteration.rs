//! One iteration of the loop that runs a gateway: receives the frames that have arrived, and sends
//! the packets that are due. The [`Machine`], such as a gateway, decides which packets are due.

use std::time::Duration;

use tidegate_core::{Machine, PortId, Time};

use crate::port::Port;

/// Maximum number of frames received from one port before frames of the next port are received.
const BURST: u32 = 64;

/// Time after which an interface that had no room is tried again.
const RETRY: Duration = Duration::from_micros(250);

/// Wait before the next iteration if a packet is still due, although the machine was just polled.
const AGAIN: Duration = Duration::from_micros(1);

/// The results of an iteration.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Iteration {
    /// Time until the next packet is due. An arrival may make a packet due earlier. Zero if more
    /// frames have already arrived, and `None` if no packet waits.
    pub wait: Option<Duration>,
    /// Packets received from ports.
    pub received: u32,
    /// Packets sent to ports.
    pub sent: u32,
}

/// Sends due packets, and receives a bounded number of frames from each of `ports`. Then sends the
/// packets that have become due through these arrivals.
///
/// Packets due by `now` are sent before any arrived frame is received, as if the loop had woken up
/// in time.
pub fn iterate(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>], now: Time) -> Iteration {
    let due = drain(machine, ports, now);
    if due > 0 {
        flush(machine, ports);
    }
    let taken = take_in(machine, ports, now, |_| true);
    let sent = send_due(machine, ports, now);
    let wait = if taken.more { Some(Duration::ZERO) } else { sent.wait };
    Iteration { wait, received: taken.received, sent: due + taken.sent + sent.sent }
}

/// Sends due packets without receiving.
pub(crate) fn send_due(
    machine: &mut dyn Machine,
    ports: &mut [Box<dyn Port>],
    now: Time,
) -> Iteration {
    let sent = drain(machine, ports, now);
    flush(machine, ports);
    let of_machine = machine.poll_timeout(now);
    make_copies(machine, ports);
    let of_ports = ports.iter().filter_map(|port| port.poll_timeout());
    let due = of_machine.into_iter().chain(of_ports).min();
    let due = due.map(|at| match at.since(now) {
        Duration::ZERO => AGAIN,
        wait => wait,
    });
    let stuck = ports.iter().any(|port| port.unsent() || !port.can_send());
    Iteration { wait: if stuck { Some(RETRY) } else { due }, received: 0, sent }
}

/// The results of receiving.
pub(crate) struct Received {
    /// More frames may have arrived.
    pub(crate) more: bool,
    received: u32,
    /// Packets sent while receiving.
    sent: u32,
}

/// Receives a burst of frames from each port that `wanted` selects.
pub(crate) fn take_in(
    machine: &mut dyn Machine,
    ports: &mut [Box<dyn Port>],
    now: Time,
    wanted: impl Fn(&dyn Port) -> bool,
) -> Received {
    let mut taken = Received { more: false, received: 0, sent: 0 };
    make_copies(machine, ports);
    for index in 0..ports.len() {
        if !wanted(&*ports[index]) {
            continue;
        }
        ports[index].set_cutting(machine.wants_frames(id(index)));
        let mut burst = 0;
        while burst < BURST {
            let Some(packet) = ports[index].receive(machine.pool(), now) else { break };
            machine.handle_packet(now, id(index), packet);
            taken.sent += drain(machine, ports, now);
            burst += 1;
        }
        taken.received += burst;
        taken.more |= burst == BURST;
    }
    taken
}

fn flush(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>]) {
    for port in ports {
        port.flush(machine.pool());
    }
}

fn drain(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>], now: Time) -> u32 {
    let mut sent = 0;
    make_copies(machine, ports);
    for index in 0..ports.len() {
        while ports[index].can_send() {
            let packet = machine.poll_transmit(now, id(index));
            make_copies(machine, ports);
            let Some(packet) = packet else { break };
            ports[index].send(machine.pool(), packet);
            sent += 1;
        }
    }
    sent
}

/// Makes the frames of packets that the machine made from other packets. Must be called after each
/// call of the machine, before a slot is reused or a changed field is written into a frame.
#[inline]
fn make_copies(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>]) {
    let pool = machine.pool();
    if pool.has_copies()
        && let Some(port) = ports.first_mut()
    {
        pool.copies().for_each(|copy| port.copy(&copy));
    }
}

fn id(index: usize) -> PortId {
    PortId(u8::try_from(index).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::os::fd::BorrowedFd;
    use std::rc::Rc;

    use tidegate_core::packet::FrameCopy;
    use tidegate_core::{Packet, PacketId, PacketPool};

    use super::*;
    use crate::bare::Bare;
    use crate::port::PortCounters;

    /// A test port with frames to receive. It logs the calls of its methods.
    struct Scribe {
        name: &'static str,
        arrivals: u32,
        has_room: bool,
        log: Rc<RefCell<Vec<String>>>,
        cuts: Rc<Cell<bool>>,
    }

    impl Scribe {
        fn note(&self, call: &str) {
            self.log.borrow_mut().push(format!("{} {call}", self.name));
        }
    }

    impl Port for Scribe {
        fn receive(&mut self, pool: &mut PacketPool, _now: Time) -> Option<PacketId> {
            self.arrivals = self.arrivals.checked_sub(1)?;
            self.note("receives");
            pool.insert(Packet::default())
        }

        fn set_cutting(&mut self, cuts: bool) {
            self.cuts.set(cuts);
        }

        fn can_send(&self) -> bool {
            self.has_room
        }

        fn copy(&mut self, copy: &FrameCopy) {
            self.note(&format!("copies {}", copy.len));
        }

        fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
            self.note("sends");
            pool.release(packet);
        }

        fn flush(&mut self, _pool: &mut PacketPool) {
            self.note("flushes");
        }

        fn drop_arrived(&mut self, _pool: &mut PacketPool, _copies: &dyn Fn() -> u64) -> u64 {
            0
        }

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn counters(&self) -> PortCounters {
            PortCounters::default()
        }
    }

    /// Catches: due packets that are passed to a port but wait there, because `flush` is not called
    /// before frames are received.
    #[test]
    fn due_packets_are_sent_before_any_frame_is_received() {
        let log = Rc::default();
        let port = |name, arrivals| -> Box<dyn Port> {
            Box::new(Scribe {
                name,
                arrivals,
                has_room: true,
                log: Rc::clone(&log),
                cuts: Rc::default(),
            })
        };
        let mut machine = Bare::new(4);
        let mut ports = [port("lan", 1), port("wan", 0)];
        let due = machine.pool().insert(Packet::default()).unwrap();
        machine.handle_packet(Time::ZERO, PortId(0), due);
        let done = iterate(&mut machine, &mut ports, Time::ZERO);
        assert_eq!(done, Iteration { wait: None, received: 1, sent: 2 });
        let expected = "wan sends, lan flushes, wan flushes, lan receives, wan sends, lan flushes, \
                        wan flushes";
        assert_eq!(log.borrow().join(", "), expected);
    }

    /// The result of an iteration with this many frames at the LAN port. `has_room` is `true` if
    /// the WAN port accepts packets.
    fn iteration_of(arrivals: u32, has_room: bool) -> Iteration {
        let port = |name, arrivals| -> Box<dyn Port> {
            Box::new(Scribe { name, arrivals, has_room, log: Rc::default(), cuts: Rc::default() })
        };
        let mut ports = [port("lan", arrivals), port("wan", 0)];
        iterate(&mut Bare::new(2 * BURST), &mut ports, Time::ZERO)
    }

    /// Catches: an iteration that receives frames without a limit; a sleep although more frames
    /// have arrived; a busy loop while the port is full.
    #[test]
    fn an_iteration_is_bounded_and_returns_the_time_of_the_next() {
        let (more, received) = (Some(Duration::ZERO), BURST);
        assert_eq!(iteration_of(BURST + 1, true), Iteration { wait: more, received, sent: BURST });
        assert_eq!(iteration_of(2, true), Iteration { wait: None, received: 2, sent: 2 });
        assert_eq!(iteration_of(2, false), Iteration { wait: Some(RETRY), received: 2, sent: 0 });
    }

    /// A machine that wants split frames instead of super-packets from port 0.
    struct Cutting(Bare);

    impl Machine for Cutting {
        fn pool(&mut self) -> &mut PacketPool {
            self.0.pool()
        }

        fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId) {
            self.0.handle_packet(now, port, packet);
        }

        fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
            self.0.poll_transmit(now, port)
        }

        fn poll_timeout(&mut self, now: Time) -> Option<Time> {
            self.0.poll_timeout(now)
        }

        fn wants_frames(&self, port: PortId) -> bool {
            port == PortId(0)
        }
    }

    /// Catches: a port that is never asked to split super-packets; the setting passed to the wrong
    /// port.
    #[test]
    fn each_port_is_informed_whether_to_split_super_packets() {
        let cuts = [false, true].map(|before| Rc::new(Cell::new(before)));
        let port = |cuts: &Rc<Cell<bool>>| -> Box<dyn Port> {
            let (arrivals, log, cuts) = (0, Rc::default(), Rc::clone(cuts));
            Box::new(Scribe { name: "port", arrivals, has_room: true, log, cuts })
        };
        let mut ports = [port(&cuts[0]), port(&cuts[1])];
        iterate(&mut Cutting(Bare::new(4)), &mut ports, Time::ZERO);
        assert_eq!(cuts.each_ref().map(|it| it.get()), [true, false]);
    }
}
