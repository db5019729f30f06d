//! Sends frames, given as bytes, from one host, and records frames on another host.

use std::path::PathBuf;
use std::time::Duration;

use crate::process::Process;
use crate::testbed::Host;
use crate::wait::until;

/// Records the frames that arrive at a host.
#[derive(Debug)]
pub struct Recorder(Process);

/// Sends `frames` from `host` in this order, without pauses.
pub fn send(host: &Host, frames: &[Vec<u8>]) {
    let lines: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
    let mut process = Process::start(host.command(helper()).args(["send", "eth0"]));
    process.feed(&(lines.join("\n") + "\n"));
    let finished = process.finish(Duration::from_secs(30));
    assert!(finished.status.success(), "sending frames: {}", finished.errors);
}

impl Recorder {
    /// Starts recording on `host`.
    #[must_use]
    pub fn start(host: &Host) -> Self {
        let mut process = Process::start(host.command(helper()).args(["record", "eth0"]));
        until("the recorder", Duration::from_secs(10), || {
            assert!(process.runs(), "{}", process.all_output());
            process.lines().pop()
        });
        Self(process)
    }

    /// Waits until `wanted` has selected `count` of the recorded frames, and returns these.
    ///
    /// # Panics
    ///
    /// If `wanted` has selected fewer frames when `limit` has passed.
    #[must_use]
    pub fn frames(
        &self,
        count: usize,
        limit: Duration,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Vec<Vec<u8>> {
        let so_far = || {
            let lines = self.0.lines();
            let frames = lines.iter().filter_map(|line| unhex(line));
            frames.filter(|frame| wanted(frame)).collect::<Vec<_>>()
        };
        until(&format!("{count} frames, not {}", so_far().len()), limit, || {
            Some(so_far()).filter(|frames| frames.len() >= count)
        })
    }
}

/// `bytes` in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal text.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// The helper program, which is built together with the tests.
fn helper() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let folder = test.parent().and_then(|deps| deps.parent());
    folder.unwrap_or_else(|| panic!("{} has no folder", test.display())).join("e2e-frames")
}
