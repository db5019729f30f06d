//! Loads the BPF programs of one port, and attaches them. The program array among their maps
//! decides whether frames go to the gateway or bypass it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::maps::{DevMap, Map, MapData, PerCpuArray, ProgramArray, XskMap};
use aya::programs::{ProgramFd, SchedClassifier, Xdp};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use tidegate_gateway::report::Bypassed;

use super::life::Life;
use super::survey::{At, Found, Survey, TC, XDP};
use super::{Mode, Tc, WireError, count, filter, kernel, os_error, xdp};
use crate::interface::Interface;

static WIRE: &[u8] = include_bytes_aligned!("../../../../bpf/wire.bpf.o");
static SWALLOW: &[u8] = include_bytes_aligned!("../../../../bpf/swallow.bpf.o");

/// Programs for index 0 of the program array. `TAKE` hands a frame to the gateway's AF_XDP socket.
/// `DROP` drops the frame, because the gateway's packet socket has a copy.
const TAKE: &str = "tidegate_take";
const DROP: &str = "tidegate_drop";

/// A loaded BPF object of one port: either the one with the XDP programs or the one with the tc
/// programs. Each has the maps `life`, `bypassed` and `gateway`.
pub(super) struct Object {
    object: Ebpf,
    counters: Counters,
    array: Array,
}

/// A program array. Its entry is the program that hands frames to the gateway. When the last
/// descriptor closes, the kernel empties the array, and frames bypass the gateway.
pub(super) struct Array(MapData);

impl AsFd for Array {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd().as_fd()
    }
}

/// The maps of a port that the gateway reads and writes while it runs.
pub(super) struct Counters {
    pub(super) life: Life,
    bypassed: PerCpuArray<MapData, [u64; 2]>,
}

impl Counters {
    /// Frames that bypassed this gateway or an earlier gateway.
    pub(super) fn bypassed(&self) -> Bypassed {
        let mut bypassed = count(&self.bypassed);
        bypassed += self.life.carried();
        bypassed
    }
}

impl Object {
    /// Loads the XDP programs.
    pub(super) fn wire() -> Result<Self, WireError> {
        let mut object = EbpfLoader::new().btf(None).load(WIRE)?;
        program::<Xdp>(&mut object, XDP)?.load()?;
        let take = program::<Xdp>(&mut object, TAKE)?;
        take.load()?;
        let take = take.fd()?.try_clone().map_err(WireError::kernel)?;
        Self::of(object, &take)
    }

    /// Loads the tc programs, which redirect bypassed frames to `peer`.
    pub(super) fn swallow(peer: &Interface) -> Result<Self, WireError> {
        let index = peer.index();
        let mut loader = EbpfLoader::new();
        let mut object = loader.btf(None).override_global("peer", &index, true).load(SWALLOW)?;
        program::<SchedClassifier>(&mut object, TC)?.load()?;
        let drop = program::<SchedClassifier>(&mut object, DROP)?;
        drop.load()?;
        let drop = drop.fd()?.try_clone().map_err(WireError::kernel)?;
        Self::of(object, &drop)
    }

    /// Takes the maps out of `object`, and puts the program `handles` into the program array.
    fn of(mut object: Ebpf, handles: &ProgramFd) -> Result<Self, WireError> {
        let Some(Map::Array(life)) = object.take_map("life") else { return Err(WireError::Object) };
        let life = Life::of(&life).map_err(WireError::kernel)?;
        let bypassed = PerCpuArray::try_from(take(&mut object, "bypassed")?)?;
        let mut gateway = take(&mut object, "gateway")?;
        ProgramArray::try_from(&mut gateway)?.set(0, handles, 0)?;
        let Map::ProgramArray(array) = gateway else { return Err(WireError::Object) };
        let counters = Counters { life, bypassed };
        Ok(Self { object, counters, array: Array(array) })
    }

    /// The maps that the gateway needs after the attachment. The attached programs stay attached.
    pub(super) fn into_parts(self) -> (Counters, Array) {
        (self.counters, self.array)
    }

