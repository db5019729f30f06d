//! Records the congestion windows of the test connection over time.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::KERNEL;
use crate::wait::{now, pause};

/// A sender's state at one instant.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the run began.
    pub at: f64,
    /// Congestion window in segments.
    pub window: f64,
    /// Slow-start threshold in segments. Zero means none.
    pub threshold: f64,
    /// Smoothed round-trip time in milliseconds.
    pub rtt: f64,
    /// Bytes acknowledged.
    pub acknowledged: u64,
    /// Segments retransmitted so far.
    pub retransmitted: u64,
}

/// Samples the kernel's sender at regular intervals, by the command `ss`.
pub(super) struct KernelTrace {
    samples: Arc<Mutex<Vec<Sample>>>,
    over: Arc<AtomicBool>,
    looking: JoinHandle<()>,
}

impl KernelTrace {
    pub(super) fn start(beginning: Instant, every: Duration) -> Self {
        let (samples, over) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicBool>::default());
        let (found, stop) = (Arc::clone(&samples), Arc::clone(&over));
        let looking = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Some(sample) = look(beginning) {
                    found.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
                }
                pause(every);
            }
        });
        Self { samples, over, looking }
    }

    pub(super) fn finish(self) -> Vec<Sample> {
        self.over.store(true, Ordering::Relaxed);
        // The result is ignored: the samples are useful even if the thread panicked.
        let _ = self.looking.join();
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A sample of the kernel's end, read from the output of `ss`.
fn look(beginning: Instant) -> Option<Sample> {
    let port = format!("sport = :{}", KERNEL.port());
    let at = now().duration_since(beginning).as_secs_f64();
    let said = Command::new("ss").args(["-tinH", "state", "connected", &port]).output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    read(at, &said)
}

/// Source: Linux, `ss(8)`, `--info`.
fn read(at: f64, said: &str) -> Option<Sample> {
    let word = |name: &str| said.split_whitespace().find_map(|word| word.strip_prefix(name));
    let number = |name: &str| word(name).and_then(|word| word.parse().ok());
    let retransmitted = word("retrans:").and_then(|both| both.split_once('/')?.1.parse().ok());
    Some(Sample {
        at,
        window: number("cwnd:")?,
        threshold: number("ssthresh:").unwrap_or_default(),
        rtt: word("rtt:")?.split_once('/')?.0.parse().ok()?,
        acknowledged: word("bytes_acked:").and_then(|word| word.parse().ok()).unwrap_or_default(),
        retransmitted: retransmitted.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_ss_is_parsed() {
        let said = "ESTAB 0 77 10.84.0.1:5001 10.84.0.2:5002\n\t reno wscale:7,7 rto:252 \
                    rtt:50.2/1.5 mss:1448 cwnd:42 ssthresh:21 bytes_sent:9 bytes_retrans:2 \
                    bytes_acked:5000 segs_out:4 retrans:1/7 lost:1\n";
        let expected = Sample {
            at: 1.5,
            window: 42.0,
            threshold: 21.0,
            rtt: 50.2,
            acknowledged: 5_000,
            retransmitted: 7,
        };
        assert_eq!(read(1.5, said), Some(expected));
        assert_eq!(read(1.5, ""), None);
    }
}
