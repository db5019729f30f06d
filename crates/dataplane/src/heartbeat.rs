//! The heartbeat of the loop that runs a gateway: it extends a deadline that the kernel's bypass
//! programs read. If the loop hangs, the deadline expires, and frames bypass the gateway.

use std::time::Duration;

use tidegate_core::Time;

/// Reports to the kernel that the loop is alive.
pub trait Heartbeat {
    /// Time without a heartbeat after which frames bypass the loop. `None` without bypass programs.
    fn timeout(&self) -> Option<Duration>;

    /// Reports that the loop is alive at `now`.
    fn beat(&mut self, now: Time);

    /// Requests that frames bypass the gateway from now on, for this reason. `None` ends the
    /// bypass: the loop gets frames again from the next [`beat`](Self::beat) on.
    fn set_passing(&mut self, passing: Option<Passing>);

    /// Returns `true` while bypass is requested. Ports then receive only copies of frames.
    fn passing(&self) -> bool;

    /// Frames that bypassed the gateway so far, by port.
    fn passed(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Why a gateway requests that frames bypass it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Passing {
    /// The gateway ends.
    Ended,
    /// The gateway has no policies, rates or trunks.
    NothingToManage,
}

/// Without bypass programs, every frame passes through the loop.
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

/// An optional heartbeat. `None` means that there are no bypass programs.
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
