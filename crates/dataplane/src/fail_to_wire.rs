//! Fail to wire: BPF programs forward frames between the two ports while no gateway is alive.
//!
//! A BPF program on each port tests two conditions for every frame. The first is a deadline in
//! shared memory. The gateway extends it regularly (the heartbeat), so it expires when the gateway
//! hangs. The second is an entry in a program array that only the gateway's process holds open. The
//! kernel empties the array when the process dies. If either condition fails, the program redirects
//! the frame to the other port.
//!
//! The programs are attached to the interface, not to the process. They stay after the gateway has
//! ended, because nothing else on the host connects the two ports. A new gateway finds earlier
//! programs by their names, replaces them, and adds their counters to its own. Frames bypass it
//! until its first [`beat`](Heartbeat::beat). Only [`detach`] removes the programs.

mod filter;
mod former;
mod guard;
mod holder;
mod kernel;
mod layout;
mod life;
mod programs;
mod survey;
mod xdp;

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use aya::EbpfError;
use aya::maps::{MapData, MapError, PerCpuArray};
use aya::programs::ProgramError;
use tidegate_core::Time;
use tidegate_gateway::report::Bypassed;

use self::guard::Guarded;
pub use self::guard::{Guard, Trouble};
use self::holder::Holder;
pub(crate) use self::layout::MAX_QUEUES;
use self::layout::{REASONS, count_of};
use self::programs::{Array, Counters, GivesWay, Object};
use self::survey::{At, Found, Survey};
use crate::heartbeat::{Heartbeat, Passing};
use crate::interface::Interface;

/// Settings of the bypass programs.
#[derive(Clone, Debug)]
pub struct WireConfig {
    /// Time since the last beat after which frames bypass the gateway.
    pub timeout: Duration,
    /// `CLOCK_MONOTONIC` at [`Time::ZERO`], in nanoseconds.
    pub epoch: u64,
    /// How tc programs are attached.
    pub tc: Tc,
}

/// How a tc program is attached to an interface.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tc {
    /// By TCX if the kernel supports it (Linux 6.6), otherwise as a filter.
    #[default]
    Tcx,
    /// As a filter of the `clsact` discipline.
    Filter,
}

impl WireConfig {
    /// The default of `timeout`.
    pub const TIMEOUT: Duration = Duration::from_millis(50);
}

/// The mode of the XDP program that an earlier run left on `interface`, if any.
pub(crate) fn left_mode(interface: &Interface) -> Option<Mode> {
    let survey = Survey::of(interface).ok()?;
    match survey.xdp().filter(|found| found.is_ours())?.at {
        At::Xdp(mode) => Some(mode),
        _ => None,
    }
}

/// The mode of an XDP program: the layer of the kernel that runs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// In the driver, before the kernel allocates a socket buffer.
    Native,
    /// In the network stack, for drivers without XDP.
    Generic,
}

impl Mode {
    /// The name of the mode in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// The reason why the programs cannot be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The process lacks a privilege.
    #[error(
        "no privilege to load BPF programs; run as root or grant CAP_BPF, CAP_NET_ADMIN and \
         CAP_SYS_ADMIN, or do without fail-to-wire"
    )]
    NoPrivilege,
    /// The BPF object in this executable lacks a program or a map.
    #[error("the built-in BPF object lacks a program or a map; build again after `make -C bpf`")]
    Object,
    /// The kernel rejects a program or a map.
    #[error("the kernel refuses the BPF programs: {source}; they need Linux 5.18 or later")]
    Kernel {
        /// The error of the kernel.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A program of another owner is attached to the interface.
    #[error(
        "another program is attached to `{interface}`; \
         `ip link show {interface}` names it, `ip link set {interface} xdp off` may remove it"
    )]
    Occupied {
        /// The interface.
        interface: String,
    },
    /// The program of a running gateway is attached to the interface.
    #[error("a gateway that is still alive has {program} on `{interface}`; stop it first")]
    Alive {
        /// The interface.
        interface: String,
        /// The program.
        program: String,
    },
    /// The attachment fails for another reason.
    #[error("cannot attach to `{interface}`: {source}")]
    Attach {
        /// The interface.
        interface: String,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl WireError {
    fn attach(interface: &Interface, source: io::Error) -> Self {
        let interface = interface.name().to_owned();
        match source.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Self::Occupied { interface },
            Some(libc::EPERM | libc::EACCES) => Self::NoPrivilege,
            _ => Self::Attach { interface, source },
        }
    }

    fn kernel(source: impl Error + Send + Sync + 'static) -> Self {
        match os_error(&source) {
            Some(libc::EPERM | libc::EACCES) => Self::NoPrivilege,
            _ => Self::Kernel { source: Box::new(source) },
        }
    }
}

