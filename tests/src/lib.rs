//! The basis of live end-to-end tests: hosts in network namespaces, real TCP traffic between them,
//! and the gateway.
//!
//! This code is only for tests, so an error panics with a description of the situation. Namespaces
//! and processes are removed when their values are dropped, even by a panic. After a killed test,
//! the next test removes the remains.

#![forbid(unsafe_code)]

mod frames;
mod gateway;
mod lab;
pub mod measure;
mod process;
pub mod recording;
mod sites;
pub mod tcp;
mod testbed;
mod traffic;
pub mod trial;
mod wait;
mod witness;

pub use frames::{Recorder, hex, send, unhex};
pub use gateway::Gateway;
pub use lab::Lab;
pub use process::{Finished, Process, run};
pub use sites::Sites;
pub use testbed::{Host, Sharing, Testbed, program, skip};
pub use traffic::{Fetch, Outcome, Server};
pub use wait::{now, pause, until};
pub use witness::{witnessed, witnessed_beside_others};

/// Defines two tests for each of these functions, one per backend: `af_packet::<name>` and
/// `af_xdp::<name>`.
///
/// Each function gets a test bed, and the backend's name in policy files. If the machine stood
/// still during a test that failed, the test is repeated ([`witnessed`]). Tests after
/// `witnessed_beside_others:` may run at the same time as other such tests.
#[macro_export]
macro_rules! on_each_backend {
    ($how:ident: $($name:ident)+) => {
        mod af_packet {
            $(#[test]
            fn $name() {
                $crate::$how(|bed| super::$name(bed, "af-packet"));
            })+
        }

        mod af_xdp {
            $(#[test]
            fn $name() {
                $crate::$how(|bed| super::$name(bed, "af-xdp"));
            })+
        }
    };
    ($($name:ident)+) => {
        $crate::on_each_backend! { witnessed: $($name)+ }
    };
}
