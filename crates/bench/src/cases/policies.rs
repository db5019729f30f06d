//! The first packet of a flow: finding its policy among many.

use tidegate_core::Packet;
use tidegate_core::packet::Direction;
use tidegate_core::random::Random;
use tidegate_gateway::policy::PolicySet;

use super::mixes::{self, Mix};
use super::{Case, index};

/// An operation finds the policy of a packet.
pub(super) struct FirstMatch {
    policies: PolicySet,
    packets: Vec<(Packet, Direction)>,
}

/// Number of different packets; operations use them in rotation.
const PACKETS: usize = 2_000;

impl FirstMatch {
    pub(super) fn new(mix: &str, size: u32, mut random: Random) -> anyhow::Result<Self> {
        let policies = mixes::policies(Mix::named(mix)?, size, &mut random)?;
        let packets = (0..PACKETS).map(|_| mixes::packet(&policies, &mut random)).collect();
        Ok(Self { policies, packets })
    }
}

impl Case for FirstMatch {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        for (packet, direction) in self.packets.iter().cycle().take(index(operations)) {
            sum += self.policies.lookup(packet, *direction).map_or(0, |at| u64::from(at.0));
        }
        sum
    }
}
