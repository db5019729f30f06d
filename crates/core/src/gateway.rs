//! The gateway: packets in, packets out, and when to be called next.

mod config;

pub use crate::report::{AggregateReport, Count, FlowReport, Report, Triggers};
pub use config::{GatewayConfig, Overhead};
