//! A constant rate that ignores losses, marks and ACKs, for senders that ignore congestion.
//!
//! The window never limits the sender, but pacing at `rate` does. With the profile detail
//! `ignores_window`, the peer's window does not limit the sender either. Such a sender tests the
//! protection that a gateway gives to other flows.
//!
//! Source: RFC 2914, section 3.2 (unresponsive flows).

use tidegate_base::{Rate, Time, parameters};

use super::{Ack, CongestionControl, Counting, Signal, Window};

parameters! {
    /// Parameters of a constant rate.
    pub Config {
        /// Rate of payload.
        rate: Rate = Rate::from_mbps(10);
    }
}

impl Config {
    pub(super) fn build(&self, _: Counting) -> Constant {
        Constant { rate: self.rate }
    }
}

pub(super) struct Constant {
    rate: Rate,
}

/// More bytes than any flow has in flight, without the risk of an overflow.
const BOUNDLESS: u64 = 1 << 40;

impl CongestionControl for Constant {
    fn on_ack(&mut self, window: &mut Window, _: &Ack) {
        window.congestion = BOUNDLESS;
    }

    fn on_signal(&mut self, _: Time, window: &mut Window, _: u64, _: Signal) {
        (window.congestion, window.threshold) = (BOUNDLESS, BOUNDLESS);
    }

    fn pacing_rate(&self, _: &Window) -> Option<Rate> {
        Some(self.rate)
    }

    fn keeps_window(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a timeout that leaves one segment, after which the sender waits for an ACK.
    #[test]
    fn no_loss_mark_or_timeout_reduces_the_rate() {
        let mut control = Config { rate: Rate::from_mbps(25) }.build(Counting::RFC);
        let mut window = Window { congestion: 14_600, threshold: 0, segment: 1_460, floor: 2_920 };
        for signal in [Signal::Loss, Signal::Echo, Signal::Timeout { again: true }] {
            control.on_signal(Time::ZERO, &mut window, 14_600, signal);
            assert!(control.keeps_window() && window.congestion == BOUNDLESS, "{signal:?}");
            assert_eq!(control.pacing_rate(&window), Some(Rate::from_mbps(25)));
        }
    }
}