    /// Assigns the `n`-th of `sockets` to receive queue `n`.
    pub(super) fn set_sockets<'f>(
        &mut self,
        sockets: impl Iterator<Item = BorrowedFd<'f>>,
    ) -> Result<(), WireError> {
        let mut map = XskMap::try_from(take(&mut self.object, "sockets")?)?;
        for (queue, socket) in (0..).zip(sockets) {
            map.set(queue, socket.as_raw_fd(), 0)?;
        }
        Ok(())
    }

    /// Lets the XDP program itself redirect bypassed frames to `peer`.
    pub(super) fn set_peer(&mut self, peer: &Interface) -> Result<(), WireError> {
        let mut map = DevMap::try_from(take(&mut self.object, "peer")?)?;
        map.set(0, peer.index(), None, 0)
            .map_err(|source| WireError::Kernel { source: Box::new(source) })
    }

    /// Attaches the XDP program in place of `replaced`. If `replaced` is `None`, the call fails if
    /// another program is attached. Returns the id of the program.
    pub(super) fn attach_xdp(
        &mut self,
        interface: &Interface,
        mode: Mode,
        replaced: Option<&Found>,
    ) -> Result<u32, WireError> {
        let program = program::<Xdp>(&mut self.object, XDP)?;
        let replaced = replaced.map(|found| found.program.as_fd());
        let attached = xdp::attach(interface, mode, program.fd()?.as_fd(), replaced);
        attached.map_err(|source| WireError::attach(interface, source))?;
        Ok(program.info()?.id())
    }

    /// Attaches the tc program to the ingress of `interface`, before all other TCX programs.
    /// Attaches the program as a filter if `tc` requests a filter, or if the kernel lacks TCX.
    /// Returns the id of the program.
    pub(super) fn attach_tc(&mut self, interface: &Interface, tc: Tc) -> Result<u32, WireError> {
        let program = program::<SchedClassifier>(&mut self.object, TC)?;
        let id = program.info()?.id();
        let failed = |source| WireError::attach(interface, source);
        if tc == Tc::Tcx {
            match kernel::attach_tcx(interface.index(), program.fd()?.as_fd()) {
                // This kernel has no TCX.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                attached => return attached.map(|()| id).map_err(failed),
            }
        }
        let as_io = |error| {
            os_error(&error).map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error)
        };
        filter::put(program, interface).map_err(|error| failed(as_io(error)))?;
        Ok(id)
    }
}

