//! What an interface's driver can do for XDP, as the kernel says it (Linux 6.3 and later).
//!
//! Source: Linux `Documentation/netlink/specs/netdev.yaml`, `dev-get`; generic netlink,
//! `include/uapi/linux/genetlink.h`.

use crate::interface::Interface;
use crate::netlink::{Request, find};

/// What a driver can do for XDP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Features(u64);

impl Features {
    const BASIC: u64 = 1;
    const NDO_XMIT: u64 = 1 << 2;

    /// What the driver of `interface` can do; `None` if the kernel does not say.
    pub(super) fn of(interface: &Interface) -> Option<Self> {
        let family = ask(CONTROL, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
        let family = u16::from_ne_bytes(find(&family, FAMILY_ID)?.try_into().ok()?);
        let index = interface.index().to_ne_bytes();
        let device = ask(family, GET_DEVICE, DEVICE_INDEX, &index)?;
        let features = find(&device, XDP_FEATURES)?.try_into().ok()?;
        Some(Self(u64::from_ne_bytes(features)))
    }

    /// It runs XDP programs itself.
    pub(super) const fn native(self) -> bool {
        self.0 & Self::BASIC != 0
    }

    /// It sends frames that an XDP program redirects to it. A veth does as long as its other end
    /// has GRO on or an XDP program of its own; else it loses them all without a word.
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

/// The attributes of the answer to a request with one attribute; `None` if it is an error.
fn ask(family: u16, command: u8, attribute: u16, value: &[u8]) -> Option<Vec<u8>> {
    let request = Request::new(family, 0, &[command, 1, 0, 0]).with(attribute, value);
    let answer = request.send(libc::NETLINK_GENERIC).ok()?.pop()?;
    answer.get(HEADER..).map(<[u8]>::to_vec)
}
