//! Our TCP end point and the kernel's over a TUN device: what one sends must arrive at the other.
//!
//! Between them lies a link of the core in each direction, as the lab's emulator has them.

mod content;
mod kernel;
mod ours;
mod path;
mod trace;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::link::LinkConfig;
use tidegate_core::{tcp, units};
use tidegate_dataplane::Tun;

use content::Received;
use kernel::Kernel;
use ours::Ours;
use trace::Sample;

/// What is to be tried; written in TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Our end point.
    #[serde(default)]
    pub endpoint: tcp::Config,
    /// The kernel's congestion control.
    #[serde(default = "reno")]
    pub congestion: String,
    /// Whose SYN is first.
    #[serde(default)]
    pub opens: Side,
    /// Bytes that our end point sends.
    #[serde(default)]
    pub ours_sends: u64,
    /// Bytes that the kernel sends.
    #[serde(default)]
    pub kernel_sends: u64,
    /// What lies between them, in either direction.
    #[serde(default)]
    pub link: LinkConfig,
    /// Of the ECN-capable packets in either direction, one in so many is marked; zero for none.
    #[serde(default)]
    pub mark_one_in: u32,
    /// How often windows are looked at; never, if absent.
    #[serde(default, deserialize_with = "interval")]
    pub trace: Option<Duration>,
    /// What seeds the link.
    #[serde(default)]
    pub seed: u64,
    /// How long it may take.
    #[serde(with = "units::duration")]
    pub limit: Duration,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Our end point.
    #[default]
    Ours,
    /// The kernel.
    Kernel,
}

/// How it went.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What arrived at our end point.
    pub at_ours: Received,
    /// What arrived at the kernel's.
    pub at_kernel: Received,
    /// Segments our end point sent, and of these copies.
    pub segments: (u64, u64),
    /// Our end point's fast recoveries and timeouts.
    pub recoveries: (u32, u32),
    /// Segments that came to our end point marked, and ECN-Echoes it was sent.
    pub marks: (u64, u64),
    /// How often our end point reduced its window for an ECN-Echo.
    pub reductions: u32,
    /// Packets lost on the way to the kernel, and on the way to our end point.
    pub lost: (u64, u64),
    /// Segments the kernel sent again, while it was looked at.
    pub kernel_retransmitted: u64,
    /// Our sender's window over time.
    pub trace: Vec<Sample>,
    /// The kernel's.
    pub kernel_trace: Vec<Sample>,
}

/// Where the kernel's end is.
const KERNEL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 84, 0, 1)), 5001);

/// Where ours is: not where one before it was, which the kernel may still remember.
fn ours() -> SocketAddr {
    let port = 10_000 + std::process::id() % 50_000;
    SocketAddr::new(Ipv4Addr::new(10, 84, 0, 2).into(), u16::try_from(port).unwrap_or(10_000))
}

/// Tries it in this network namespace, on a TUN device of its own.
///
/// # Errors
///
/// If there can be no such device, or it takes longer than it may.
pub fn try_out(setup: &Setup) -> Result<Outcome, Box<dyn Error>> {
    let tun = Tun::create("tcp")?;
    for words in ["address add 10.84.0.1/24 dev tcp", "link set tcp up"] {
        let words = words.split(' ');
        crate::run(std::process::Command::new("ip").args(words), Duration::from_secs(10));
    }
    let kernel = Kernel::start(setup)?;
    Ours::new(setup, tun).run(kernel)
}

fn reno() -> String {
    "reno".to_owned()
}

fn interval<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    units::duration::deserialize(from).map(Some)
}