/// How a new XDP program replaces the attached program.
pub(super) enum GivesWay<'s> {
    /// No XDP program is attached.
    None,
    /// The new program replaces this program atomically.
    Replaced(&'s Found),
    /// This program is detached first. An atomic replacement is impossible, because this program
    /// runs in the other mode or is attached by a BPF link.
    Detached(&'s Found),
}

impl<'s> GivesWay<'s> {
    /// Decides how a new program in `mode` is attached. `survey` lists the programs on the
    /// interface.
    ///
    /// # Errors
    ///
    /// If the attached XDP program is foreign (not Tidegate's).
    pub(super) fn of(survey: &'s Survey, mode: Mode) -> Result<Self, WireError> {
        let Some(found) = survey.xdp() else { return Ok(Self::None) };
        if !found.is_ours() {
            let interface = survey.interface.name().to_owned();
            return Err(WireError::Occupied { interface });
        }
        let in_place = found.at == At::Xdp(mode) && found.link.is_none();
        Ok(if in_place { Self::Replaced(found) } else { Self::Detached(found) })
    }
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

#[cfg(test)]
mod tests {
    use aya::{TestRun, TestRunOptions, TestRunResult};
    use tidegate_core::Count;

    use super::*;

    /// Verdicts of an XDP program.
    const PASS: u32 = 2;
    const REDIRECT: u32 = 4;
    /// Verdicts of a tc program.
    const TC_SHOT: u32 = 2;
    const TC_REDIRECT: u32 = 7;

    /// Values of the gateway's deadline: bypass was requested; bypass was requested because there
    /// is nothing to manage; a time in the past; a time far in the future.
    const REQUESTED: u64 = 0;
    const IDLE: u64 = 1;
    const LONG_AGO: u64 = 2;
    const STILL: u64 = u64::MAX;

    /// Counts of one reason: before any frame was bypassed, and after all [`frames`] were bypassed.
    const NONE: Count = Count { packets: 0, bytes: 0 };
    const ALL: Count = Count { packets: 5, bytes: 14 + 75 + 115 + 79 + 1_514 };
    const NOTHING: Bypassed =
        Bypassed { requested: NONE, silent: NONE, no_socket: NONE, idle: NONE };
    const ALL_REQUESTED: Bypassed = Bypassed { requested: ALL, ..NOTHING };
    const ALL_IDLE: Bypassed = Bypassed { idle: ALL, ..NOTHING };
    const ALL_SILENT: Bypassed = Bypassed { silent: ALL, ..NOTHING };
    const ALL_NO_SOCKET: Bypassed = Bypassed { no_socket: ALL, ..NOTHING };

    /// Test frames with their names.
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

    /// The loaded object; `None` without the privilege to load it.
    fn loaded(object: Result<Object, WireError>) -> Option<Object> {
        match object {
            Err(error @ WireError::NoPrivilege) => {
                eprintln!("skipped: {error}");
                None
            }
            loaded => Some(loaded.unwrap()),
        }
    }

    fn lo() -> Interface {
        Interface::find("lo").unwrap()
    }

    /// Asserts the verdict `expected` for all [`frames`].
    fn verdicts<P>(program: &P, expected: u32, case: &str)
    where
        P: for<'o> TestRun<Opts<'o> = TestRunOptions<'o>, Result = TestRunResult>,
    {
        for (name, frame) in frames() {
            assert_eq!(verdict(program, &frame), expected, "{name}, {case}");
        }
    }

    /// The verdict of the program on `frame`. Asserts that the program does not modify the frame.
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

    /// Catches: a frame counted under the wrong reason; bytes not counted.
    #[test]
    fn the_xdp_program_bypasses_the_gateway_unless_it_is_alive_and_has_a_socket() {
        let cases = [
            (REQUESTED, false, PASS, ALL_REQUESTED),
            (LONG_AGO, false, PASS, ALL_SILENT),
            (STILL, false, PASS, ALL_NO_SOCKET),
            (REQUESTED, true, REDIRECT, ALL_REQUESTED),
            (IDLE, true, REDIRECT, ALL_IDLE),
            (LONG_AGO, true, REDIRECT, ALL_SILENT),
            (STILL, true, REDIRECT, ALL_NO_SOCKET),
        ];
        for (alive_until, by_itself, expected, counted) in cases {
            let Some(mut object) = loaded(Object::wire()) else { return };
            object.counters.life.until(alive_until);
            if by_itself {
                object.set_peer(&lo()).unwrap();
            }
            let program = program::<Xdp>(&mut object.object, XDP).unwrap();
            verdicts(program, expected, &format!("{alive_until}"));
            assert_eq!(object.counters.bypassed(), counted, "{alive_until}");
        }
    }

    #[test]
    fn the_tc_program_drops_frames_only_while_the_gateway_is_alive() {
        let cases = [
            (REQUESTED, TC_REDIRECT, ALL_REQUESTED),
            (IDLE, TC_REDIRECT, ALL_IDLE),
            (LONG_AGO, TC_REDIRECT, ALL_SILENT),
            (STILL, TC_SHOT, Bypassed::default()),
        ];
        for (alive_until, expected, counted) in cases {
            let Some(mut object) = loaded(Object::swallow(&lo())) else { return };
            object.counters.life.until(alive_until);
            let program = program::<SchedClassifier>(&mut object.object, TC).unwrap();
            verdicts(program, expected, &format!("{alive_until}"));
            assert_eq!(object.counters.bypassed(), counted, "{alive_until}");
        }
    }

    /// The deadline is centuries in the future, so only the closed descriptor can cause the bypass.
    ///
    /// Catches: a program that decides by the deadline alone.
    #[test]
    fn frames_bypass_the_gateway_as_soon_as_its_last_descriptor_closes() {
        let Some(mut object) = loaded(Object::swallow(&lo())) else { return };
        object.counters.life.until(STILL);
        let tc = program::<SchedClassifier>(&mut object.object, TC).unwrap();
        verdicts(tc, TC_SHOT, "alive");
        let Object { mut object, counters, array } = object;
        drop(array);
        let tc = program::<SchedClassifier>(&mut object, TC).unwrap();
        let (_, frame) = frames().swap_remove(0);
        // The kernel empties the array asynchronously, in a worker.
        for _ in 0..1_000 {
            if verdict(tc, &frame) == TC_REDIRECT {
                return assert_eq!(counters.bypassed().no_socket.packets, 1);
            }
            #[expect(clippy::disallowed_methods, reason = "the kernel takes its own time")]
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("frames are still dropped");
    }

    #[test]
    fn counts_of_an_earlier_program_are_added() {
        let Some(object) = loaded(Object::swallow(&lo())) else { return };
        let [requested, silent, no_socket, idle] = [(1, 60), (2, 120), (3, 180), (4, 240)]
            .map(|(packets, bytes)| Count { packets, bytes });
        let carried = Bypassed { requested, silent, no_socket, idle };
        object.counters.life.carry(carried);
        object.counters.life.until(STILL);
        assert_eq!(object.counters.bypassed(), carried);
    }
}
