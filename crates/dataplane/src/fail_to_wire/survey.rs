//! Lists the BPF programs attached to the ingress of an interface, in execution order.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use aya::maps::{Map, MapData, PerCpuArray};
use tidegate_core::Count;
use tidegate_gateway::report::Bypassed;

use super::kernel::{self, Loaded};
use super::layout::{REASONS, count_of};
use super::life::Life;
use super::{Mode, count, filter, former, xdp};
use crate::interface::Interface;

/// Names of our programs, by which programs of earlier processes are found.
pub(super) const XDP: &str = "tidegate_xdp";
pub(super) const TC: &str = "tidegate_tc";

/// All programs at the ingress of an interface.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) interface: Interface,
    /// The programs in execution order.
    pub(super) found: Vec<Found>,
}

/// One attached program.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) program: Loaded,
    pub(super) at: At,
    /// The id of the BPF link that attaches the program, if any.
    pub(super) link: Option<u32>,
}

/// The attachment point of a program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum At {
    Xdp(Mode),
    Tcx,
    /// A filter of the `clsact` qdisc: priority and handle.
    Filter(u16, u32),
}

impl Survey {
    /// Lists the programs on `interface`.
    ///
    /// # Errors
    ///
    /// If the interface does not exist, or the process may not list programs.
    pub(super) fn of(interface: &Interface) -> io::Result<Self> {
        let mut found = Vec::new();
        let mut add = |id, at, link| -> io::Result<()> {
            match Loaded::find(id) {
                // The program was detached after its id was read.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                loaded => found.push(Found { program: loaded?, at, link }),
            }
            Ok(())
        };
        for (mode, id) in xdp::attached(interface)? {
            add(id, At::Xdp(mode), kernel::xdp_link(id))?;
        }
        match kernel::tcx(interface.index()) {
            // The kernel lacks TCX, or no TCX program was ever attached.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {}
            places => {
                places?.into_iter().try_for_each(|it| add(it.program, At::Tcx, it.link))?;
            }
        }
        for it in filter::all(interface)? {
            add(it.program, At::Filter(it.priority, it.handle), None)?;
        }
        Ok(Self { interface: interface.clone(), found })
    }

    /// The programs of this or another Tidegate process.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().filter(|found| found.is_ours())
    }

    /// A Tidegate program whose gateway is running.
    pub(super) fn alive(&self) -> Option<&Found> {
        self.ours().find(|found| found.is_alive())
    }

    /// The attached XDP program, whether it is Tidegate's or not.
    pub(super) fn xdp(&self) -> Option<&Found> {
        self.found.iter().find(|found| matches!(found.at, At::Xdp(_)))
    }

    /// The bypass counts of our first program. If both our XDP program and our tc program are
    /// attached, the tc program runs later and would count the same frames again.
    pub(super) fn bypassed(&self) -> Bypassed {
        self.ours().next().map_or_else(Bypassed::default, |found| found.bypassed())
    }

    /// Detaches the Tidegate programs that `chosen` selects. Returns `true` if there were any.
    pub(super) fn detach(&self, chosen: impl Fn(&Found) -> bool) -> io::Result<bool> {
        let mut any = false;
        for found in self.ours().filter(|found| chosen(found)) {
            found.detach(&self.interface)?;
            any = true;
        }
        Ok(any)
    }
}

impl Found {
    pub(super) fn is_ours(&self) -> bool {
        [XDP, TC].contains(&self.program.name.as_str()) || former::is_ours(&self.program)
    }

    /// True if the gateway of this program is running. Programs of earlier versions have no program
    /// array, so the result is always `false` for them.
    pub(super) fn is_alive(&self) -> bool {
        let array = self.program.map("gateway");
        array.is_some_and(|map| kernel::is_filled(&map))
    }

    fn bypassed(&self) -> Bypassed {
        let mut counts = self.program.map("bypassed").and_then(counts).unwrap_or_default();
        let carried = self.program.map("life").and_then(|map| carried(&map));
        counts += carried.unwrap_or_default();
        counts
    }

    /// Detaches the program from `interface`. If it has a link, detaches the link, even if the link
    /// is pinned.
    pub(super) fn detach(&self, interface: &Interface) -> io::Result<()> {
        let done = match (self.link, self.at) {
            (Some(link), _) => kernel::detach_link(link),
            (None, At::Xdp(mode)) => xdp::detach(interface, mode, self.program.as_fd()),
            (None, At::Tcx) => kernel::detach_tcx(interface.index(), self.program.as_fd()),
            (None, At::Filter(priority, handle)) => filter::remove(interface, priority, handle),
        };
        match done {
            // Another process has already detached the program.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            done => done,
        }
    }
}

/// The counts that a program inherited from the programs it replaced, as its map `life` stores
/// them. The program may be of this or an earlier version.
fn carried(life: &MapData) -> Option<Bypassed> {
    let size = usize::try_from(life.info().ok()?.value_size()).ok()?;
    Life::carried_in(life.fd().as_fd(), size)?.ok()
}

/// The counts in the map `bypassed` of a program. Earlier versions counted frames but not bytes,
/// for the first [`FORMER_REASONS`] reasons.
fn counts(map: MapData) -> Option<Bypassed> {
    let info = map.info().ok()?;
    let shape = (info.value_size(), info.max_entries());
    let map = Map::PerCpuArray(map);
    match shape {
        (16, REASONS) => Some(count(&PerCpuArray::try_from(map).ok()?)),
        (8, FORMER_REASONS) => {
            let former: PerCpuArray<MapData, u64> = PerCpuArray::try_from(map).ok()?;
            let mut counts = Bypassed::default();
            for reason in 0..FORMER_REASONS {
                let packets = former.get(&reason, 0).ok()?.iter().sum();
                *count_of(&mut counts, reason)? = Count { packets, bytes: 0 };
            }
            Some(counts)
        }
        _ => None,
    }
}

/// Number of bypass reasons that earlier versions counted.
const FORMER_REASONS: u32 = 3;

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.at {
            At::Xdp(_) => "XDP",
            At::Tcx => "TCX",
            At::Filter(..) => "tc",
        };
        write!(f, "the {place} program `{}` (id {})", self.program.name, self.program.id)
    }
}
