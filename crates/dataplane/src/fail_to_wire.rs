//! Fail to wire: frames come through the gateway while it lives, else go straight across.
//!
//! A program on each port decides by two signs. A word in shared memory says until when the gateway
//! counts as alive; it runs out when the gateway hangs. An array that only the gateway's process holds
//! leads to the program that takes frames; the kernel empties it when the process dies.
//!
//! The programs belong to the interface, and stay when the gateway ends: there is no bridge beneath,
//! and traffic must go on. A gateway that starts finds programs of earlier ones by their names,
//! replaces them, and takes over their counts. Until its first [`beat`](Heartbeat::beat) the new ones
//! too let frames pass straight across. Only [`detach`] takes them away.

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

use self::guard::Guarded;
pub use self::guard::{Guard, Trouble};
use self::holder::Holder;
pub use self::layout::Bypassed;
pub(crate) use self::layout::MAX_QUEUES;
use self::programs::{Array, Counters, GivesWay, Object};
use self::survey::{At, Found, Survey};
use crate::driver::Heartbeat;
use crate::interface::Interface;

/// How long a gateway may be silent, and how its programs are attached.
#[derive(Clone, Debug)]
pub struct WireConfig {
    /// Silence after which frames go straight across.
    pub timeout: Duration,
    /// What `CLOCK_MONOTONIC` showed at [`Time::ZERO`], in nanoseconds.
    pub epoch: u64,
    /// How tc programs are attached.
    pub tc: Tc,
}

/// How a tc program is attached to an interface.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tc {
    /// By TCX, where the kernel has it (Linux 6.6), else as a filter.
    #[default]
    Tcx,
    /// As a filter of the `clsact` discipline.
    Filter,
}

impl WireConfig {
    /// Silence after which frames go straight across, unless said otherwise.
    pub const TIMEOUT: Duration = Duration::from_millis(50);
}

/// The mode of the XDP program that an earlier run left on `interface`, if it left one.
pub(crate) fn laid(interface: &Interface) -> Option<Mode> {
    let survey = Survey::of(interface).ok()?;
    match survey.xdp().filter(|found| found.is_ours())?.at {
        At::Xdp(mode) => Some(mode),
        _ => None,
    }
}

/// Where in the kernel an XDP program runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// In the driver, before the kernel makes anything of a frame.
    Native,
    /// In the stack, for drivers without XDP.
    Generic,
}

