//! Tests the etcd repository against a real server, and against fake servers whose faults a real
//! server does not have.
//!
//! Each test starts its own server on loopback, and ends only this process. Tests of silent and
//! slow servers run in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its server has failed")]

mod access;
mod commits;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod hostile;
mod page;
mod push;
mod real;
mod same_set;
mod testing;
