//! The gateway: packets in, packets out, and when to be called next.

mod config;
mod report;

pub use config::{GatewayConfig, Overhead};
pub use report::{AggregateReport, Count, FlowReport, Report, Triggers};
