//! Labs on this host: hosts in network namespaces, gateways, an emulated network, traffic
//! generators, and the demonstration.
//!
//! A lab starts the program `tidegate` for each of its gateways and for its network. It reads the
//! state of the gateways through the interface of `tidegate-api`.

#![forbid(unsafe_code)]
// `print!` and `eprintln!` panic if the output is closed, so they are forbidden. The functions of
// `output` do not panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod clock;
pub mod demo;
pub mod lab;
pub mod traffic;

use tidegate_api as api;
use tidegate_api::{client, files, output};
use tidegate_config::{code, policy_file as config};
use tidegate_scenario::topology;
