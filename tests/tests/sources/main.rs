//! Live tests of policies from a directory, etcd and LDAP, with the real program, real servers, and
//! traffic.
//!
//! The servers run on the middle machine of a test bed, at the addresses that the manual uses.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod clock;
mod faults;
mod page;
mod reports;
mod sets;
mod site;
mod stream;
