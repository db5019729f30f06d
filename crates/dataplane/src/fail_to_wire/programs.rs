//! The BPF programs of one port: loading, and putting them in the place of what is there.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use aya::maps::{DevMap, Map, MapData, PerCpuArray, XskMap};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::xdp::XdpLink;
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

use super::layout::Bypassed;
use super::life::Life;
use super::pins::{Pin, Pins};
use super::{Mode, Tc, WireError, filter, os_error};
use crate::interface::Interface;

static WIRE: &[u8] = include_bytes_aligned!("../../../../bpf/wire.bpf.o");
static SWALLOW: &[u8] = include_bytes_aligned!("../../../../bpf/swallow.bpf.o");

/// A loaded object with the maps both programs have.
pub(super) struct Object {
    object: Ebpf,
    program: &'static str,
    pub(super) life: Life,
    pub(super) bypassed: PerCpuArray<MapData, u64>,
}

impl Object {
    /// The XDP program. Its counts go on from those pinned at `counts`.
    pub(super) fn wire(counts: &Path) -> Result<Self, WireError> {
        forget_if_unlike(counts);
        let mut loader = EbpfLoader::new();
        loader.btf(None).map_pin_path("bypassed", counts);
        let mut object = loader.load(WIRE)?;
        program::<Xdp>(&mut object, "wire")?.load()?;
        Self::of(object, "wire")
    }

    /// The tc program that sends frames across to `peer`. Its counts go on from those pinned at
    /// `counts`, if anywhere.
    pub(super) fn swallow(peer: &Interface, counts: Option<&Path>) -> Result<Self, WireError> {
        let index = peer.index();
        let mut loader = EbpfLoader::new();
        loader.btf(None).override_global("peer", &index, true);
        if let Some(counts) = counts {
            forget_if_unlike(counts);
            loader.map_pin_path("bypassed", counts);
        }
        let mut object = loader.load(SWALLOW)?;
        program::<SchedClassifier>(&mut object, "swallow")?.load()?;
        Self::of(object, "swallow")
    }

    /// A program that is loaded holds the maps it uses; before that, whoever takes one holds it.
    fn of(mut object: Ebpf, program: &'static str) -> Result<Self, WireError> {
        let Some(Map::Array(life)) = object.take_map("life") else { return Err(WireError::Object) };
        let life = Life::of(&life).map_err(|source| WireError::Kernel { source: source.into() })?;
        let bypassed = PerCpuArray::try_from(take(&mut object, "bypassed")?)?;
        Ok(Self { object, program, life, bypassed })
    }

    /// Sends what arrives on receive queue `n` to the `n`-th of `sockets`.
    pub(super) fn set_sockets<'f>(
        &mut self,
        sockets: impl Iterator<Item = BorrowedFd<'f>>,
    ) -> Result<(), WireError> {
        let mut map = XskMap::try_from(take(&mut self.object, "sockets")?)?;
        for (queue, socket) in (0..).zip(sockets) {
            use std::os::fd::AsRawFd;
            map.set(queue, socket.as_raw_fd(), 0)?;
        }
        Ok(())
    }

    /// Lets the XDP program itself send frames across to `peer`.
    pub(super) fn set_peer(&mut self, peer: &Interface) -> Result<(), WireError> {
        let mut map = DevMap::try_from(take(&mut self.object, "peer")?)?;
        map.set(0, peer.index(), None, 0)
            .map_err(|source| WireError::Kernel { source: Box::new(source) })
    }

    /// Puts the XDP program on `interface`.
    pub(super) fn attach_xdp(
        &mut self,
        interface: &Interface,
        mode: Mode,
        pins: &Pins,
    ) -> Result<Attached, WireError> {
        let program = program::<Xdp>(&mut self.object, self.program)?;
        put(&mut InMode { program, mode }, interface, &pins.path(interface, mode.pin()))
    }

    /// Puts the tc program on `interface`, by a link unless that is not wanted or not possible.
    pub(super) fn attach_tc(
        &mut self,
        interface: &Interface,
        pins: &Pins,
        tc: Tc,
    ) -> Result<Attached, WireError> {
        let program = program::<SchedClassifier>(&mut self.object, self.program)?;
        if tc == Tc::Link {
            match put(program, interface, &pins.path(interface, Pin::Tc)) {
                // This kernel does not know such links.
                Err(WireError::Attach { source, .. })
                    if os_error(&source) == Some(libc::EINVAL) => {}
                attached => return attached,
            }
        }
        let failed = |error| WireError::attach(interface, error);
        let attached = filter::put(program, interface).map_err(failed)?;
        // A link left by an earlier run would come before the filter.
        pins.unpin(interface, Pin::Tc).map_err(|error| failed(error.into()))?;
        Ok(attached)
    }
}

