//! Policing: packets never wait. Packets out of profile are re-marked or dropped.

use std::time::Duration;

use tidegate_core::allocation::{Allocation, AllocationSpec};
use tidegate_core::packet::Fifo;
use tidegate_core::{Cx, PacketId, Reason, Time};

use super::peak::Peak;
use super::progress::Progress;
use super::{Tokens, conditioner};
use crate::policy::{Conditioning, Exceed, Profile};
use crate::report::Mechanisms;

/// A meter, and the action for packets out of profile.
pub(super) struct Policer {
    profile: Profile,
    allocation: Box<dyn Allocation>,
    peak: Peak,
    /// Action out of profile; `None` to count only.
    exceed: Option<Exceed>,
    allocation_spec: AllocationSpec,
}

impl Policer {
    pub(super) fn new(
        conditioning: &Conditioning,
        exceed: Option<Exceed>,
        tokens: Tokens,
        now: Time,
    ) -> Self {
        let Conditioning { profile, allocation, .. } = conditioning;
        Self {
            profile: *profile,
            allocation: conditioner::allocation(conditioning, tokens, now),
            peak: Peak::new(profile.peak(), Duration::ZERO),
            exceed,
            allocation_spec: allocation.clone(),
        }
    }

    pub(super) fn adopt(&mut self, to: &Conditioning, exceed: Option<Exceed>, now: Time) -> bool {
        let same = self.allocation_spec == to.allocation;
        if same {
            self.exceed = exceed;
            if self.profile != to.profile {
                self.profile = to.profile;
                self.allocation.set_profile(now, &self.profile);
                self.peak.set(self.profile.peak(), Duration::ZERO);
            }
        }
        same
    }

    /// The allocation of the policer.
    pub(super) fn mechanisms(&self) -> Mechanisms {
        let allocation = Some(self.allocation_spec.name().into());
        Mechanisms { allocation, ..Mechanisms::default() }
    }

    pub(super) fn offer(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) -> Progress {
        let mut progress = Progress::default();
        let arrived = &mut cx.pool[&packet];
        let len = arrived.charged();
        let conforms = !self.profile.is_too_long(arrived)
            && self.peak.ready_at() <= cx.now
            && self.allocation.try_take(cx.now, arrived.flow_index(), len);
        if conforms {
            self.peak.take(cx.now, len);
        }
        match self.exceed {
            Some(Exceed::Drop) if !conforms => {
                cx.drop(packet, Reason::OutOfProfile);
                return progress;
            }
            Some(Exceed::Mark { in_profile: Some(dscp), .. }) if conforms => arrived.set_dscp(dscp),
            Some(Exceed::Mark { out_of_profile, .. }) if !conforms => {
                arrived.set_dscp(out_of_profile)
            }
            _ => {}
        }
        if conforms {
            progress.conforms(arrived, cx.now);
        } else {
            progress.exceeding.add(arrived.wire_len());
            progress.controlled.add(arrived);
        }
        out.push(cx.pool, packet);
        progress
    }

    pub(super) fn allocation(&mut self) -> &mut dyn Allocation {
        &mut *self.allocation
    }

    pub(super) const fn profile(&self) -> &Profile {
        &self.profile
    }
}
