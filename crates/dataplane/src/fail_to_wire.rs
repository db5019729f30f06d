//! Fail to wire: frames come through the gateway while it lives, else go straight across.
//!
//! A program on each port decides by a word in shared memory that says until when the gateway counts
//! as alive. The programs are pinned, so they stay when the gateway ends, in whatever way: there is
//! no bridge beneath, and traffic must go on. Started again, the gateway puts its new programs in
//! the place of the old ones without a packet in between; until its first [`beat`](Heartbeat::beat) they
//! too let frames pass straight across. Only [`detach`] takes them away.

mod filter;
mod layout;
mod life;
mod pins;
mod programs;

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aya::EbpfError;
use aya::maps::{MapData, MapError, PerCpuArray};
use aya::programs::ProgramError;
use tidegate_core::Time;

pub use self::layout::Bypassed;
pub(crate) use self::layout::MAX_QUEUES;
use self::life::Life;
use self::pins::{Pin, Pins};
use self::programs::{Attached, Object};
use crate::driver::Heartbeat;
use crate::interface::Interface;

/// How long a gateway may be silent, and where its wire is kept.
#[derive(Clone, Debug)]
pub struct WireConfig {
    /// A directory of a BPF file system, or one that may become its mount point.
    pub directory: PathBuf,
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
    /// By a link, where the kernel has such (Linux 6.6), else as a filter.
    #[default]
    Link,
    /// As a filter of the `clsact` discipline.
    Filter,
}

impl WireConfig {
    /// Where pins are kept unless said otherwise.
    pub const DIRECTORY: &'static str = "/run/tidegate/bpf";
    /// Silence after which frames go straight across, unless said otherwise.
    pub const TIMEOUT: Duration = Duration::from_millis(50);
}