impl Mode {
    /// Its name in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// Why the wire cannot be laid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The process may not do that.
    #[error(
        "no privilege to load BPF programs; run as root or grant CAP_BPF, CAP_NET_ADMIN and \
         CAP_SYS_ADMIN, or do without fail-to-wire"
    )]
    NoPrivilege,
    /// The programs built into this executable are not those it was written for.
    #[error("the built-in BPF object lacks a program or a map; build again after `make -C bpf`")]
    Object,
    /// The kernel lacks something.
    #[error("the kernel refuses the BPF programs: {source}; they need Linux 5.18 or later")]
    Kernel {
        /// What it said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Somebody else was there first.
    #[error(
        "another program is attached to `{interface}`; \
         `ip link show {interface}` names it, `ip link set {interface} xdp off` may remove it"
    )]
    Occupied {
        /// The interface.
        interface: String,
    },
    /// Another gateway lives there.
    #[error("a gateway that is still alive has {program} on `{interface}`; stop it first")]
    Alive {
        /// The interface.
        interface: String,
        /// The program.
        program: String,
    },
    /// The interface does not take the program.
    #[error("cannot attach to `{interface}`: {source}")]
    Attach {
        /// The interface.
        interface: String,
        /// What the kernel said.
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

/// The number of the first error of the system among `error` and its causes.
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

/// The wire beneath a gateway: lets frames come to it as long as it [`beat`](Heartbeat::beat)s.
///
/// When it is dropped, frames pass straight across.
#[derive(Debug)]
pub struct FailToWire {
    wires: Vec<Wire>,
    /// Dropped, the program arrays close.
    _holder: Holder,
    timeout: Duration,
    epoch: u64,
    /// Frames have been told to go straight across.
    passing: bool,
}

/// One port's wire.
struct Wire {
    mode: Option<Mode>,
    counters: Counters,
    guarded: Guarded,
}

impl FailToWire {
    /// Lays the wire beneath packet sockets on `ports`: while the gateway lives, the kernel drops
    /// the frames of which the sockets get a copy.
    ///
    /// # Errors
    ///
    /// Without the privileges, or on a kernel before 5.18.
    pub fn beneath_packet_sockets(
        config: &WireConfig,
        ports: [&Interface; 2],
    ) -> Result<Self, WireError> {
        let mut laying = Laying::new(config.tc);
        for (port, peer) in [(ports[0], ports[1]), (ports[1], ports[0])] {
            laying.tc(port, peer)?;
        }
        laying.finish(config)
    }

    /// Lays the wire beneath AF_XDP sockets: those of each port by their receive queue.
    pub(crate) fn beneath_xdp_sockets(
        config: &WireConfig,
        ports: [XdpPort<'_>; 2],
    ) -> Result<Self, WireError> {
        let mut laying = Laying::new(config.tc);
        for (port, peer) in [(&ports[0], &ports[1]), (&ports[1], &ports[0])] {
            laying.xdp(port, peer)?;
        }
        laying.finish(config)
    }

    /// Where the XDP program of each port runs; `None` beneath packet sockets.
    #[must_use]
    pub fn modes(&self) -> Vec<Option<Mode>> {
        self.wires.iter().map(|wire| wire.mode).collect()
    }

    /// Frames of each port that went straight across, earlier runs included.
    #[must_use]
    pub fn bypassed(&self) -> Vec<Bypassed> {
        self.wires.iter().map(|wire| wire.counters.bypassed()).collect()
    }

    /// Watches what is attached to the ports, from any thread of this network namespace.
    #[must_use]
    pub fn guard(&self) -> Guard {
        Guard::new(self.wires.iter().map(|wire| wire.guarded.clone()).collect())
    }
}

impl Heartbeat for FailToWire {
    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    /// Costs a store for each port.
    fn beat(&mut self, now: Time) {
        let until = self.epoch.saturating_add((now + self.timeout).nanos());
        self.wires.iter().for_each(|wire| wire.counters.life.until(until));
    }

    fn set_passing(&mut self, passing: bool) {
        self.passing = passing;
        if passing {
            self.wires.iter().for_each(|wire| wire.counters.life.pass());
        }
    }

    fn passing(&self) -> bool {
        self.passing
    }
}

impl Drop for FailToWire {
    /// The gateway ends, the wire stays.
    fn drop(&mut self) {
        self.set_passing(true);
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// The counts of a program, over all processors.
fn count(map: &PerCpuArray<MapData, u64>) -> Bypassed {
    let mut bypassed = Bypassed::default();
    for reason in 0..Bypassed::REASONS {
        if let (Some(count), Ok(values)) = (bypassed.of(reason), map.get(&reason, 0)) {
            *count = values.iter().sum();
        }
    }
    bypassed
}

/// Takes the wire off `interface`, whoever laid it; says whether there was one.
///
/// Then nothing connects the ports any more but a gateway that runs on packet sockets.
///
/// # Errors
///
/// When a program cannot be detached.
pub fn detach(interface: &Interface) -> io::Result<bool> {
    let detached = Survey::of(interface)?.detach(|_| true)?;
    Ok(former::unpin(interface)? || detached)
}

/// The programs of others at the ingress of `interface`, in words. In front of ours they take frames
/// before the gateway; an XDP program of others keeps AF_XDP from the interface.
///
/// # Errors
///
/// If the process may not look.
pub fn foreign(interface: &Interface) -> io::Result<Vec<String>> {
    let survey = Survey::of(interface)?;
    Ok(survey.found.iter().filter(|found| !found.is_ours()).map(ToString::to_string).collect())
}

/// The programs on `interface` when no gateway lives there.
///
/// A process that was killed closes its descriptors late: for a while its programs look alive.
fn survey(interface: &Interface) -> Result<Survey, WireError> {
    /// Measured: 10 to 40 ms on an idle machine.
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

/// A port as the XDP program sees it.
pub(crate) struct XdpPort<'a> {
    pub(crate) interface: &'a Interface,
    /// By receive queue.
    pub(crate) sockets: Vec<BorrowedFd<'a>>,
    /// Where its program may run, the best first.
    pub(crate) modes: &'a [Mode],
    /// Its driver sends frames that an XDP program redirects to it.
    pub(crate) takes_redirected: bool,
}

/// A wire half laid: programs that are new on a port are detached again unless it is finished.
struct Laying {
    tc: Tc,
    wires: Vec<Wire>,
    arrays: Vec<Array>,
    /// Ports that had no program of ours, with the numbers of the new ones.
    new: Vec<(Interface, u32)>,
}

impl Laying {
    const fn new(tc: Tc) -> Self {
        Self { tc, wires: Vec::new(), arrays: Vec::new(), new: Vec::new() }
    }

    /// Attaches the tc program to `port`, and only then detaches programs of earlier runs: an XDP
    /// program would take the frames before the packet sockets see them.
    fn tc(&mut self, port: &Interface, peer: &Interface) -> Result<(), WireError> {
        let there = survey(port)?;
        let mut object = Object::swallow(peer)?;
        let tc = object.attach_tc(port, self.tc)?;
        self.attached(&there, tc);
        detach_old(&there, tc, |_| true)?;
        self.laid(&there, object, None, Guarded::new(port, None, Some(tc)));
        Ok(())
    }

    /// Puts an XDP program on `port` in the first mode that goes.
    fn xdp(&mut self, port: &XdpPort<'_>, peer: &XdpPort<'_>) -> Result<(), WireError> {
        for (n, mode) in (1..).zip(port.modes) {
            match self.xdp_in_mode(port, peer, *mode) {
                Err(error @ WireError::Attach { .. }) if n < port.modes.len() => {
                    tracing::warn!(%error, "no {} XDP program, trying another mode", mode.name());
                }
                laid => return laid,
            }
        }
        Err(WireError::Object)
    }

    /// Puts the XDP program on `port`, ready to the last socket, and beneath it the tc program where
    /// the XDP program cannot send frames across itself.
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
        // What a generic program redirects, any driver sends. What it passes up, on the other hand,
        // may have lost its link-layer header for the tc program (seen on Linux 6.18).
        let by_itself = mode == Mode::Generic || peer.takes_redirected;
        if by_itself {
            object.set_peer(peer.interface)?;
        }
        // It also carries frames across between the detachment of one XDP program and the next.
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
        self.laid(&there, object, Some(mode), Guarded::new(interface, Some(xdp), beneath));
        Ok(())
    }

    fn attached(&mut self, there: &Survey, program: u32) {
        if there.ours().next().is_none() {
            self.new.push((there.interface.clone(), program));
        }
    }

    /// Goes on with `object`, which counts from where the programs of earlier runs ended.
    fn laid(&mut self, there: &Survey, object: Object, mode: Option<Mode>, guarded: Guarded) {
        if let Err(error) = former::unpin(&there.interface) {
            tracing::warn!(%error, "files of an earlier version stay");
        }
        let (counters, array) = object.into_parts();
        self.arrays.push(array);
        counters.life.carry(there.bypassed());
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

impl Drop for Laying {
    fn drop(&mut self) {
        for (interface, program) in &self.new {
            // A program that stays passes frames straight across.
            let _ = detach_numbered(interface, *program);
        }
    }
}

/// Detaches those programs of earlier runs in `there` that `chosen` names. A filter is not detached
/// if program `new` took its place.
fn detach_old(there: &Survey, new: u32, chosen: impl Fn(&Found) -> bool) -> Result<(), WireError> {
    let failed = |source| WireError::attach(&there.interface, source);
    let now = Survey::of(&there.interface).map_err(failed)?;
    let is_old = |found: &Found| there.found.iter().any(|old| old.program.id == found.program.id);
    now.detach(|found| found.program.id != new && is_old(found) && chosen(found))
        .map_err(failed)?;
    Ok(())
}

/// Detaches our program of this number.
fn detach_numbered(interface: &Interface, program: u32) -> io::Result<bool> {
    Survey::of(interface)?.detach(|found| found.program.id == program)
}
