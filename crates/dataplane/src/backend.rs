//! Backends: the ways to open the two ports of a gateway, on AF_XDP sockets or on packet sockets.
//!
//! To add a backend, write a file with two types, one that implements [`Backend`] and one for its
//! [`Port`]. Then add the file's `mod` line, an entry in [`BACKENDS`], and the backend's name in
//! `crates/config/src/policy_file/backend.rs`.

use std::fmt;

use tidegate_core::PacketPool;

use crate::af_packet::PacketBackend;
use crate::af_xdp::XdpBackend;
use crate::fail_to_wire::{FailToWire, WireConfig, WireError};
use crate::interface::{Interface, InterfaceError};
use crate::memory::PacketMemory;
use crate::port::Port;

/// All backends, in the order in which `backend = "auto"` tries them.
pub const BACKENDS: &[&dyn Backend] = &[&XdpBackend, &PacketBackend];

/// A way to open ports.
pub trait Backend: Sync {
    /// The name of the backend in policy files.
    fn name(&self) -> &'static str;

    /// The name of the backend in messages.
    fn title(&self) -> &'static str;

    /// The largest MTU that the backend's ports support. `None` if any MTU is possible.
    fn most_mtu(&self) -> Option<u32> {
        None
    }

    /// Opens the ports `pair` for a gateway that holds at most `packets` packets. Also attaches the
    /// bypass programs with the settings `wire`. These programs forward frames while the gateway is
    /// not alive.
    ///
    /// # Errors
    ///
    /// If the ports cannot be opened; [`BackendFault`] lists the reasons. The ports may have taken
    /// packets from `pool` before, to receive frames into them. These packets are not returned.
    fn open(
        &self,
        pair: [&Interface; 2],
        wire: &WireConfig,
        packets: u32,
        pool: &mut PacketPool,
    ) -> Result<OpenPorts, BackendError>;
}

/// The open ports of a gateway.
pub struct OpenPorts {
    /// The ports, in the order of the interfaces.
    pub ports: [Box<dyn Port>; 2],
    /// The memory of their frames.
    pub memory: PacketMemory,
    /// The bypass programs, which forward frames while the gateway is not alive. `None` if they
    /// could not be attached.
    pub wire: Option<FailToWire>,
    /// How the ports were opened, such as "native, zero-copy". May be empty.
    pub mode: String,
    /// Warnings for the operator.
    pub notes: Vec<String>,
}

/// The reason why ports cannot be opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BackendFault {
    /// Another gateway uses one of the ports.
    AlreadyRuns,
    /// The process lacks a privilege.
    NoPrivilege,
    /// An interface does not exist.
    NoInterface,
    /// The host does not support the backend.
    Unsupported,
}

/// The error of a backend that cannot open ports.
#[derive(Debug)]
pub struct BackendError {
    /// The reason.
    pub fault: BackendFault,
    /// What failed, and perhaps the remedy after a semicolon.
    text: String,
}

impl BackendError {
    /// An error with the text of `error`.
    pub fn new(fault: BackendFault, error: impl fmt::Display) -> Self {
        Self { fault, text: error.to_string() }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<InterfaceError> for BackendError {
    fn from(error: InterfaceError) -> Self {
        let fault = match error {
            InterfaceError::NotFound { .. } => BackendFault::NoInterface,
            InterfaceError::NoPrivilege { .. } => BackendFault::NoPrivilege,
            _ => BackendFault::Unsupported,
        };
        Self::new(fault, error)
    }
}

impl From<WireError> for BackendError {
    fn from(error: WireError) -> Self {
        let fault = match error {
            WireError::Alive { .. } => BackendFault::AlreadyRuns,
            _ => BackendFault::Unsupported,
        };
        Self::new(fault, error)
    }
}
