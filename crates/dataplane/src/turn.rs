//! One turn of the loop: what arrived goes in, what may leave goes out.

use std::time::Duration;

use tidegate_core::{Machine, PortId, Time};

use crate::port::Port;

/// Frames taken from one port before the next has its turn.
const BURST: usize = 64;

/// How long to wait before an interface that had no room is tried again.
const RETRY: Duration = Duration::from_micros(250);

/// The wait for what is due now, which has just been asked for.
const AGAIN: Duration = Duration::from_micros(1);

/// What a turn did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Turn {
    /// How long nothing will leave unless something arrives: zero if more has arrived already,
    /// `None` if nothing waits.
    pub wait: Option<Duration>,
    /// Packets handed to ports.
    pub sent: u32,
}

/// Sends what may leave, takes in what arrived at `ports`, a bounded number from each, and sends
/// what may leave because of that.
///
/// What was due by `now` leaves before anything that arrived is taken in, as if the loop had come
/// back in time.
pub fn turn(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>], now: Time) -> Turn {
    let due = drain(machine, ports, now);
    let (more, taken) = take_in(machine, ports, now, |_| true);
    let turn = send_due(machine, ports, now);
    let wait = if more { Some(Duration::ZERO) } else { turn.wait };
    Turn { wait, sent: due + taken + turn.sent }
}

/// Sends what may leave, and takes nothing in.
pub(crate) fn send_due(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>], now: Time) -> Turn {
    let sent = drain(machine, ports, now);
    for port in ports.iter_mut() {
        port.flush(machine.pool());
    }
    let due = machine.poll_timeout(now).map(|at| match at.since(now) {
        Duration::ZERO => AGAIN,
        wait => wait,
    });
    let stuck = ports.iter().any(|port| port.unsent() || !port.can_send());
    Turn { wait: if stuck { Some(RETRY) } else { due }, sent }
}

/// Hands in a burst from each port that `wanted` picks; says whether there may be more, and what
/// left meanwhile.
pub(crate) fn take_in(
    machine: &mut dyn Machine,
    ports: &mut [Box<dyn Port>],
    now: Time,
    wanted: impl Fn(&dyn Port) -> bool,
) -> (bool, u32) {
    let (mut more, mut sent) = (false, 0);
    for index in 0..ports.len() {
        if !wanted(&*ports[index]) {
            continue;
        }
        let mut burst = 0;
        while burst < BURST {
            let Some(packet) = ports[index].receive(machine.pool(), now) else { break };
            machine.handle_packet(now, id(index), packet);
            sent += drain(machine, ports, now);
            burst += 1;
        }
        more |= burst == BURST;
    }
    (more, sent)
}

fn drain(machine: &mut dyn Machine, ports: &mut [Box<dyn Port>], now: Time) -> u32 {
    let mut sent = 0;
    for (index, port) in ports.iter_mut().enumerate() {
        while port.can_send() {
            let Some(packet) = machine.poll_transmit(now, id(index)) else { break };
            port.send(machine.pool(), packet);
            sent += 1;
        }
    }
    sent
}

fn id(index: usize) -> PortId {
    PortId(u8::try_from(index).unwrap_or(u8::MAX))
}
