//! The process that emulates the network of a lab: it delays, queues and drops the packets between
//! hosts.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::emulator::{Emulator, EmulatorReport};
use tidegate_core::link::LinkChange;
use tidegate_core::{ByReason, Rate, Time};
use tidegate_dataplane::{
    AfPacket, Driver, Interface, Monotonic, Options, PacketMemory, Port, Remote, Wish, inbox,
    keep_time,
};

use crate::code::Code;
use crate::output::{Failure, progress};
use crate::topology;

/// The state of a lab's network.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Emulated {
    /// The routes, in the order of the topology file.
    pub routes: Vec<EmulatedRoute>,
    /// Dropped packets in the whole network, by reason. Reasons without packets are left out.
    pub drops: Vec<(String, u64)>,
    /// Packets marked "congestion experienced" in the whole network, by reason. Reasons without
    /// packets are left out.
    pub marks: Vec<(String, u64)>,
}

/// The state of a route.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct EmulatedRoute {
    /// Packets that entered the route.
    pub offered: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked "congestion experienced".
    pub marks: u64,
    /// Packets that wait in the route's queue.
    pub waiting: u32,
}

/// A change of a route. Fields that are `None` keep their values.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct RouteChange {
    /// Position of the route in the topology file, from 1.
    pub route: u32,
    /// The new rate.
    pub rate: Option<Rate>,
    /// The new delay in nanoseconds.
    pub delay_ns: Option<u64>,
}

impl From<EmulatorReport> for Emulated {
    fn from(report: EmulatorReport) -> Self {
        let named = |packets: ByReason| {
            let some = packets.iter().filter(|(_, count)| *count > 0);
            some.map(|(reason, count)| (reason.name().to_owned(), count)).collect()
        };
        let routes = report.routes.iter().map(|route| EmulatedRoute {
            offered: route.offered.packets,
            delivered: route.delivered.packets,
            drops: route.drops.losses(),
            marks: route.marks.total(),
            waiting: route.backlog.packets,
        });
        Self { routes: routes.collect(), drops: named(report.drops), marks: named(report.marks) }
    }
}

/// Emulates the network of the topology in `file` between the interfaces `ports`, until the process
/// ends. Each client that connects to `socket` may send a [`RouteChange`], which is applied. Then
/// the client gets the network's state.
///
/// # Errors
///
/// If the file is invalid or a port cannot be opened.
pub fn emulate(file: &Path, socket: &Path, ports: &[String]) -> anyhow::Result<()> {
    let (topology, found) =
        topology::parse(&file.display().to_string(), &fs::read_to_string(file)?);
    let Some(topology) = topology else {
        return Err(Failure::input(Code::LabFailed, found.render(false)).into());
    };
    let config = topology.network();
    let memory = PacketMemory::new(config.packets, AfPacket::BUFFER)?;
    let open = |name: &String| -> anyhow::Result<Box<dyn Port>> {
        Ok(Box::new(AfPacket::open(&Interface::find(name)?, &memory)?))
    };
    let ports = ports.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let (remote, inbox) = inbox()?;
    let listener = UnixListener::bind(socket)?;
    thread::spawn(move || answer(&listener, &remote));
    let granted = keep_time(Wish::default());
    progress(format_args!("{} ports, {} routes, {granted}", ports.len(), config.routes.len()));
    let driver = Driver::new(Emulator::new(&config), ports, (), inbox, Options::default());
    driver.run(&mut Monotonic::start());
    Ok(())
}

fn answer(listener: &UnixListener, remote: &Remote<Emulator, ()>) {
    while let Ok((mut client, _)) = listener.accept() {
        // A client that sends no valid change only gets the state.
        let wanted =
            read_request(&mut client).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let said = remote.ask(move |live| {
            let done = wanted.is_none_or(|wanted| change(live.machine, live.now, wanted));
            done.then(|| live.machine.report())
        });
        let Ok(report) = said else { return };
        // The result is ignored: a client that has disconnected needs no answer.
        let _ = serde_json::to_vec(&report.map(Emulated::from)).map(|text| client.write_all(&text));
    }
}

fn change(emulator: &mut Emulator, now: Time, wish: RouteChange) -> bool {
    let delay = wish.delay_ns.map(Duration::from_nanos);
    let number = wish.route.checked_sub(1);
    number.is_some_and(|it| emulator.change(now, it, LinkChange { rate: wish.rate, delay }))
}

/// Reads all that `connection` sends.
fn read_request(connection: &mut UnixStream) -> io::Result<Vec<u8>> {
    connection.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut text = Vec::new();
    connection.read_to_end(&mut text)?;
    Ok(text)
}

/// Requests the state from the emulator at `socket`. If `change` is given, the emulator applies it
/// first. Returns `None` if the change is impossible.
pub(super) fn ask(socket: &Path, change: Option<&RouteChange>) -> anyhow::Result<Option<Emulated>> {
    let mut connection = UnixStream::connect(socket)?;
    if let Some(change) = change {
        connection.write_all(&serde_json::to_vec(change)?)?;
    }
    connection.shutdown(Shutdown::Write)?;
    Ok(serde_json::from_slice(&read_request(&mut connection)?)?)
}