/// How a program came to be where it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Attached {
    /// There was none of ours before.
    New,
    /// It took the place of ours, without a packet in between.
    Replaced,
}

/// A program that can be linked to an interface.
trait Program {
    fn attach(&mut self, interface: &Interface) -> Result<FdLink, ProgramError>;
    /// Takes the place of the program that `link` holds.
    fn replace(&mut self, link: FdLink) -> Result<(), ProgramError>;
}

struct InMode<'p> {
    program: &'p mut Xdp,
    mode: Mode,
}

impl Program for InMode<'_> {
    fn attach(&mut self, interface: &Interface) -> Result<FdLink, ProgramError> {
        let mode = match self.mode {
            Mode::Native => XdpMode::Driver,
            Mode::Generic => XdpMode::Skb,
        };
        let id = self.program.attach_to_if_index(interface.index(), mode)?;
        self.program.take_link(id)?.try_into().map_err(not_a_link)
    }

    fn replace(&mut self, link: FdLink) -> Result<(), ProgramError> {
        let id = self.program.attach_to_link(XdpLink::try_from(link).map_err(not_a_link)?)?;
        self.program.take_link(id).map(drop)
    }
}

impl Program for SchedClassifier {
    fn attach(&mut self, interface: &Interface) -> Result<FdLink, ProgramError> {
        let options = TcAttachOptions::TcxOrder(LinkOrder::default());
        let id = self.attach_with_options(interface.name(), TcAttachType::Ingress, options)?;
        self.take_link(id)?.try_into().map_err(not_a_link)
    }

    fn replace(&mut self, link: FdLink) -> Result<(), ProgramError> {
        let id = self.attach_to_link(SchedClassifierLink::try_from(link).map_err(not_a_link)?)?;
        self.take_link(id).map(drop)
    }
}

fn not_a_link(error: impl std::error::Error + Send + Sync + 'static) -> ProgramError {
    ProgramError::IOError(io::Error::other(error))
}

