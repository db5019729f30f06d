//! Gateways between a LAN and a WAN. A gateway sorts packets into aggregates by policy. The
//! mechanisms in `tidegate-core` then shape, queue or drop the packets, and hold ACKs. No code here
//! does I/O, reads a clock or starts a thread.
//!
//! A module uses only the modules before it in this list: `policy` · `report` · `aggregate` ·
//! `gateway`.

#![forbid(unsafe_code)]

pub mod aggregate;
mod gateway;
pub mod policy;
pub mod report;

pub use gateway::{
    ClassChangeError, ClassContents, FlowSurvey, Gateway, GatewayConfig, Generation, Retired,
    StillInstalling, Survey,
};