impl From<EbpfError> for WireError {
    fn from(error: EbpfError) -> Self {
        Self::kernel(error)
    }
}

impl From<MapError> for WireError {
    fn from(error: MapError) -> Self {
        Self::kernel(error)
    }
}

impl From<ProgramError> for WireError {
    fn from(error: ProgramError) -> Self {
        Self::kernel(error)
    }
}

/// The error number of the first system error in the chain of causes of `error`.
fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(number);
        }
        cause = error.source();
    }
    None
}

/// The attached programs of a gateway. They deliver frames to the gateway while it
/// [`beat`](Heartbeat::beat)s.
///
/// After it is dropped, the programs stay attached, and frames bypass the gateway.
#[derive(Debug)]
pub struct FailToWire {
    wires: Vec<Wire>,
    /// Keeps the program arrays open. Dropping it closes them, and frames bypass the gateway.
    _holder: Holder,
    timeout: Duration,
    epoch: u64,
    /// The gateway has requested bypass.
    passing: bool,
}

/// The programs of one port, with their maps.
struct Wire {
    mode: Option<Mode>,
    counters: Counters,
    guarded: Guarded,
}

impl FailToWire {
    /// Attaches tc programs for packet sockets on `ports`. While the gateway is alive, the programs
    /// drop each frame, since the packet socket has a copy of it.
    ///
    /// # Errors
    ///
    /// If the process lacks a privilege, or the kernel is older than 5.18.
    pub fn beneath_packet_sockets(
        config: &WireConfig,
        ports: [&Interface; 2],
    ) -> Result<Self, WireError> {
        let mut attaching = Attaching::new(config.tc);
        for (port, peer) in [(ports[0], ports[1]), (ports[1], ports[0])] {
            attaching.tc(port, peer)?;
        }
        attaching.finish(config)
    }

    /// Attaches XDP programs for AF_XDP sockets.
    pub(crate) fn beneath_xdp_sockets(
        config: &WireConfig,
        ports: [XdpPort<'_>; 2],
    ) -> Result<Self, WireError> {
        let mut attaching = Attaching::new(config.tc);
        for (port, peer) in [(&ports[0], &ports[1]), (&ports[1], &ports[0])] {
            attaching.xdp(port, peer)?;
        }
        attaching.finish(config)
    }

    /// The mode of the XDP program of each port; `None` with packet sockets.
    #[must_use]
    pub fn modes(&self) -> Vec<Option<Mode>> {
        self.wires.iter().map(|wire| wire.mode).collect()
    }

    /// Number of bypassed frames per port, including frames that bypassed earlier gateways.
    #[must_use]
    pub fn bypassed(&self) -> Vec<Bypassed> {
        self.wires.iter().map(|wire| wire.counters.bypassed()).collect()
    }

    /// A guard that checks the programs attached to the ports. It works in any thread of this
    /// network namespace.
    #[must_use]
    pub fn guard(&self) -> Guard {
        Guard::new(self.wires.iter().map(|wire| wire.guarded.clone()).collect())
    }
}

impl Heartbeat for FailToWire {
    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    /// Extends the deadline of each port. This takes one store per port.
    fn beat(&mut self, now: Time) {
        let until = self.epoch.saturating_add((now + self.timeout).nanos());
        self.wires.iter().for_each(|wire| wire.counters.life.until(until));
    }

    fn set_passing(&mut self, passing: Option<Passing>) {
        self.passing = passing.is_some();
        if let Some(why) = passing {
            self.wires.iter().for_each(|wire| wire.counters.life.pass(why));
        }
    }

    fn passing(&self) -> bool {
        self.passing
    }

