//! Finds the LDAP entries of a repository by their distinguished names.

use std::collections::BTreeMap;

use super::entry::{Entry, key, parent};
use super::zos;
use crate::Fault;

/// The entries that the server sent.
pub(super) struct Index {
    /// Entries by the normal form of their name ([`key`]).
    entries: BTreeMap<String, Entry>,
    /// The keys of the entries below each entry.
    below: BTreeMap<String, Vec<String>>,
    /// The keys of service categories (entries of the z/OS schema), by their names in lower case.
    services: BTreeMap<String, String>,
}

impl Index {
    /// An index of `entries`.
    pub(super) fn new(entries: Vec<Entry>) -> Self {
        let mut index =
            Self { entries: BTreeMap::new(), below: BTreeMap::new(), services: BTreeMap::new() };
        for entry in entries {
            let key = key(&entry.dn);
            if let Some(parent) = parent(&key) {
                index.below.entry(parent.to_owned()).or_default().push(key.clone());
            }
            if let Some(name) = zos::service_name(&entry) {
                index.services.insert(name.to_lowercase(), key.clone());
            }
            index.entries.insert(key, entry);
        }
        index
    }

    /// The entry `dn`, to which the attribute `attribute` of `entry` refers.
    pub(super) fn named(&self, entry: &Entry, attribute: &str, dn: &str) -> Result<&Entry, Fault> {
        let found = self.entries.get(&key(dn));
        let why = || format!("names {dn}, which is no entry of a policy below the root entry");
        found.ok_or_else(|| entry.malformed(attribute, &why()))
    }

    /// The entries whose parent is `dn`.
    pub(super) fn below(&self, dn: &str) -> impl Iterator<Item = &Entry> {
        self.below.get(&key(dn)).into_iter().flatten().filter_map(|key| self.entries.get(key))
    }

    /// The service category with this name.
    pub(super) fn service(&self, name: &str) -> Option<&Entry> {
        self.entries.get(self.services.get(&name.to_lowercase())?)
    }

    /// All entries.
    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}
