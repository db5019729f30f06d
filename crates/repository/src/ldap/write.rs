//! Writes a whole set of policies, classes and trunks into an LDAP directory (a *push*). The
//! *marker*, an attribute of the root entry that commits the set, is written last.
//!
//! First, the root entry gets the attribute `tgPending`. It is removed when the marker is written.
//! A reader in between sees that the set is incomplete, even if this program was killed. Only
//! entries that differ are written.
//!
//! Two concurrent pushes would mix their sets. So the value of `tgPending` is a random token. A
//! push writes the marker only if its token is still there, and if a second read returns its set.
//!
//! Source: RFC 4511, sections 4.6 to 4.8 (modify, add, delete).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};

use ldap3::Mod;
use tidegate_config::Item;

use super::attributes::{GENERATION, PENDING, ROOT_CLASS};
use super::entry::{Entry, OBJECT_CLASS, key};
use super::items;
use super::read::{ENTRY_CSN, Reader};
use super::session::{Session, set};
use crate::{Fault, FaultKind};

/// Replaces the set of the repository by `items`. Returns the new marker.
pub(super) async fn push(
    reader: &Reader,
    session: &mut Session,
    items: &[Item],
) -> Result<String, Fault> {
    let wanted = items::write(items, &reader.base)?;
    let root = root(session, &reader.base).await?;
    let token = begin(session, &root).await?;
    session.refill();
    let before = reader.entries(session).await?;
    let items: BTreeSet<_> = before
        .iter()
        .filter(|entry| items::kind(entry).is_some())
        .map(|entry| key(&entry.dn))
        .collect();
    let mut old: BTreeMap<_, _> = before
        .into_iter()
        .filter(|entry| items::belongs_to_items(entry, &items))
        .map(|entry| (key(&entry.dn), entry))
        .collect();
    let kept: BTreeSet<_> = wanted.iter().map(|entry| key(&entry.dn)).collect();
    let mut removed: Vec<_> = old.keys().filter(|name| !kept.contains(*name)).cloned().collect();
    // Children are removed before parents. The name of a child is longer.
    removed.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in removed {
        if let Some(entry) = old.remove(&name) {
            session.delete(&entry.dn).await?;
        }
    }
    for entry in &wanted {
        match old.get(&key(&entry.dn)) {
            None => session.add(entry, items::is_container(entry)).await?,
            Some(before) => {
                let changes = changes(before, entry);
                if !changes.is_empty() {
                    session.modify(&before.dn, changes).await?;
                }
            }
        }
    }
    session.refill();
    let after = reader.entries(session).await?;
    let expected = wanted.iter().filter(|entry| !items::is_container(entry)).collect::<Vec<_>>();
    verify(&reader.base, &expected, &after)?;
    commit(session, &root, &token).await
}

/// Checks that the entries `found` contain the items in `expected`, and no other items.
fn verify(base: &str, expected: &[&Entry], found: &[Entry]) -> Result<(), Fault> {
    let found: BTreeMap<_, _> = found.iter().map(|entry| (key(&entry.dn), entry)).collect();
    let same = |entry: &&&Entry| {
        found.get(&key(&entry.dn)).is_some_and(|found| changes(found, entry).is_empty())
    };
    let names: BTreeSet<_> = expected.iter().map(|entry| key(&entry.dn)).collect();
    let foreign =
        |(name, entry): &(&String, &&Entry)| items::kind(entry).is_some() && !names.contains(*name);
    if expected.iter().all(|entry| same(&entry)) && !found.iter().any(|entry| foreign(&entry)) {
        return Ok(());
    }
    let message = format!("somebody else writes below {base} at the same time");
    Err(Fault::new(FaultKind::Unsteady, message).help("push again"))
}

/// Reads the root entry. Creates it if it does not exist.
async fn root(session: &mut Session, base: &str) -> Result<Entry, Fault> {
    let attributes = [OBJECT_CLASS, GENERATION, PENDING];
    if let Some(entry) = session.entry(base, &attributes).await? {
        return Ok(entry);
    }
    let rdn = base.split(',').next().and_then(|rdn| rdn.split_once('='));
    let class = rdn.and_then(|(name, _)| {
        let is = |(attribute, _): &&(&str, &str)| name.trim().eq_ignore_ascii_case(attribute);
        ROOT_CLASSES.iter().find(is).map(|(_, class)| *class)
    });
    let (Some((name, value)), Some(class)) = (rdn, class) else {
        let message = format!("the root entry {base} does not exist");
        return Err(Fault::new(FaultKind::Unusable, message)
            .help("make this entry, or use a `base` that begins with ou="));
    };
    let mut entry = Entry::new(base.to_owned(), &[class, ROOT_CLASS]);
    entry.add(name.trim(), value.trim());
    session.add(&entry, false).await?;
    Ok(entry)
}

/// Marks the set as incomplete with a new token. Returns the token.
async fn begin(session: &mut Session, root: &Entry) -> Result<String, Fault> {
    // Each new `RandomState` of the standard library has random keys.
    let token = format!("{:016x}", RandomState::new().build_hasher().finish());
    let mut changes = vec![Mod::Replace(bytes(PENDING), [bytes(&token)].into())];
    if !root.is_a(ROOT_CLASS) {
        changes.insert(0, Mod::Add(bytes(OBJECT_CLASS), [bytes(ROOT_CLASS)].into()));
    }
    session.modify(&root.dn, changes).await?;
    Ok(token)
}

/// Writes the next marker. Fails if the marker differs from the marker in `root`, or if another
/// push has replaced the token.
async fn commit(session: &mut Session, root: &Entry, token: &str) -> Result<String, Fault> {
    let old = root.text(GENERATION)?;
    let number = old.and_then(|old| old.parse::<u64>().ok()).unwrap_or(0);
    let next = number.saturating_add(1).to_string();
    let mut changes = vec![Mod::Delete(bytes(PENDING), [bytes(token)].into())];
    if let Some(old) = old {
        changes.push(Mod::Delete(bytes(GENERATION), [bytes(old)].into()));
    }
    changes.push(Mod::Add(bytes(GENERATION), [bytes(&next)].into()));
    session.modify(&root.dn, changes).await?;
    Ok(next)
}

/// The changes that turn `old` into `new`.
fn changes(old: &Entry, new: &Entry) -> Vec<Mod<Vec<u8>>> {
    let names: BTreeSet<_> = old.attributes.keys().chain(new.attributes.keys()).collect();
    let written = names.into_iter().filter(|name| !name.eq_ignore_ascii_case(ENTRY_CSN));
    let differing = written.filter(|name| {
        let folded = |entry: &Entry| -> BTreeSet<Vec<u8>> {
            let fold = |value: &Vec<u8>| match name.as_str() {
                // Object classes are compared without case.
                "objectclass" => value.to_ascii_lowercase(),
                _ => value.clone(),
            };
            entry.values(name).iter().map(fold).collect()
        };
        folded(old) != folded(new)
    });
    differing.map(|name| Mod::Replace(bytes(name), set(new.values(name)))).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// Attributes that can name a root entry, and the object class for such an entry; RFC 4519, section
/// 3.
const ROOT_CLASSES: [(&str, &str); 3] =
    [("ou", "organizationalUnit"), ("cn", "organizationalRole"), ("o", "organization")];
