//! XDP features of an interface's driver, as reported by the kernel (Linux 6.3 and later).
//!
//! Source: Linux `Documentation/netlink/specs/netdev.yaml`, `dev-get`; generic netlink,
//! `include/uapi/linux/genetlink.h`.

use crate::interface::Interface;
use crate::netlink::{Request, find};

/// The XDP features of a driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Features(u64);

impl Features {
    const BASIC: u64 = 1;
    const NDO_XMIT: u64 = 1 << 2;

    /// The features of the driver of `interface`; `None` if the kernel does not report them.
    pub(super) fn of(interface: &Interface) -> Option<Self> {
        let family = ask(CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
        let family = u16::from_ne_bytes(find(&family, FAMILY_ID)?.try_into().ok()?);
        let index = interface.index().to_ne_bytes();
        let device = ask(family, GET_DEVICE, DEVICE_INDEX, &index)?;
        let features = find(&device, XDP_FEATURES)?.try_into().ok()?;
        Some(Self(u64::from_ne_bytes(features)))
    }

    /// The driver runs XDP programs.
    pub(super) const fn native(self) -> bool {
        self.0 & Self::BASIC != 0
    }

    /// The driver transmits frames that an XDP program redirects to it. A veth does so only if its
    /// peer has GRO enabled or an XDP program attached. Otherwise a veth drops such frames without
    /// a report.
    pub(super) const fn takes_redirected(self) -> bool {
        self.0 & Self::NDO_XMIT != 0
    }
}

const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;

/// `struct genlmsghdr`.
const HEADER: usize = 4;

/// Sends a request with one attribute. Returns the attributes of the answer, or `None` after an
/// error.
fn ask(family: u16, command: u8, attribute: u16, value: &[u8]) -> Option<Vec<u8>> {
    let request = Request::new(family, 0, &[command, 1, 0, 0]).with(attribute, value);
    let answer = request.send(libc::NETLINK_GENERIC).ok()?.pop()?;
    answer.get(HEADER..).map(<[u8]>::to_vec)
}