/// Puts `program` in the place of the one whose link is pinned at `path`, or on `interface`.
fn put(
    program: &mut impl Program,
    interface: &Interface,
    path: &Path,
) -> Result<Attached, WireError> {
    let failed = |error: ProgramError| WireError::attach(interface, error);
    if let Ok(link) = PinnedLink::from_pin(path) {
        match program.replace(link.into()) {
            Ok(()) => return Ok(Attached::Replaced),
            // The interface of the link is gone; its number went to another.
            Err(error) if os_error(&error) == Some(libc::ENOLINK) => {
                std::fs::remove_file(path).map_err(|e| failed(e.into()))?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    let link = program.attach(interface).map_err(failed)?;
    link.pin(path).map_err(|source| WireError::Kernel { source: Box::new(source) })?;
    Ok(Attached::New)
}

fn program<'p, P>(object: &'p mut Ebpf, name: &str) -> Result<&'p mut P, WireError>
where
    &'p mut P: TryFrom<&'p mut aya::programs::Program>,
{
    object.program_mut(name).and_then(|program| program.try_into().ok()).ok_or(WireError::Object)
}

fn take(object: &mut Ebpf, name: &str) -> Result<Map, WireError> {
    object.take_map(name).ok_or(WireError::Object)
}

/// Unpins counts of another shape, as another version of the programs may have left them.
fn forget_if_unlike(counts: &Path) {
    let alike = MapData::from_pin(counts)
        .and_then(|map| map.info())
        .is_ok_and(|info| info.value_size() == 8 && info.max_entries() == Bypassed::REASONS);
    if !alike {
        // If there was nothing there, or it stays, loading says so.
        let _ = std::fs::remove_file(counts);
    }
}

#[cfg(test)]
mod tests {
    use aya::{TestRun, TestRunOptions, TestRunResult};

    use super::super::count;
    use super::*;

    /// Verdicts of an XDP program.
    const PASS: u32 = 2;
    const REDIRECT: u32 = 4;
    /// Verdicts of a tc program.
    const TC_SHOT: u32 = 2;
    const TC_REDIRECT: u32 = 7;

    /// Until when the gateway counts as alive.
    const TOLD: u64 = 0;
    const LONG_AGO: u64 = 1;
    const STILL: u64 = u64::MAX;

    /// All of [`frames`] counted for one reason.
    const ALL_TOLD: Bypassed = Bypassed { told: 5, silent: 0, no_socket: 0 };
    const ALL_SILENT: Bypassed = Bypassed { told: 0, silent: 5, no_socket: 0 };
    const ALL_NO_SOCKET: Bypassed = Bypassed { told: 0, silent: 0, no_socket: 5 };

    /// Frames a wire carries, by what is special about them.
    fn frames() -> Vec<(&'static str, Vec<u8>)> {
        let frame = |kind: &[u8], len: usize| [&[0x02; 12], kind, &vec![7; len][..]].concat();
        vec![
            ("as short as can be", frame(&[0x88, 0xb5], 0)),
            ("IPv4", frame(&[8, 0, 0x45], 60)),
            ("IPv6", frame(&[0x86, 0xdd, 0x60], 100)),
            ("with a VLAN tag", frame(&[0x81, 0, 0, 100, 8, 0, 0x45], 60)),
            ("as long as the MTU", frame(&[0x88, 0xb5], 1_500)),
        ]
    }

    /// The object, or why there can be none here.
    fn load(code: &[u8], name: &'static str) -> Option<Object> {
        let mut loader = EbpfLoader::new();
        let loaded = loader.btf(None).load(code).map_err(WireError::from).and_then(|mut object| {
            match name {
                "wire" => program::<Xdp>(&mut object, name)?.load()?,
                _ => program::<SchedClassifier>(&mut object, name)?.load()?,
            }
            Object::of(object, name)
        });
        match loaded {
            Err(error @ WireError::NoPrivilege) => {
                eprintln!("skipped: {error}");
                None
            }
            loaded => Some(loaded.unwrap()),
        }
    }

    /// What the program says of `frame`, which it must leave as it is.
    fn verdict<P>(program: &P, frame: &[u8]) -> u32
    where
        P: for<'o> TestRun<Opts<'o> = TestRunOptions<'o>, Result = TestRunResult>,
    {
        let mut left = vec![0; 2_048];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut left),
            ..TestRunOptions::default()
        };
        let result = program.test_run(options).unwrap();
        let len = usize::try_from(result.data_size_out).unwrap();
        assert_eq!(left[..len], *frame);
        result.return_value
    }

    #[test]
    fn the_xdp_program_passes_frames_by_unless_the_gateway_lives_and_listens() {
        let cases = [
            (TOLD, false, PASS, ALL_TOLD),
            (LONG_AGO, false, PASS, ALL_SILENT),
            (STILL, false, PASS, ALL_NO_SOCKET),
            (TOLD, true, REDIRECT, ALL_TOLD),
            (LONG_AGO, true, REDIRECT, ALL_SILENT),
            (STILL, true, REDIRECT, ALL_NO_SOCKET),
        ];
        for (alive_until, by_itself, expected, counted) in cases {
            let Some(mut object) = load(WIRE, "wire") else { return };
            object.life.until(alive_until);
            if by_itself {
                object.set_peer(&Interface::find("lo").unwrap()).unwrap();
            }
            let program = program::<Xdp>(&mut object.object, "wire").unwrap();
            for (name, frame) in frames() {
                assert_eq!(verdict(program, &frame), expected, "{name}, {alive_until}");
            }
            assert_eq!(count(&object.bypassed), counted, "{alive_until}");
        }
    }

    #[test]
    fn the_tc_program_swallows_frames_only_while_the_gateway_lives() {
        let cases = [
            (TOLD, TC_REDIRECT, ALL_TOLD),
            (LONG_AGO, TC_REDIRECT, ALL_SILENT),
            (STILL, TC_SHOT, Bypassed::default()),
        ];
        for (alive_until, expected, counted) in cases {
            let Some(mut object) = load(SWALLOW, "swallow") else { return };
            object.life.until(alive_until);
            let program = program::<SchedClassifier>(&mut object.object, "swallow").unwrap();
            for (name, frame) in frames() {
                assert_eq!(verdict(program, &frame), expected, "{name}, {alive_until}");
            }
            assert_eq!(count(&object.bypassed), counted, "{alive_until}");
        }
    }
}