    fn passed(&self) -> Vec<u64> {
        self.wires.iter().map(|wire| wire.counters.bypassed().frames()).collect()
    }
}

impl Drop for FailToWire {
    /// Switches the programs to bypass and leaves them attached.
    fn drop(&mut self) {
        self.set_passing(Some(Passing::Ended));
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// The counters of a program, summed over all processors.
fn count(map: &PerCpuArray<MapData, [u64; 2]>) -> Bypassed {
    let mut bypassed = Bypassed::default();
    for reason in 0..REASONS {
        if let (Some(count), Ok(values)) = (count_of(&mut bypassed, reason), map.get(&reason, 0)) {
            for [frames, bytes] in values.iter() {
                count.packets += frames;
                count.bytes += bytes;
            }
        }
    }
    bypassed
}

/// Detaches all Tidegate programs from `interface`. Returns `true` if a program was attached.
///
/// Without the programs, only a gateway on packet sockets forwards frames between the ports.
///
/// # Errors
///
/// When a program cannot be detached.
pub fn detach(interface: &Interface) -> io::Result<bool> {
    let detached = Survey::of(interface)?.detach(|_| true)?;
    Ok(former::unpin(interface)? || detached)
}

/// Describes the foreign programs (programs that are not Tidegate's) at the ingress of `interface`.
/// A foreign program that runs before ours can take frames from the gateway. A foreign XDP program
/// prevents AF_XDP on the interface.
///
/// # Errors
///
/// If the process may not list the programs.
pub fn foreign(interface: &Interface) -> io::Result<Vec<String>> {
    let survey = Survey::of(interface)?;
    Ok(survey.found.iter().filter(|found| !found.is_ours()).map(ToString::to_string).collect())
}

/// Lists the programs on `interface`. Waits until none of them belongs to a running gateway,
/// because the programs of a killed process may look alive for a moment.
fn survey(interface: &Interface) -> Result<Survey, WireError> {
    /// The limit is 1 s. A killed process closes its descriptors after 10 to 40 ms on an idle
    /// machine.
    const ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    let look = || Survey::of(interface).map_err(|source| WireError::attach(interface, source));
    for _ in 1..ATTEMPTS {
        let survey = look()?;
        if survey.alive().is_none() {
            return Ok(survey);
        }
        #[expect(clippy::disallowed_methods, reason = "nothing runs yet that could wait")]
        thread::sleep(PAUSE);
    }
    let survey = look()?;
    let alive = survey.alive().map(ToString::to_string);
    alive.map_or(Ok(survey), |program| {
        Err(WireError::Alive { interface: interface.name().to_owned(), program })
    })
}

/// A port of the XDP program.
pub(crate) struct XdpPort<'a> {
    pub(crate) interface: &'a Interface,
    /// AF_XDP sockets, indexed by receive queue.
    pub(crate) sockets: Vec<BorrowedFd<'a>>,
    /// Modes to try, the preferred one first.
    pub(crate) modes: &'a [Mode],
    /// The driver transmits frames that an XDP program redirects to this port.
    pub(crate) takes_redirected: bool,
}

/// An attachment in progress. If it is dropped before [`finish`](Self::finish), it detaches the
/// programs that it attached.
struct Attaching {
    tc: Tc,
    wires: Vec<Wire>,
    arrays: Vec<Array>,
    /// Ports that had no program of ours before, with the ids of the new programs.
    new: Vec<(Interface, u32)>,
}

impl Attaching {
    const fn new(tc: Tc) -> Self {
        Self { tc, wires: Vec::new(), arrays: Vec::new(), new: Vec::new() }
    }

    /// Attaches the tc program to `port`, then detaches the programs of earlier runs. An old XDP
    /// program would take the frames before the packet sockets receive them.
    fn tc(&mut self, port: &Interface, peer: &Interface) -> Result<(), WireError> {
        let there = survey(port)?;
        let mut object = Object::swallow(peer)?;
        let tc = object.attach_tc(port, self.tc)?;
        self.attached(&there, tc);
        detach_old(&there, tc, |_| true)?;
        self.keep(&there, object, None, Guarded::new(port, None, Some(tc)));
        Ok(())
    }

    /// Attaches the XDP program to `port` in the first mode that the interface accepts.
    fn xdp(&mut self, port: &XdpPort<'_>, peer: &XdpPort<'_>) -> Result<(), WireError> {
        for (n, mode) in (1..).zip(port.modes) {
            match self.xdp_in_mode(port, peer, *mode) {
                Err(error @ WireError::Attach { .. }) if n < port.modes.len() => {
                    tracing::warn!(%error, "no {} XDP program, trying another mode", mode.name());
                }
                attached => return attached,
            }
        }
        Err(WireError::Object)
    }

