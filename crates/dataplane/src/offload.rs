//! Offloads of an interface: reads them, and switches them on and off.
//!
//! This file has methods of `Interface`, whose fields are in `interface.rs`.

use std::ptr;

use crate::interface::{Interface, InterfaceError, text};

/// An operation on frames that the interface performs instead of the network stack, or that the
/// stack performs instead of senders and receivers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Offload {
    /// Completes transport checksums of sent frames.
    TxChecksum,
    /// Splits sent TCP super-packets into frames.
    Tso,
    /// Keeps super-packets whole on their way through the stack, until the interface sends them.
    Gso,
    /// Merges received frames into super-packets that can be split again without loss.
    Gro,
    /// Merges received frames in the hardware, into super-packets that cannot always be split again
    /// without loss.
    Lro,
    /// Takes the VLAN tag out of received frames.
    RxVlan,
    /// Inserts the VLAN tag into sent frames.
    TxVlan,
}

impl Offload {
    /// All offloads.
    pub const ALL: [Self; 7] =
        [Self::TxChecksum, Self::Tso, Self::Gso, Self::Gro, Self::Lro, Self::RxVlan, Self::TxVlan];

    /// The offload's name for `ethtool -K`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TxChecksum => "tx",
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
            Self::Lro => "lro",
            Self::RxVlan => "rxvlan",
            Self::TxVlan => "txvlan",
        }
    }

    /// The ethtool commands that read and write the offload, and its bit in the result.
    ///
    /// Source: Linux `include/uapi/linux/ethtool.h`, `ETHTOOL_GTXCSUM` and so on.
    const fn commands(self) -> (u32, u32, u32) {
        match self {
            Self::TxChecksum => (0x16, 0x17, 1),
            Self::Tso => (0x1e, 0x1f, 1),
            Self::Gso => (0x23, 0x24, 1),
            Self::Gro => (0x2b, 0x2c, 1),
            Self::Lro => (0x25, 0x26, 1 << 15),
            Self::RxVlan => (0x25, 0x26, 1 << 8),
            Self::TxVlan => (0x25, 0x26, 1 << 7),
        }
    }
}

impl Interface {
    /// Returns `true` if `offload` is on.
    ///
    /// # Errors
    ///
    /// If the interface no longer exists, or its driver lacks this offload.
    pub fn offload(&self, offload: Offload) -> Result<bool, InterfaceError> {
        let (read, _, bit) = offload.commands();
        Ok(self.value(read, "read the offloads of", 0)? & bit != 0)
    }

    /// Switches `offload` on or off.
    ///
    /// # Errors
    ///
    /// Without CAP_NET_ADMIN, if the interface no longer exists, or if its driver cannot switch this
    /// offload.
    pub fn set_offload(&self, offload: Offload, on: bool) -> Result<(), InterfaceError> {
        let (read, write, bit) = offload.commands();
        let others = if bit == 1 { 0 } else { self.value(read, "read the offloads of", 0)? & !bit };
        self.value(write, "change the offloads of", if on { others | bit } else { others })?;
        Ok(())
    }

    /// The name of the interface's driver, such as `veth`.
    ///
    /// # Errors
    ///
    /// If the interface no longer exists, or its driver does not report a name.
    pub fn driver(&self) -> Result<String, InterfaceError> {
        let mut drvinfo = DriverInfo { command: 3, driver: [0; 32], rest: [0; 160] };
        self.ethtool("read the driver of", &mut drvinfo)?;
        Ok(text(&drvinfo.driver))
    }

    /// Returns `true` if the interface is one end of a virtual Ethernet cable (veth).
    #[must_use]
    pub fn is_veth(&self) -> bool {
        self.driver().is_ok_and(|driver| driver == "veth")
    }

    /// Number of receive queues. One if the driver does not report the number.
    #[must_use]
    pub fn receive_queues(&self) -> u32 {
        let mut channels = Channels { command: 0x3c, ..Channels::default() };
        match self.ethtool("read the queues of", &mut channels) {
            Ok(()) => (channels.receive + channels.combined).max(1),
            Err(_) => 1,
        }
    }

    fn value(&self, command: u32, doing: &'static str, data: u32) -> Result<u32, InterfaceError> {
        let mut value = Value { command, data };
        self.ethtool(doing, &mut value)?;
        Ok(value.data)
    }

    fn ethtool<T: EthtoolRequest>(
        &self,
        doing: &'static str,
        data: &mut T,
    ) -> Result<(), InterfaceError> {
        self.ioctl(doing, libc::SIOCETHTOOL, |request| {
            request.ifr_ifru.ifru_data = ptr::from_mut(data).cast();
        })?;
        Ok(())
    }
}

/// A request of the ethtool interface: plain data that begins with its command.
trait EthtoolRequest {}
impl EthtoolRequest for Value {}
impl EthtoolRequest for DriverInfo {}
impl EthtoolRequest for Channels {}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`: 196 bytes, of which only the name is used.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// `struct ethtool_channels`: the maximum numbers of queues, then the current numbers.
#[derive(Default)]
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}
