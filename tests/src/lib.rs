//! What end-to-end tests stand on: hosts in network namespaces, real TCP between them, the gateway.
//!
//! Everything here is for tests, so what goes wrong panics and says what was going on. Namespaces
//! and processes are removed when their value is dropped, on a panic too; those of a test that was
//! killed are removed by the next one.

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
pub use testbed::{Host, Testbed, Turn, program, skip};
pub use traffic::{Fetch, Outcome, Server};
pub use wait::{now, pause, until};
pub use witness::{witnessed, witnessed_beside_others};

/// Makes a test of each of these functions on each backend: `af_packet::<name>`, `af_xdp::<name>`.
///
/// The functions take a test bed and the backend as a policy file names it. Where the machine stands still,
/// they are tried again ([`witnessed`]). After `witnessed_beside_others:` they run at the same time as others.
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
