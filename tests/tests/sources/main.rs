//! Policies from a directory, etcd and LDAP: the real program, real servers, and traffic that goes through meanwhile.
//!
//! The servers run in the machine in the middle of a test bed, at the addresses that the documentation names.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod clock;
mod faults;
mod page;
mod reports;
mod sets;
mod site;
mod stream;
