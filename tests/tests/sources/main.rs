//! Policies from a directory, etcd and LDAP: with the real program, real servers, and traffic.
//!
//! The servers run on the machine in the middle of a test bed, at the addresses in the
//! documentation.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod clock;
mod faults;
mod page;
mod reports;
mod sets;
mod site;
mod stream;
