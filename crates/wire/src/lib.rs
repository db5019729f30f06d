//! Frames and their packet descriptors: parses arriving frames, and writes changed fields back into
//! their headers.
//!
//! Frames may come from attackers. No input causes a panic. A frame that cannot be parsed is
//! forwarded unchanged.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod build;
mod checksum;
mod clamp;
mod cut;
mod describe;
mod ethertype;
pub mod icmp;
mod layers;
pub mod neighbour;
mod option;
pub mod pcap;
mod rewrite;
pub mod segment;
pub mod split;
pub mod trunk;
mod tunnel;
mod vlan;

pub use checksum::{Completed, complete as complete_checksum, finish as finish_checksum};
pub use clamp::clamp_segment_size;
pub use cut::cut;
pub use describe::{Oddities, Oddity, describe, describe_innermost};
pub use rewrite::{Checksum, rewrite};
pub use vlan::VlanTag;