/// The wire an earlier run left on `interface`, if it is one for AF_XDP.
pub(crate) fn laid(directory: &Path, interface: &Interface) -> Option<Mode> {
    let pins = Pins::existing(directory).ok()?;
    [Mode::Native, Mode::Generic].into_iter().find(|mode| pins.path(interface, mode.pin()).exists())
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

    const fn pin(self) -> Pin {
        match self {
            Self::Native => Pin::Native,
            Self::Generic => Pin::Generic,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Native => Self::Generic,
            Self::Generic => Self::Native,
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
    /// There is nowhere to pin to.
    #[error(
        "cannot keep the wire under `{path}`: {source}; \
         try `mount -t bpf none {path}`, or name another directory"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
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
    /// The interface does not take the program.
    #[error("cannot attach to `{interface}`: {source}")]
    Attach {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: ProgramError,
    },
}

impl WireError {
    fn attach(interface: &Interface, source: ProgramError) -> Self {
        let interface = interface.name().to_owned();
        match os_error(&source) {
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
    timeout: Duration,
    epoch: u64,
    stays: bool,
    /// Frames have been told to go straight across.
    passing: bool,
}

/// One port's wire.
struct Wire {
    mode: Option<Mode>,
    life: Life,
    bypassed: PerCpuArray<MapData, u64>,
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
        let pins = Pins::open(&config.directory)?;
        let mut laying = Laying::new(&pins, config.tc);
        for (port, peer) in [(ports[0], ports[1]), (ports[1], ports[0])] {
            let counts = pins.path(port, Pin::Bypassed);
            let mut object = Object::swallow(peer, Some(&counts))?;
            laying.attached(port, Pin::Tc, object.attach_tc(port, &pins, config.tc)?);
            // An XDP wire left by an earlier run would take the frames before the sockets see them.
            pins.forget(port, &[Pin::Native, Pin::Generic])?;
            laying.wires.push(Wire::new(object, None));
        }
        Ok(laying.finish(config))
    }

    /// Lays the wire beneath AF_XDP sockets: those of each port by their receive queue.
    pub(crate) fn beneath_xdp_sockets(
        config: &WireConfig,
        ports: [XdpPort<'_>; 2],
    ) -> Result<Self, WireError> {
        let pins = Pins::open(&config.directory)?;
        let mut laying = Laying::new(&pins, config.tc);
        for (port, peer) in [(&ports[0], &ports[1]), (&ports[1], &ports[0])] {
            laying.xdp(port, peer)?;
        }
        Ok(laying.finish(config))
    }

    /// Where the XDP program of each port runs; `None` beneath packet sockets.
    #[must_use]
    pub fn modes(&self) -> Vec<Option<Mode>> {
        self.wires.iter().map(|wire| wire.mode).collect()
    }

    /// Frames of each port that went straight across, earlier runs included.
    #[must_use]
    pub fn bypassed(&self) -> Vec<Bypassed> {
        self.wires.iter().map(|wire| count(&wire.bypassed)).collect()
    }

    /// Whether the wire stays when the process ends; not if its BPF file system is mounted where
    /// only this process sees it, as under `ip netns exec`.
    #[must_use]
    pub const fn outlives_the_process(&self) -> bool {
        self.stays
    }
}

impl Heartbeat for FailToWire {
    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    /// Costs a store for each port.
    fn beat(&mut self, now: Time) {
        let until = self.epoch.saturating_add((now + self.timeout).nanos());
        self.wires.iter().for_each(|wire| wire.life.until(until));
    }

    fn set_passing(&mut self, passing: bool) {
        self.passing = passing;
        if passing {
            self.wires.iter().for_each(|wire| wire.life.pass());
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

impl Wire {
    fn new(object: Object, mode: Option<Mode>) -> Self {
        let Object { life, bypassed, .. } = object;
        Self { mode, life, bypassed }
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
/// When a pin cannot be removed.
pub fn detach(directory: &Path, interface: &Interface) -> io::Result<bool> {
    Pins::existing(directory)?.remove_all(interface)
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

/// A wire half laid: what is new of it is taken away again unless it is finished.
struct Laying<'p> {
    pins: &'p Pins,
    tc: Tc,
    wires: Vec<Wire>,
    new: Vec<(Interface, Pin)>,
}

impl<'p> Laying<'p> {
    const fn new(pins: &'p Pins, tc: Tc) -> Self {
        Self { pins, tc, wires: Vec::new(), new: Vec::new() }
    }

    /// Puts an XDP program on `port` in the first mode that goes.
    fn xdp(&mut self, port: &XdpPort<'_>, peer: &XdpPort<'_>) -> Result<(), WireError> {
        for (n, mode) in (1..).zip(port.modes) {
            match self.xdp_in_mode(port, peer, *mode) {
                Err(error @ WireError::Attach { .. }) if n < port.modes.len() => {
                    tracing::warn!(%error, "no {} XDP program, trying another mode", mode.name());
                }
                Err(error) => return Err(error),
                Ok(object) => {
                    self.wires.push(Wire::new(object, Some(*mode)));
                    return Ok(());
                }
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
    ) -> Result<Object, WireError> {
        let (interface, pins) = (port.interface, self.pins);
        let mut object = Object::wire(&pins.path(interface, Pin::Bypassed))?;
        object.set_sockets(port.sockets.iter().copied())?;
        // What a generic program redirects, any driver sends. What it passes up, on the other hand,
        // may have lost its link-layer header for the tc program (seen on Linux 6.18).
        let by_itself = mode == Mode::Generic || peer.takes_redirected;
        if by_itself {
            object.set_peer(peer.interface)?;
        } else {
            let mut beneath = Object::swallow(peer.interface, None)?;
            self.attached(interface, Pin::Tc, beneath.attach_tc(interface, pins, self.tc)?);
        }
        pins.forget(interface, &[mode.other().pin()])?;
        self.attached(interface, mode.pin(), object.attach_xdp(interface, mode, pins)?);
        if by_itself {
            pins.forget(interface, &[Pin::Tc])?;
        }
        Ok(object)
    }

    fn attached(&mut self, interface: &Interface, pin: Pin, how: Attached) {
        if how == Attached::New {
            self.new.push((interface.clone(), pin));
        }
    }

    fn finish(mut self, config: &WireConfig) -> FailToWire {
        self.new.clear();
        let WireConfig { timeout, epoch, .. } = *config;
        let wires = std::mem::take(&mut self.wires);
        FailToWire { wires, timeout, epoch, stays: self.pins.stay(), passing: false }
    }
}

impl Drop for Laying<'_> {
    fn drop(&mut self) {
        for (interface, pin) in &self.new {
            // What stays is a program that passes frames straight across.
            let _ = self.pins.remove(interface, *pin);
        }
    }
}
