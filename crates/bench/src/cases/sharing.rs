//! Allocations: the cost of selecting the flow that sends next. Either all members (flows) are
//! backlogged, or one packet at a time arrives and departs.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use tidegate_core::allocation::{Allocation, AllocationSpec, Heads, NextGrant, Share};
use tidegate_core::meter::Profile;
use tidegate_core::packet::FlowIndex;
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Rate, Time};

use super::{Case, Order};

const PACKET: Bytes = Bytes(1_514);

/// High enough that each of a million members sends again before it counts as idle.
const RATE: Rate = Rate::from_mbps(100_000);

/// The allocation with this name, with default parameters.
pub(super) fn spec(name: &str) -> anyhow::Result<AllocationSpec> {
    let name: StrDeserializer<'_, Error> = name.into_deserializer();
    Ok(AllocationSpec::deserialize(name)?)
}

/// A profile with this rate and burst.
pub(super) fn profile(rate: Rate, burst: Bytes) -> anyhow::Result<Profile> {
    Ok(Profile::new(rate, None, burst, PACKET)?)
}

/// A member's random weight of up to 4, and random round-trip time of up to 0.5 s.
pub(super) fn share(random: &mut Random) -> Share {
    let weight = 1 + u32::try_from(random.below(4)).unwrap_or_default();
    Share { weight, rtt: Some(Duration::from_micros(1_000 + random.below(500_000))) }
}

/// An allocation with `size` members.
fn allocation(name: &str, size: u32, random: &mut Random) -> anyhow::Result<Box<dyn Allocation>> {
    let mut allocation = spec(name)?.build(&profile(RATE, Profile::MAX_BURST)?, Time::ZERO);
    for member in (0..size).map(FlowIndex) {
        allocation.join(Time::ZERO, member, share(random));
    }
    Ok(allocation)
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// All flows of an allocation are always backlogged. An operation selects one flow and sends its packet, and the time
/// advances by that packet at the rate of the token bucket.
pub(super) struct Backlog {
    allocation: Box<dyn Allocation>,
    now: Time,
}

struct AllWait;

impl Heads for AllWait {
    fn head(&self, _member: FlowIndex) -> Option<Bytes> {
        Some(PACKET)
    }
}

impl Backlog {
    pub(super) fn new(name: &str, size: u32, mut random: Random) -> anyhow::Result<Self> {
        let mut allocation = allocation(name, size, &mut random)?;
        let mut order = Order::new(size, &mut random);
        for _ in 0..size {
            allocation.wait(Time::ZERO, FlowIndex(order.next()));
        }
        Ok(Self { allocation, now: Time::ZERO })
    }
}

impl Case for Backlog {
    fn run(&mut self, operations: u64) -> u64 {
        let (mut sum, mut granted) = (0, 0);
        let spacing = nanos(RATE.time_for(PACKET));
        while granted < operations {
            self.now = Time::from_nanos(self.now.nanos() + spacing);
            if let NextGrant::Grant(grant) = self.allocation.grant(self.now, &AllWait) {
                (sum, granted) = (sum + u64::from(grant.flow.0), granted + 1);
            }
        }
        sum
    }
}

/// One flow at a time has a single packet, and packets come at half of the rate of the token bucket. An operation
/// enqueues and dequeues a packet.
pub(super) struct SparseMembers {
    allocation: Box<dyn Allocation>,
    order: Order,
    now: Time,
}

struct OneWaits(FlowIndex);

impl Heads for OneWaits {
    fn head(&self, member: FlowIndex) -> Option<Bytes> {
        (member == self.0).then_some(PACKET)
    }
}

impl SparseMembers {
    pub(super) fn new(name: &str, size: u32, mut random: Random) -> anyhow::Result<Self> {
        let allocation = allocation(name, size, &mut random)?;
        Ok(Self { allocation, order: Order::new(size, &mut random), now: Time::ZERO })
    }
}

impl Case for SparseMembers {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        let spacing = 2 * nanos(RATE.time_for(PACKET));
        for _ in 0..operations {
            self.now = Time::from_nanos(self.now.nanos() + spacing);
            let member = FlowIndex(self.order.next());
            self.allocation.wait(self.now, member);
            if let NextGrant::Grant(grant) = self.allocation.grant(self.now, &OneWaits(member)) {
                sum += u64::from(grant.flow.0);
            }
        }
        sum
    }
}
