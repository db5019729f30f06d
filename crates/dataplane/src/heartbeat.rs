//! The loop's sign of life, by which the kernel decides whether frames bypass the gateway.

use std::time::Duration;

use tidegate_core::Time;

/// Tells the kernel that the loop lives; when it does not hear so for a while, frames go straight
/// across, past the loop.
pub trait Heartbeat {
    /// Silence after which frames go straight across; `None` if nobody listens.
    fn timeout(&self) -> Option<Duration>;

    /// The loop lives.
    fn beat(&mut self, now: Time);

    /// Sends frames straight across from now on, for the reason given. With `None`, frames go through
    /// the loop again from the next [`beat`](Self::beat) on.
    fn set_passing(&mut self, passing: Option<Passing>);

    /// Whether frames were told to go straight across; then what ports receive are copies.
    fn passing(&self) -> bool;

    /// Frames of each port that bypassed the gateway so far.
    fn passed(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Why a gateway requests that frames bypass it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Passing {
    /// It ends.
    Ended,
    /// It has no policies, rates or trunks.
    NothingToManage,
}

/// Nobody listens, and frames have no other way.
impl Heartbeat for () {
    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn beat(&mut self, _now: Time) {}

    fn set_passing(&mut self, _passing: Option<Passing>) {}

    fn passing(&self) -> bool {
        false
    }
}

/// An optional heartbeat; without it, nobody listens.
impl<H: Heartbeat> Heartbeat for Option<H> {
    fn timeout(&self) -> Option<Duration> {
        self.as_ref().and_then(H::timeout)
    }

    fn beat(&mut self, now: Time) {
        if let Some(heartbeat) = self {
            heartbeat.beat(now);
        }
    }

    fn set_passing(&mut self, passing: Option<Passing>) {
        if let Some(heartbeat) = self {
            heartbeat.set_passing(passing);
        }
    }

    fn passing(&self) -> bool {
        self.as_ref().is_some_and(H::passing)
    }

    fn passed(&self) -> Vec<u64> {
        self.as_ref().map_or_else(Vec::new, H::passed)
    }
}