    /// Attaches the XDP program to `port` in `mode`, with all its sockets. Also attaches the tc
    /// program if the XDP program cannot redirect frames to the peer port.
    fn xdp_in_mode(
        &mut self,
        port: &XdpPort<'_>,
        peer: &XdpPort<'_>,
        mode: Mode,
    ) -> Result<(), WireError> {
        let interface = port.interface;
        let there = survey(interface)?;
        let gives_way = GivesWay::of(&there, mode)?;
        let mut object = Object::wire()?;
        object.set_sockets(port.sockets.iter().copied())?;
        // Every driver transmits frames that a generic XDP program redirects. But if a generic
        // program passes a frame on, the frame may reach the tc program without its link-layer
        // header (Linux 6.18).
        let by_itself = mode == Mode::Generic || peer.takes_redirected;
        if by_itself {
            object.set_peer(peer.interface)?;
        }
        // The tc program also redirects frames in the time between the detachment of one XDP
        // program and the attachment of the next program.
        let mut beneath = None;
        if !by_itself || matches!(gives_way, GivesWay::Detached(_)) {
            let tc = Object::swallow(peer.interface)?.attach_tc(interface, self.tc)?;
            self.attached(&there, tc);
            beneath = Some(tc);
        }
        let xdp = match gives_way {
            GivesWay::None => object.attach_xdp(interface, mode, None)?,
            GivesWay::Replaced(found) => object.attach_xdp(interface, mode, Some(found))?,
            GivesWay::Detached(found) => {
                found.detach(interface).map_err(|source| WireError::attach(interface, source))?;
                object.attach_xdp(interface, mode, None)?
            }
        };
        self.attached(&there, xdp);
        detach_old(&there, beneath.unwrap_or(0), |found| !matches!(found.at, At::Xdp(_)))?;
        if let Some(tc) = beneath.filter(|_| by_itself) {
            detach_numbered(interface, tc)
                .map_err(|source| WireError::attach(interface, source))?;
            beneath = None;
        }
        self.keep(&there, object, Some(mode), Guarded::new(interface, Some(xdp), beneath));
        Ok(())
    }

    fn attached(&mut self, earlier: &Survey, program: u32) {
        if earlier.ours().next().is_none() {
            self.new.push((earlier.interface.clone(), program));
        }
    }

    /// Keeps the maps of `object`. Adds the bypass counts of the programs in the survey `earlier`
    /// to these maps.
    fn keep(&mut self, earlier: &Survey, object: Object, mode: Option<Mode>, guarded: Guarded) {
        if let Err(error) = former::unpin(&earlier.interface) {
            tracing::warn!(%error, "files of an earlier version stay");
        }
        let (counters, array) = object.into_parts();
        self.arrays.push(array);
        counters.life.carry(earlier.bypassed());
        self.wires.push(Wire { mode, counters, guarded });
    }

    fn finish(mut self, config: &WireConfig) -> Result<FailToWire, WireError> {
        let _holder = Holder::new(std::mem::take(&mut self.arrays)).map_err(WireError::kernel)?;
        self.new.clear();
        let WireConfig { timeout, epoch, .. } = *config;
        let wires = std::mem::take(&mut self.wires);
        Ok(FailToWire { wires, _holder, timeout, epoch, passing: false })
    }
}

impl Drop for Attaching {
    fn drop(&mut self) {
        for (interface, program) in &self.new {
            // If the detachment fails, the remaining program only connects the two ports.
            let _ = detach_numbered(interface, *program);
        }
    }
}

/// Detaches the programs in the survey `earlier` that `chosen` selects, except program `new`.
/// Program `new` may have replaced an old program in the same filter.
fn detach_old(
    earlier: &Survey,
    new: u32,
    chosen: impl Fn(&Found) -> bool,
) -> Result<(), WireError> {
    let failed = |source| WireError::attach(&earlier.interface, source);
    let now = Survey::of(&earlier.interface).map_err(failed)?;
    let is_old = |found: &Found| earlier.found.iter().any(|old| old.program.id == found.program.id);
    now.detach(|found| found.program.id != new && is_old(found) && chosen(found))
        .map_err(failed)?;
    Ok(())
}

/// Detaches our program with the id `program`. Returns `true` if it was attached.
fn detach_numbered(interface: &Interface, program: u32) -> io::Result<bool> {
    Survey::of(interface)?.detach(|found| found.program.id == program)
}
