//! Frames and their descriptors: what arrives is described, what was decided is written back.
//!
//! Every byte here came from strangers: nothing panics on any input, and what cannot be understood
//! is forwarded as it came.

#![forbid(unsafe_code)]

pub mod build;
mod checksum;
mod cut;
mod describe;
mod ethertype;
pub mod neighbour;
mod option;
pub mod pcap;
mod rewrite;
pub mod segment;
pub mod trunk;
mod vlan;

pub use checksum::complete as complete_checksum;
pub use cut::cut;
pub use describe::{Oddities, Oddity, describe};
pub use rewrite::{Checksum, rewrite};
pub use vlan::VlanTag;
