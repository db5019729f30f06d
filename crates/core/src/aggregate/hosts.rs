//! Members that are hosts: all flows of a host, or of a pair, are one member.

use std::collections::BTreeMap;

use crate::packet::Member;
use crate::policy::HostKey;

/// Which member stands for which hosts, and how many flows it is.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    members: BTreeMap<HostKey, Member>,
    /// By the number of a member.
    of: BTreeMap<u32, (HostKey, u32)>,
}

impl Hosts {
    /// The member of a further flow of `key`, if there is one already.
    pub(super) fn join(&mut self, key: HostKey) -> Option<Member> {
        let member = self.members.get(&key).copied()?;
        if let Some((_, flows)) = self.of.get_mut(&member.0) {
            *flows += 1;
        }
        Some(member)
    }

    /// `member` stands for `key`, which has one flow.
    pub(super) fn found(&mut self, key: HostKey, member: Member) {
        self.members.insert(key, member);
        self.of.insert(member.0, (key, 1));
    }

    /// How many flows a member is; none if it stands for no hosts.
    pub(super) fn flows(&self, member: Member) -> u32 {
        self.of.get(&member.0).map_or(0, |(_, flows)| *flows)
    }

    /// A flow of `member` ends; says whether the membership does.
    pub(super) fn leave(&mut self, member: Member) -> bool {
        let Some((key, flows)) = self.of.get_mut(&member.0) else { return true };
        *flows -= 1;
        if *flows > 0 {
            return false;
        }
        let key = *key;
        self.members.remove(&key);
        self.of.remove(&member.0);
        true
    }
}
