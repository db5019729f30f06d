//! Commands of `bpf(2)` that the loader library lacks: find, attach and detach programs.
//!
//! Source: Linux `include/uapi/linux/bpf.h`: `union bpf_attr`, `bpf_prog_info`, `bpf_link_info`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use aya::maps::MapData;

use crate::interface::check;

/// A program in the kernel. The descriptor keeps the program and its maps loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) id: u32,
    pub(super) name: String,
    /// Ids of its maps. A map is opened only when it is needed, because an open descriptor of the
    /// program array would prevent the kernel from emptying the array.
    maps: Vec<u32>,
    fd: OwnedFd,
}

impl Loaded {
    /// The program with this id.
    pub(super) fn find(id: u32) -> io::Result<Self> {
        let fd = by_id(PROG_GET_FD_BY_ID, id)?;
        let mut ids = [0_u32; 16];
        let mut info = ProgramInfo { nr_map_ids: 16, ..ProgramInfo::default() };
        info.map_ids = address(ids.as_mut_ptr());
        describe(fd.as_fd(), &mut info)?;
        let maps = ids.into_iter().take(usize::try_from(info.nr_map_ids).unwrap_or(0)).collect();
        let name = info.name.iter().take_while(|byte| **byte != 0).copied().collect();
        Ok(Self { id, name: String::from_utf8(name).unwrap_or_default(), maps, fd })
    }

    /// The map of the program with this `name`.
    pub(super) fn map(&self, name: &str) -> Option<MapData> {
        let maps = self.maps.iter().filter_map(|id| MapData::from_id(*id).ok());
        maps.into_iter().find(|map| map.info().is_ok_and(|info| info.name() == name.as_bytes()))
    }
}

impl AsFd for Loaded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// True if the program array `map` has a program at index 0.
pub(super) fn is_filled(map: &MapData) -> bool {
    let (key, mut program) = (0_u32, 0_u32);
    let mut request = Element {
        map_fd: descriptor(map.fd().as_fd()),
        key: address(ptr::from_ref(&key).cast_mut()),
        value: address(&raw mut program),
        ..Element::default()
    };
    // SAFETY: the kernel reads the four bytes of `key` and writes the four of `program`.
    unsafe { call(MAP_LOOKUP_ELEM, &mut request) }.is_ok()
}

/// A program attached at the ingress of an interface, and its BPF link, if it has a link. Both are
/// ids.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) program: u32,
    pub(super) link: Option<u32>,
}

/// The TCX programs at the ingress of interface `index`, in execution order.
///
/// # Errors
///
/// `EINVAL` before Linux 6.6, which has no TCX.
pub(super) fn tcx(index: u32) -> io::Result<Vec<Place>> {
    let (mut programs, mut links) = ([0_u32; MOST_PROGRAMS], [0_u32; MOST_PROGRAMS]);
    let mut query = Query {
        target: index,
        attach_type: TCX_INGRESS,
        programs: address(programs.as_mut_ptr()),
        count: u32::try_from(MOST_PROGRAMS).unwrap_or(0),
        links: address(links.as_mut_ptr()),
        ..Query::default()
    };
    // SAFETY: both arrays hold `count` numbers, the most that the kernel writes.
    unsafe { call(PROG_QUERY, &mut query) }?;
    let count = usize::try_from(query.count).unwrap_or(0);
    let place = |(program, link): (&u32, &u32)| Place {
        program: *program,
        link: (*link != 0).then_some(*link),
    };
    Ok(programs.iter().zip(&links).take(count).map(place).collect())
}

/// Attaches `program` as the first TCX program at the ingress of interface `index`.
pub(super) fn attach_tcx(index: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    tcx_request(PROG_ATTACH, index, program, BEFORE)
}

/// Detaches the TCX program `program` from the ingress of interface `index`.
pub(super) fn detach_tcx(index: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    tcx_request(PROG_DETACH, index, program, 0)
}

fn tcx_request(command: i64, index: u32, program: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    let (attach_type, program) = (TCX_INGRESS, descriptor(program));
    let mut request = Attach { target: index, program, attach_type, flags, ..Attach::default() };
    // SAFETY: the request holds no pointers.
    unsafe { call(command, &mut request) }.map(drop)
}

