//! The programs that are attached at the ingress of an interface, in the order in which they run.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use aya::maps::{Map, PerCpuArray};

use super::kernel::{self, Loaded};
use super::layout::Bypassed;
use super::life::Life;
use super::{Mode, count, filter, former, xdp};
use crate::interface::Interface;

/// The names of our programs. By them we know programs that an earlier process left.
pub(super) const XDP: &str = "tidegate_xdp";
pub(super) const TC: &str = "tidegate_tc";

/// Everything at the ingress of an interface.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) interface: Interface,
    /// In the order in which a frame meets them.
    pub(super) found: Vec<Found>,
}

/// One attached program.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) program: Loaded,
    pub(super) at: At,
    /// The link that holds it there, if one does.
    pub(super) link: Option<u32>,
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum At {
    Xdp(Mode),
    Tcx,
    /// By a filter of the `clsact` discipline, with its priority and handle.
    Filter(u16, u32),
}

impl Survey {
    /// The programs on `interface`.
    ///
    /// # Errors
    ///
    /// If the interface is gone, or the process may not look.
    pub(super) fn of(interface: &Interface) -> io::Result<Self> {
        let mut found = Vec::new();
        let mut add = |id, at, link| -> io::Result<()> {
            match Loaded::find(id) {
                // It was detached in between.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                loaded => found.push(Found { program: loaded?, at, link }),
            }
            Ok(())
        };
        for (mode, id) in xdp::attached(interface)? {
            add(id, At::Xdp(mode), kernel::xdp_link(id))?;
        }
        match kernel::tcx(interface.index()) {
            // A kernel without TCX, or nothing has been attached yet.
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

    /// Our programs.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().filter(|found| found.is_ours())
    }

    /// The program of a gateway that lives.
    pub(super) fn alive(&self) -> Option<&Found> {
        self.ours().find(|found| found.is_alive())
    }

    /// The XDP program, whoever's.
    pub(super) fn xdp(&self) -> Option<&Found> {
        self.found.iter().find(|found| matches!(found.at, At::Xdp(_)))
    }

    /// Counts of frames that went straight across by our programs. Beneath an XDP program the tc
    /// program sees the same frames once more, so the first program counts.
    pub(super) fn bypassed(&self) -> Bypassed {
        self.ours().next().map_or_else(Bypassed::default, |found| found.bypassed())
    }

    /// Detaches those of our programs that `chosen` names.
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

    /// Whether it is the program of a gateway that lives; of one of an earlier version that is not
    /// known.
    pub(super) fn is_alive(&self) -> bool {
        let array = self.program.map("gateway");
        array.is_some_and(|map| kernel::is_filled(&map))
    }

    fn bypassed(&self) -> Bypassed {
        let counts = self.program.map("bypassed").filter(|map| {
            map.info()
                .is_ok_and(|info| info.value_size() == 8 && info.max_entries() == Bypassed::REASONS)
        });
        let counts = counts.and_then(|map| PerCpuArray::try_from(Map::PerCpuArray(map)).ok());
        let counts = counts.map_or_else(Bypassed::default, |map| count(&map));
        let life = self.program.map("life").filter(|map| {
            map.info().is_ok_and(|info| usize::try_from(info.value_size()) == Ok(Life::BYTES))
        });
        let carried = life.and_then(|map| Life::of(&map).ok()).map(|life| life.carried());
        counts.and(carried.unwrap_or_default())
    }

    /// Takes it off `interface`. A link is detached, wherever it is pinned.
    pub(super) fn detach(&self, interface: &Interface) -> io::Result<()> {
        let done = match (self.link, self.at) {
            (Some(link), _) => kernel::detach_link(link),
            (None, At::Xdp(mode)) => xdp::detach(interface, mode, self.program.as_fd()),
            (None, At::Tcx) => kernel::detach_tcx(interface.index(), self.program.as_fd()),
            (None, At::Filter(priority, handle)) => filter::remove(interface, priority, handle),
        };
        match done {
            // Somebody else took it off in between.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            done => done,
        }
    }
}

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
