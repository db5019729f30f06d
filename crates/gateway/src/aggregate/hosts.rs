//! Members that stand for hosts: all flows of a host, or of a pair of hosts, are one member.

use std::collections::BTreeMap;

use tidegate_core::packet::FlowIndex;

use crate::policy::HostKey;

/// Members by host, and the number of flows of each host.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    members: BTreeMap<HostKey, FlowIndex>,
    /// The host and the number of flows of each member, by member index.
    of: BTreeMap<u32, (HostKey, u32)>,
}

impl Hosts {
    /// Adds a flow of `key` to its member, if there is one.
    pub(super) fn join(&mut self, key: HostKey) -> Option<FlowIndex> {
        let member = self.members.get(&key).copied()?;
        if let Some((_, flows)) = self.of.get_mut(&member.0) {
            *flows += 1;
        }
        Some(member)
    }

    /// Records `member` for `key`, with one flow.
    pub(super) fn found(&mut self, key: HostKey, member: FlowIndex) {
        self.members.insert(key, member);
        self.of.insert(member.0, (key, 1));
    }

    /// Number of flows of a member; zero if it stands for no host.
    pub(super) fn flows(&self, member: FlowIndex) -> u32 {
        self.of.get(&member.0).map_or(0, |(_, flows)| *flows)
    }

    /// Ends a flow of `member`. Returns `true` if the membership ends with the flow.
    pub(super) fn leave(&mut self, member: FlowIndex) -> bool {
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
