//! Attaches XDP programs over netlink. A program attached in this way belongs to its interface and
//! outlives the process.
//!
//! Source: Linux `include/uapi/linux/if_link.h`, `IFLA_XDP_*` and `XDP_FLAGS_*`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::Mode;
use crate::interface::Interface;
use crate::netlink::{self, Request, find, number};

/// The ids of the XDP programs on `interface`, each with its mode.
pub(super) fn attached(interface: &Interface) -> io::Result<Vec<(Mode, u32)>> {
    let request = Request::new(libc::RTM_GETLINK, 0, &about(interface));
    let answer = request.send(libc::NETLINK_ROUTE)?.pop().unwrap_or_default();
    let attributes = answer.get(ABOUT..).unwrap_or(&[]);
    let xdp = find(attributes, IFLA_XDP).unwrap_or(&[]);
    let program = |kind| find(xdp, kind).and_then(number).filter(|id| *id != 0);
    let modes = [
        // A program that runs in the hardware counts as native. No interface has both kinds.
        (Mode::Native, IFLA_XDP_HW_PROG_ID),
        (Mode::Native, IFLA_XDP_DRV_PROG_ID),
        (Mode::Generic, IFLA_XDP_SKB_PROG_ID),
    ];
    Ok(modes.into_iter().filter_map(|(mode, kind)| Some((mode, program(kind)?))).collect())
}

/// Attaches `program`. If `replaced` is given, `program` replaces it atomically. Otherwise the
/// interface must not have a program in this mode.
///
/// # Errors
///
/// `EBUSY` or `EEXIST` if another program is attached, or a link attaches `replaced`.
pub(super) fn attach(
    interface: &Interface,
    mode: Mode,
    program: BorrowedFd<'_>,
    replaced: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    set(interface, mode, program.as_raw_fd(), replaced)
}

/// Detaches `program`.
pub(super) fn detach(interface: &Interface, mode: Mode, program: BorrowedFd<'_>) -> io::Result<()> {
    set(interface, mode, NO_PROGRAM, Some(program))
}

fn set(
    interface: &Interface,
    mode: Mode,
    program: i32,
    expected: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mode = match mode {
        Mode::Native => XDP_FLAGS_DRV_MODE,
        Mode::Generic => XDP_FLAGS_SKB_MODE,
    };
    let how = if expected.is_some() { XDP_FLAGS_REPLACE } else { XDP_FLAGS_UPDATE_IF_NOEXIST };
    let mut xdp = netlink::attribute(IFLA_XDP_FD, &program.to_ne_bytes());
    xdp.extend(netlink::attribute(IFLA_XDP_FLAGS, &(mode | how).to_ne_bytes()));
    if let Some(expected) = expected {
        let fd = expected.as_raw_fd().to_ne_bytes();
        xdp.extend(netlink::attribute(IFLA_XDP_EXPECTED_FD, &fd));
    }
    let request = Request::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &about(interface));
    request.with(NESTED | IFLA_XDP, &xdp).send(libc::NETLINK_ROUTE).map(drop)
}

/// `struct ifinfomsg` of `interface`.
fn about(interface: &Interface) -> [u8; ABOUT] {
    let mut about = [0; ABOUT];
    about[4..8].copy_from_slice(&interface.index().to_ne_bytes());
    about
}

const ABOUT: usize = 16;

/// The descriptor value that means no program.
const NO_PROGRAM: i32 = -1;

const NESTED: u16 = 1 << 15;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
const IFLA_XDP_HW_PROG_ID: u16 = 7;
const IFLA_XDP_EXPECTED_FD: u16 = 8;

const XDP_FLAGS_UPDATE_IF_NOEXIST: u32 = 1 << 0;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_FLAGS_REPLACE: u32 = 1 << 4;
