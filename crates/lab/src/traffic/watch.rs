//! Counts the frames that arrive at an interface, without changing the traffic.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::Count;
use tidegate_core::packet::{FlowKey, Protocol};
use tidegate_core::{Machine, PacketId, PacketPool, PortId, Time};
use tidegate_dataplane::{
    AfPacket, Driver, Interface, Monotonic, Options, PacketMemory, Stopped, inbox,
};

use crate::clock::Clock;

/// Counters of arrived frames.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Seen {
    /// Milliseconds since the count began.
    pub at_ms: u64,
    /// Bytes of all frames.
    pub bytes: u64,
    /// Bytes of TCP frames, by source address.
    pub tcp: BTreeMap<IpAddr, u64>,
}

/// Takes the place of the gateway in the packet loop. It receives packets and sends none.
struct Watch {
    pool: PacketPool,
    all: Count,
    tcp: BTreeMap<IpAddr, u64>,
}

/// Maximum number of frames that may arrive between two iterations of the packet loop.
const PACKETS: u32 = 256;

impl Watch {
    fn count(&mut self, key: &FlowKey, len: u32) {
        self.all.add(len);
        if key.protocol == Protocol::TCP {
            *self.tcp.entry(key.src.address()).or_default() += u64::from(len);
        }
    }
}

impl Machine for Watch {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn handle_packet(&mut self, _now: Time, _port: PortId, packet: PacketId) {
        let (key, len) = (self.pool[&packet].key, self.pool[&packet].len);
        self.count(&key, len);
        self.pool.release(packet);
    }

    fn poll_transmit(&mut self, _now: Time, _port: PortId) -> Option<PacketId> {
        None
    }

    fn poll_timeout(&mut self, _now: Time) -> Option<Time> {
        None
    }
}

/// Counts the frames that arrive at `interface`. Passes the counters to `report` at intervals of
/// `every`, until `report` returns `false`.
///
/// # Errors
///
/// If the interface does not exist, or this process may not watch it.
pub fn watch(
    interface: &str,
    every: Duration,
    mut report: impl FnMut(Seen) -> bool,
) -> anyhow::Result<()> {
    let interface = Interface::find(interface)?;
    let (remote, inbox) = inbox::<Watch, ()>()?;
    let started = thread::spawn(move || -> anyhow::Result<()> {
        let memory = PacketMemory::new(PACKETS, AfPacket::BUFFER)?;
        let port = AfPacket::open(&interface, &memory)?;
        let pool = PacketPool::with_capacity(PACKETS);
        let machine = Watch { pool, all: Count::default(), tcp: BTreeMap::new() };
        let driver = Driver::new(machine, vec![Box::new(port)], (), inbox, Options::default());
        driver.run(&mut Monotonic::start());
        Ok(())
    });
    let clock = Clock::start();
    let mut next = Duration::ZERO;
    loop {
        let seen = remote.ask(|live| (live.machine.all, live.machine.tcp.clone()));
        let Ok((all, tcp)) = seen else {
            let failed = started.join().unwrap_or_else(|_| Err(Stopped.into()));
            return failed.and(Err(Stopped.into()));
        };
        let at_ms = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        if !report(Seen { at_ms, bytes: all.bytes, tcp }) {
            remote.stop()?;
            return Ok(());
        }
        next += every;
        Clock::rest(next.saturating_sub(clock.elapsed()));
    }
}
