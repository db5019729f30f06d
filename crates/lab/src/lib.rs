//! Labs on this host: hosts in network namespaces, their gateways and network, traffic and a demo.
//!
//! A lab runs the program `tidegate` for its gateways and for its network, and learns their state
//! over the interface of `tidegate-api`.

#![forbid(unsafe_code)]
// The print macros panic if stdout or stderr is closed; the functions of `output` do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod clock;
pub mod demo;
pub mod lab;
pub mod traffic;

use tidegate_api as api;
use tidegate_api::{client, files, output};
use tidegate_config::{code, policy_file as config};
use tidegate_scenario::topology;
