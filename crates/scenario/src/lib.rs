//! Parses topologies of labs and scenarios of the simulator into values, or reports findings.
//!
//! The crate does no I/O. Its inputs are text and a function that fetches other files. A lab and
//! the simulator read the same kind of file.

#![forbid(unsafe_code)]

pub mod scenario;
pub mod topology;

use tidegate_config::{Findings, code, diagnostic, field, policy_file, read, tcp, values};
