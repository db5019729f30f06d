//! Gateways between a LAN and a WAN: they sort packets into aggregates by policy, and lead them through the
//! mechanisms of `tidegate-core`. No code here does I/O, reads a clock or starts a thread.
//!
//! The modules in order of their dependencies. `·` separates groups. A module uses only modules of
//! its own group and of earlier groups in this list: `policy` · `report` · `aggregate` · `gateway`.

#![forbid(unsafe_code)]

pub mod aggregate;
mod gateway;
pub mod policy;
pub mod report;

pub use gateway::{
    ClassChangeError, ClassContents, FlowSurvey, Gateway, GatewayConfig, Generation, Retired,
    StillInstalling, Survey,
};
