//! The marking `reference`: a tracker for each flow, and all of them in the projection.
//!
//! Source: `marking`, section 2.2, equations (5) to (10).

use serde::Deserialize;

use super::tracker::TrackerSpec;
use super::{Decision, Marking, Observed, Outcome, Target};
use crate::packet::FlowId;
use crate::random::Random;
use crate::registry::checked;
use crate::{Factor, Packet, Time};

/// How flows are tracked.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct Config {
    /// How the window and the round trips of a flow are estimated.
    pub tracker: TrackerSpec,
    /// Parameter of the tracker `paper`: a gap of more than `RTT / k` ends a round.
    pub k: Option<u32>,
    /// Parameter of the tracker `paper`: weight of the old round-trip time against a new sample.
    pub a: Option<Factor>,
}

checked!(Config);

impl Config {
    fn check(&self) -> Result<(), &'static str> {
        self.tracker.clone().with(self.k, self.a).map(drop)
    }

    pub(super) fn build(&self, _: Random) -> Reference {
        Reference {}
    }
}

pub(super) struct Reference {}

impl Marking for Reference {
    fn arrived(&mut self, _: &Observed<'_>, _: &Packet) {}

    fn leaving(&mut self, _: &Observed<'_>, _: &Packet) {}

    fn decide(&mut self, _: &Observed<'_>, _: &Packet) -> Decision {
        Decision::Pass
    }

    fn done(&mut self, _: Time, _: Target, _: Outcome) {}

    fn forget(&mut self, _: FlowId) {}

    fn ignores(&self, _: FlowId) -> bool {
        false
    }
}
