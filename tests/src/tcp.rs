//! Tests Tidegate's TCP endpoint against the kernel's endpoint, over a TUN device. Data that one
//! end sends must arrive at the other end.
//!
//! In each direction, the packets pass a link that the core crate emulates, as in a lab.

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

/// The setup of one test run, in TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Configuration of Tidegate's endpoint.
    #[serde(default)]
    pub endpoint: tcp::Config,
    /// The kernel's congestion control.
    #[serde(default = "reno")]
    pub congestion: String,
    /// The end that opens the connection.
    #[serde(default)]
    pub opens: Side,
    /// Bytes that Tidegate's endpoint sends.
    #[serde(default)]
    pub ours_sends: u64,
    /// Bytes that the kernel sends.
    #[serde(default)]
    pub kernel_sends: u64,
    /// The link in each direction.
    #[serde(default)]
    pub link: LinkConfig,
    /// One of every `mark_one_in` ECN-capable packets is marked, in each direction. Zero means
    /// none.
    #[serde(default)]
    pub mark_one_in: u32,
    /// Interval between two samples of the congestion windows. If absent, no samples are taken.
    #[serde(default, deserialize_with = "interval")]
    pub trace: Option<Duration>,
    /// Random seed of the links.
    #[serde(default)]
    pub seed: u64,
    /// Time limit of the run.
    #[serde(with = "units::duration")]
    pub limit: Duration,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Tidegate's endpoint.
    #[default]
    Ours,
    /// The kernel.
    Kernel,
}

/// The results of one test run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Outcome {
    /// Duration in seconds.
    pub seconds: f64,
    /// Data received by Tidegate's endpoint.
    pub at_ours: Received,
    /// Data received by the kernel.
    pub at_kernel: Received,
    /// Segments that Tidegate's endpoint sent, and the number of retransmissions among them.
    pub segments: (u64, u64),
    /// Fast recoveries and retransmission timeouts of Tidegate's endpoint.
    pub recoveries: (u32, u32),
    /// Segments with a congestion mark, and segments with ECN-Echo, that Tidegate's endpoint
    /// received.
    pub marks: (u64, u64),
    /// Number of times that Tidegate's endpoint reduced its window because of an ECN-Echo.
    pub reductions: u32,
    /// Packets lost on the link to the kernel, and on the link to Tidegate's endpoint.
    pub lost: (u64, u64),
    /// Segments that the kernel retransmitted, as far as its counters were sampled.
    pub kernel_retransmitted: u64,
    /// The congestion window of Tidegate's sender over time.
    pub trace: Vec<Sample>,
    /// The congestion window of the kernel's sender over time.
    pub kernel_trace: Vec<Sample>,
}

/// Address of the kernel's endpoint.
const KERNEL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 84, 0, 1)), 5001);

/// Address of Tidegate's endpoint. The port differs from run to run, because the kernel may
/// remember the previous connection.
fn ours() -> SocketAddr {
    let port = 10_000 + std::process::id() % 50_000;
    SocketAddr::new(Ipv4Addr::new(10, 84, 0, 2).into(), u16::try_from(port).unwrap_or(10_000))
}

/// Runs the test on a new TUN device in this network namespace.
///
/// # Errors
///
/// If the device cannot be created, or the run exceeds its time limit.
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
