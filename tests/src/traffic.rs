//! Real TCP transfers between hosts. The program `tidegate traffic` generates them, and checks
//! every byte.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;

use crate::process::Process;
use crate::testbed::{Host, program};
use crate::wait::until;

/// A server of transfers on a host.
#[derive(Debug)]
pub struct Server {
    process: Process,
    port: u16,
}

/// A running transfer.
#[derive(Debug)]
pub struct Fetch(Process);

/// The result of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Received payload bytes.
    pub bytes: u64,
    /// Duration of the transfer.
    pub time: Duration,
    /// All requested bytes arrived.
    pub complete: bool,
    /// Every received byte was correct.
    pub intact: bool,
    /// The longest time without progress.
    pub longest_pause: Duration,
}

impl Server {
    /// Starts a server on `host` at `port` with the congestion control `congestion`.
    ///
    /// # Panics
    ///
    /// If the server does not listen within seconds.
    #[must_use]
    pub fn start(host: &Host, port: u16, congestion: &str) -> Self {
        let mut command = host.command(program());
        command.args(["traffic", "serve", &format!("[::]:{port}"), "--congestion", congestion]);
        let mut process = Process::start(&mut command);
        until("the server to listen", Duration::from_secs(10), || {
            assert!(process.runs(), "{}", process.all_output());
            let listening = format!(":{port:04X} 00000000000000000000000000000000:0000 0A");
            host.net("tcp6").contains(&listening).then_some(())
        });
        Self { process, port }
    }

    /// Starts a transfer from this server, whose address is `address`, to the host `receiver`.
    /// `more` are further arguments of `tidegate traffic fetch`.
    #[must_use]
    pub fn fetch(&self, address: IpAddr, receiver: &Host, more: &[&str]) -> Fetch {
        let server = SocketAddr::new(address, self.port).to_string();
        let mut command = receiver.command(program());
        command.args(["traffic", "fetch", &server, "--interval", "100 ms"]).args(more);
        Fetch(Process::start(&mut command))
    }

    /// The output of the server, for messages.
    #[must_use]
    pub fn all_output(&self) -> String {
        self.process.all_output()
    }
}

impl Fetch {
    /// The transfer that `process` makes.
    #[must_use]
    pub const fn of(process: Process) -> Self {
        Self(process)
    }

    /// Payload bytes received so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.progress().1
    }

    /// The last progress report: the time since the start, and the payload bytes received by then.
    #[must_use]
    pub fn progress(&self) -> (Duration, u64) {
        self.0.lines().last().map_or((Duration::ZERO, 0), |line| progress_in(line))
    }

    /// The longest time without progress until now.
    #[must_use]
    pub fn longest_pause(&self) -> Duration {
        longest_pause(self.0.lines().iter().map(String::as_str))
    }

    /// Waits until `more` further bytes have arrived.
    ///
    /// # Panics
    ///
    /// If this takes longer than `limit`.
    pub fn moves_on(&self, more: u64, limit: Duration) {
        let goal = self.bytes() + more;
        until(&format!("{more} more bytes of {}", self.0.all_output()), limit, || {
            (self.bytes() >= goal).then_some(())
        });
    }

    /// Waits for the end of the transfer.
    ///
    /// # Panics
    ///
    /// If this takes longer than `limit`, or the transfer reports no result.
    #[must_use]
    pub fn finish(self, limit: Duration) -> Outcome {
        let finished = self.0.finish(limit);
        let last = finished.output.lines().last().unwrap_or_default();
        let report = serde_json::from_str::<Value>(last).unwrap_or_default();
        let number = |name: &str| report[name].as_u64();
        let flag = |name: &str| report[name].as_bool();
        let outcome = || {
            Some(Outcome {
                bytes: number("bytes")?,
                time: Duration::from_millis(number("at_ms")?),
                complete: flag("complete")?,
                intact: flag("intact")?,
                longest_pause: longest_pause(finished.output.lines()),
            })
        };
        outcome()
            .unwrap_or_else(|| panic!("a transfer failed: {}{}", finished.output, finished.errors))
    }
}

/// The longest time without progress in `lines`.
fn longest_pause<'a>(lines: impl Iterator<Item = &'a str>) -> Duration {
    let (mut longest, mut last) = (Duration::ZERO, (Duration::ZERO, 0));
    for (at, bytes) in lines.map(progress_in) {
        longest = longest.max(at.saturating_sub(last.0));
        if bytes > last.1 {
            last = (at, bytes);
        }
    }
    longest
}

/// Parses a progress report: the time since the start, and the payload bytes received by then.
fn progress_in(line: &str) -> (Duration, u64) {
    let report = serde_json::from_str::<Value>(line).unwrap_or_default();
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    (Duration::from_millis(number("at_ms")), number("bytes"))
}

impl Outcome {
    /// Payload rate in bits per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let bits = u32::try_from(self.bytes / 125).map_or(f64::INFINITY, f64::from);
        bits * 1_000.0 / self.time.as_secs_f64()
    }
}
