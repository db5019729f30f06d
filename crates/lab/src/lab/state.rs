//! The record of a lab. With the record, a lab can be found and removed after any failure.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::process::Process;
use crate::topology::Topology;

/// The record of a lab.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct State {
    pub(super) name: String,
    /// The process that owns the lab. Once it has ended, the next lab that is built removes this
    /// lab.
    pub(super) owner: Process,
    /// Without root, the process whose user and mount namespaces contain the lab.
    pub(super) holder: Option<Process>,
    pub(super) namespaces: Vec<String>,
    pub(super) processes: Vec<Process>,
}

/// Name of the emulated network. It is longer than any valid host name.
pub(super) const NETWORK: &str = "the-network-between-all-the-hosts";

const FILE: &str = "state.json";

impl State {
    /// The record of a lab with `topology`, before any part of it is created.
    pub(super) fn new(name: &str, topology: &Topology) -> Self {
        let hosts = topology.hosts.iter().map(|host| host.name.as_str());
        let gateways = topology.gateways.iter().map(|gateway| gateway.name.as_str());
        let all = hosts.chain(gateways).chain([NETWORK]);
        Self {
            name: name.to_owned(),
            owner: Process::this(),
            holder: None,
            namespaces: all.map(|host| namespace(name, host)).collect(),
            processes: Vec::new(),
        }
    }

    /// The name of the namespace of `host`.
    pub(super) fn namespace(&self, host: &str) -> Option<String> {
        let wanted = namespace(&self.name, host);
        self.namespaces.iter().find(|it| **it == wanted).cloned()
    }

    /// Returns `true` if the lab stays up until it is taken down. Otherwise it ends with the
    /// process that built it.
    pub(super) fn stands_alone(&self) -> bool {
        self.processes.contains(&self.owner)
    }

    /// The namespaces of the lab that this process can see. `inside` is `true` if this process is
    /// in a user namespace that this program has created.
    ///
    /// Without root, the namespaces exist only inside such a user namespace. Outside, namespaces
    /// with the same names belong to other users.
    pub(super) fn namespaces_here(&self, inside: bool) -> &[String] {
        if self.holder.is_none() || inside { &self.namespaces } else { &[] }
    }

    /// The names of the hosts and gateways.
    pub(super) fn hosts(&self) -> Vec<&str> {
        let prefix = namespace(&self.name, "").len();
        let names = self.namespaces.iter().filter_map(|it| it.get(prefix..));
        names.filter(|name| *name != NETWORK).collect()
    }

    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(folder.join(FILE))?)?)
    }

    /// Writes the record atomically: a reader finds either the old record or the new record.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let new = folder.join("state.new");
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        fs::rename(new, folder.join(FILE))?;
        Ok(())
    }
}

fn namespace(lab: &str, host: &str) -> String {
    format!("tidegate-{lab}-{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_lab_is_read_back_unchanged() {
        let text = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[route]]";
        let (topology, _) = crate::topology::parse("x", text);
        let state = State::new("lab-1", &topology.unwrap());
        let folder = std::env::temp_dir().join(format!("tidegate-state-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        state.write(&folder).unwrap();
        let again = State::read(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(again.hosts(), ["a", "b"]);
        assert_eq!(again.namespace("b").as_deref(), Some("tidegate-lab-1-b"));
        assert_eq!(again.namespace("c"), None);
        assert!(again.owner.is_alive());
        assert!(!again.stands_alone());
        assert!(State { processes: vec![again.owner], ..again }.stands_alone());
    }

    /// Catches: a lab without root that removes namespaces of root with the same names.
    #[test]
    fn a_lab_without_root_claims_no_namespaces_outside_its_user_namespace() {
        let (topology, _) =
            crate::topology::parse("x", "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n");
        let state = State::new("lab-2", &topology.unwrap());
        assert_eq!(state.namespaces_here(false).len(), 3);
        let state = State { holder: Some(state.owner), ..state };
        assert_eq!((state.namespaces_here(false).len(), state.namespaces_here(true).len()), (0, 3));
    }
}