/// The id of the BPF link that attaches the XDP program `program`, if there is one.
pub(super) fn xdp_link(program: u32) -> Option<u32> {
    let mut last = ById::default();
    loop {
        let mut next = ById { id: last.next, ..ById::default() };
        // SAFETY: the request holds no pointers.
        unsafe { call(LINK_GET_NEXT_ID, &mut next) }.ok()?;
        let mut info = LinkInfo::default();
        // A link may have been destroyed since its id was read. The search then continues.
        let found =
            by_id(LINK_GET_FD_BY_ID, next.next).and_then(|link| describe(link.as_fd(), &mut info));
        if found.is_ok() && info.kind == LINK_XDP && info.program == program {
            return Some(next.next);
        }
        last = next;
    }
}

/// Detaches the program of the link `id`, even if the link is pinned.
pub(super) fn detach_link(id: u32) -> io::Result<()> {
    let link = by_id(LINK_GET_FD_BY_ID, id)?;
    let mut request = [descriptor(link.as_fd())];
    // SAFETY: the request holds no pointers.
    unsafe { call(LINK_DETACH, &mut request) }.map(drop)
}

/// Maximum number of TCX programs on an interface. Source: Linux `BPF_MPROG_MAX`.
const MOST_PROGRAMS: usize = 64;

const MAP_LOOKUP_ELEM: i64 = 1;
const PROG_ATTACH: i64 = 8;
const PROG_DETACH: i64 = 9;
const PROG_GET_FD_BY_ID: i64 = 13;
const OBJ_GET_INFO_BY_FD: i64 = 15;
const PROG_QUERY: i64 = 16;
const LINK_GET_FD_BY_ID: i64 = 30;
const LINK_GET_NEXT_ID: i64 = 31;
const LINK_DETACH: i64 = 34;

/// `BPF_TCX_INGRESS`.
const TCX_INGRESS: u32 = 46;
/// `BPF_LINK_TYPE_XDP`.
const LINK_XDP: u32 = 6;
/// `BPF_F_BEFORE`: attach before the given program, or before all other programs if none is given.
const BEFORE: u32 = 1 << 3;

#[repr(C)]
#[derive(Default)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Attach {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
    replace: u32,
    relative: u32,
    revision: u64,
}

#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    padding: u32,
    program_flags: u64,
    links: u64,
    link_flags: u64,
    revision: u64,
}

#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Describe {
    fd: u32,
    len: u32,
    info: u64,
}

/// The leading fields of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    lengths: [u32; 2],
    instructions: [u64; 2],
    load_time: u64,
    created_by: u32,
    nr_map_ids: u32,
    map_ids: u64,
    name: [u8; 16],
}

/// The leading fields of `struct bpf_link_info`.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
}

/// Opens a descriptor of the program or link `id`.
fn by_id(command: i64, id: u32) -> io::Result<OwnedFd> {
    let mut request = ById { id, ..ById::default() };
    // SAFETY: the request holds no pointers.
    let fd = unsafe { call(command, &mut request) }?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Fills `info` with the leading fields of the kernel's description of the object `fd`.
fn describe<T>(fd: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let len = u32::try_from(size_of::<T>()).unwrap_or(0);
    let mut request = Describe { fd: descriptor(fd), len, info: address(ptr::from_mut(info)) };
    // SAFETY: the kernel writes at most `len` bytes to `info`, whose fields are plain numbers.
    unsafe { call(OBJ_GET_INFO_BY_FD, &mut request) }.map(drop)
}

/// Issues one `bpf(2)` command.
///
/// # Safety
///
/// Every pointer in `request` must be valid for the accesses of the command.
unsafe fn call<T>(command: i64, request: &mut T) -> io::Result<i32> {
    let len = size_of::<T>();
    // SAFETY: `request` is `len` bytes of a `union bpf_attr`; the caller guarantees its pointers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(request), len) };
    check(i32::try_from(result).unwrap_or(-1))
}

fn descriptor(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

#[expect(clippy::as_conversions, reason = "the kernel takes addresses as numbers of 64 bits")]
fn address<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}
