//! Settings of a gateway other than its policies.

use std::time::Duration;

use tidegate_core::flow::WithoutFirst;
use tidegate_core::link::Overhead;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::SchedulerSpec;
use tidegate_core::{Rate, trunk};

use crate::aggregate::{ShapingTimer, TriggerSet};

/// Settings of a gateway other than its policies.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// Rate of the access link, up and down. `None`: no limit.
    pub rate: [Option<Rate>; 2],
    /// Bytes that the access link adds to each frame.
    pub overhead: Overhead,
    /// The queue of the access link.
    pub queue: QdiscSpec,
    /// The largest number of packets inside at once: the number of the driver's buffers.
    pub packets: u32,
    /// Most flows tracked at once.
    pub flows: u32,
    /// Interval of the shaping timer. Zero: it expires exactly when the next packet conforms.
    pub shaping_interval: Duration,
    /// Other events that make an aggregate check whether packets may depart.
    pub shaping_triggers: TriggerSet,
    /// The policy of fragments whose first fragment is unknown.
    pub fragments_without_first: WithoutFirst,
    /// The trunks that terminate here.
    pub trunks: Vec<trunk::Config>,
    /// Seed of hashes and random choices: fixed in a simulation, random in the live gateway.
    pub seed: u64,
    /// The scheduler of a link with classes.
    pub scheduler: SchedulerSpec,
}

impl GatewayConfig {
    /// Timer and triggers of aggregates.
    pub(super) const fn shaping_timer(&self) -> ShapingTimer {
        ShapingTimer { interval: self.shaping_interval, triggers: self.shaping_triggers }
    }

    /// Returns `true` if `other` differs in settings that a running gateway cannot change.
    #[must_use]
    pub fn needs_restart(&self, other: &Self) -> bool {
        self.packets != other.packets || self.flows != other.flows
    }
}
