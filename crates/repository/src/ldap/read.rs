//! Reads the committed set of policies, classes and trunks from an LDAP directory. Programs commit
//! a set by writing the *marker*, the attribute `tgGeneration` of the root entry.
//!
//! A directory has no transactions and no history, so only its current state can be read. This
//! state is the set that the marker commits, under three conditions:
//! 1. No change is being written: the root entry has no `tgPending`.
//! 2. Nothing changed while the marker and the set were read. The server's `contextCSN` is then
//!    equal before and after. If the server has no `contextCSN`, or other entries are being
//!    written, the set is read twice and the marker in between. Both reads must return the same
//!    set.
//! 3. No entry is newer than the marker: its `entryCSN` is at most that of the root entry.
//!
//! Otherwise the set is read again, at most [`TRIES`] times. Condition 3 is checked only on servers
//! with `entryCSN`.
//!
//! Source: RFC 2696 (pages); RFC 4533, section 4; draft-chu-ldap-csn (change sequence numbers).
//! Differs: an entry that was removed after the marker leaves no trace, so it is not noticed.

use std::time::Duration;

use ldap3::controls::{Control, ControlParser, ControlType, PagedResults, RawControl};
use ldap3::{Scope, SearchEntry};
use tidegate_config::source::Commit;
use tidegate_config::{Item, Part};
use tokio::task::{JoinError, spawn_blocking};

use super::attributes::{CLASS_CLASS, GENERATION, PENDING, TRUNK_CLASS};
use super::entry::{Entry, parent};
use super::session::{ANSWER, Servers, Session, controls, within};
use super::{conditions, fault, filter, items, nesting, zos};
use crate::{Fault, FaultKind, Snapshot};

/// Reads the committed set. The fields are the servers, the root entry, the kind of commits, and
/// limits.
pub(super) struct Reader {
    pub(super) servers: Servers,
    pub(super) base: String,
    pub(super) commit: Commit,
    pub(super) max_policies: usize,
}

/// The attributes of the root entry at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Root {
    generation: Option<String>,
    pending: bool,
    csn: Option<String>,
}

impl Reader {
    /// Reads the committed set over a new connection.
    pub(super) async fn snapshot(&self) -> Result<Snapshot, Fault> {
        let mut session = self.servers.connect().await?;
        let name = session.name.clone();
        let read = within(WHOLE, &name, self.committed(&mut session)).await;
        session.close().await;
        read
    }

    async fn committed(&self, session: &mut Session) -> Result<Snapshot, Fault> {
        let mut last = Fault::new(FaultKind::Unsteady, "the set keeps changing while it is read");
        let mut before: Option<(Vec<Entry>, Root)> = None;
        for attempt in 0..TRIES {
            if attempt > 1 {
                tokio::time::sleep(PAUSE).await;
            }
            session.refill();
            let csn = self.context(session).await?;
            let root = self.root(session).await?;
            if let Err(fault) = self.complete(&root) {
                last = fault;
                continue;
            }
            let entries = self.entries(session).await?;
            let unchanged = csn.is_some() && self.context(session).await? == csn;
            let root = match before.take() {
                _ if unchanged => root,
                Some((same, between)) if same == entries => between,
                _ => {
                    before = Some((entries, self.root(session).await?));
                    continue;
                }
            };
            match self.complete(&root).and_then(|()| self.not_newer(&root, &entries)) {
                Ok(()) => {
                    let commit = self.commit;
                    // Parsing a large set takes seconds. Another thread does it, so other sources
                    // are not delayed.
                    let read = spawn_blocking(move || proposal(commit, root, entries)).await;
                    return read.unwrap_or_else(|error| Err(ended(&error)));
                }
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    /// Reads the root entry of the repository.
    async fn root(&self, session: &mut Session) -> Result<Root, Fault> {
        let wanted = [GENERATION, PENDING, ENTRY_CSN];
        let Some(entry) = session.entry(&self.base, &wanted).await? else {
            let message = format!(
                "{}: the root entry {} does not exist, or may not be read",
                session.name, self.base
            );
            return Err(Fault::new(FaultKind::Uncommitted, message));
        };
        Ok(Root {
            generation: entry.text(GENERATION)?.map(str::to_owned),
            pending: entry.has(PENDING),
            csn: entry.text(ENTRY_CSN)?.map(str::to_owned),
        })
    }

    /// With markers, checks that the marker exists and that no change is being written.
    fn complete(&self, root: &Root) -> Result<(), Fault> {
        if self.commit == Commit::EachChange {
            return Ok(());
        }
        let uncommitted =
            |why: &str| Fault::new(FaultKind::Uncommitted, format!("{}: {why}", self.base));
        match root {
            Root { pending: true, .. } => {
                Err(uncommitted("a push was begun and is not finished")
                    .help("wait for it, or push again; without `push`, remove `tgPending` from the root entry"))
            }
            Root { generation: None, .. } => {
                Err(uncommitted(&format!("the root entry has no `{GENERATION}`")))
            }
            _ => Ok(()),
        }
    }

    /// Checks that no entry was written after the marker.
    fn not_newer(&self, root: &Root, entries: &[Entry]) -> Result<(), Fault> {
        let (Commit::Marker, Some(marker)) = (self.commit, &root.csn) else { return Ok(()) };
        let csn = |entry: &Entry| entry.values(ENTRY_CSN).first().cloned();
        match entries.iter().find(|entry| csn(entry).is_some_and(|csn| &*csn > marker.as_bytes())) {
            None => Ok(()),
            Some(entry) => Err(Fault::new(
                FaultKind::Uncommitted,
                format!("{} was written after the commit marker `{GENERATION}`", entry.dn),
            )),
        }
    }

    /// The `contextCSN` of the database that holds the root entry. `None` if the server has no such
    /// value.
    async fn context(&self, session: &mut Session) -> Result<Option<String>, Fault> {
        let known = session.context.clone();
        let mut next = Some(known.as_deref().unwrap_or(&self.base).to_owned());
        while let Some(dn) = next {
            let entry = session.entry(&dn, &[CONTEXT_CSN]).await?;
            if let Some(entry) = entry.filter(|entry| entry.has(CONTEXT_CSN)) {
                let mut numbers = entry.texts(CONTEXT_CSN)?;
                numbers.sort_unstable();
                session.context = Some(dn);
                return Ok(Some(numbers.join(" ")));
            }
            next = parent(&dn).map(str::to_owned);
        }
        Ok(None)
    }

    /// Reads the entries of policies, classes and trunks, ordered by name.
    pub(super) async fn entries(&self, session: &mut Session) -> Result<Vec<Entry>, Fault> {
        let mut entries = Vec::new();
        let mut items = 0;
        let mut cookie = Vec::new();
        loop {
            let page = RawControl::from(PagedResults { size: PAGE, cookie });
            let ldap = session.ldap().with_controls(controls([page]));
            let stream = ldap
                .streaming_search(&self.base, Scope::Subtree, &wanted(), ATTRIBUTES.to_vec())
                .await;
            let mut stream = stream.map_err(|error| session.fault(&error))?;
            while let Some(found) = stream.next().await.map_err(|error| session.fault(&error))? {
                if found.is_ref() {
                    let what = format!("{}: below {}", session.name, self.base);
                    return Err(fault::referral(&ldap3::parse_refs(found.0).join(", "), &what));
                }
                session.take_entry()?;
                let entry = Entry::from(SearchEntry::construct(found));
                items += usize::from(items::kind(&entry).is_some());
                if items > self.max_policies {
                    let message =
                        format!("more than {} policies, classes and trunks", self.max_policies);
                    return Err(Fault::new(FaultKind::TooLarge, message));
                }
                entries.push(entry);
            }
            let result =
                session.check(Ok(stream.finish().await), &format!("read below {}", self.base))?;
            cookie = next_page(&result.ctrls)?;
            if cookie.is_empty() {
                entries.sort_by(|one, other| one.dn.cmp(&other.dn));
                return Ok(entries);
            }
        }
    }
}

/// Makes a snapshot of `entries`, which were read below `root`.
fn proposal(commit: Commit, root: Root, entries: Vec<Entry>) -> Result<Snapshot, Fault> {
    let items = items::read(entries)?;
    let parts: Vec<_> = items.iter().map(|(dn, item)| part(dn, item)).collect();
    let revision = match (commit, root.generation) {
        (Commit::Marker, Some(generation)) => generation,
        _ => digest(&parts),
    };
    Ok(Snapshot { revision, parts })
}

fn part(dn: &str, item: &Item) -> Part {
    Part { origin: dn.to_owned(), text: item.text() }
}

/// The fault if the thread that parses the entries has failed.
fn ended(error: &JoinError) -> Fault {
    Fault::new(FaultKind::Protocol, format!("the entries could not be read: {error}"))
}

/// The revision of a set without a marker: a digest of the texts of its parts.
fn digest(parts: &[Part]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher
            .update(part.origin.as_bytes())
            .update(&[0])
            .update(part.text.as_bytes())
            .update(&[0]);
    }
    hasher.finalize().to_hex().chars().take(DIGITS).collect()
}

/// The cookie that requests the next page. It is empty after the last page.
fn next_page(controls: &[Control]) -> Result<Vec<u8>, Fault> {
    let page = controls.iter().find(|control| matches!(control.0, Some(ControlType::PagedResults)));
    let Some(value) = page.and_then(|control| control.1.val.as_ref()) else {
        return Ok(Vec::new());
    };
    nesting::check(value)?;
    Ok(PagedResults::parse(value).cookie)
}

/// The search filter for the entries of policies.
///
/// It lists each object class by name, because some servers do not find the entries of a subclass
/// by its superclass.
pub(super) fn wanted() -> String {
    let [rule, auxiliary] = items::RULE_CLASSES;
    let classes = [
        rule,
        auxiliary,
        CLASS_CLASS,
        TRUNK_CLASS,
        conditions::ASSOCIATION_CLASS,
        items::ACTION_CLASS,
        items::REUSABLE_CLASS,
        filter::FILTER_CLASS,
        zos::RULE_CLASS,
        zos::CATEGORY_CLASS,
    ];
    let classes: String = classes.iter().map(|class| format!("(objectClass={class})")).collect();
    format!("(|{classes})")
}

/// The change sequence numbers (CSN) of an entry and of a database. Their alphabetical order is
/// their order in time.
pub(super) const ENTRY_CSN: &str = "entryCSN";
const CONTEXT_CSN: &str = "contextCSN";
/// All user attributes, and the change sequence number; RFC 4511, section 4.5.1.8.
const ATTRIBUTES: [&str; 2] = ["*", ENTRY_CSN];
/// Entries per page. With entries of 1 kB, a page has 500 kB, far less than the default `max_size`.
const PAGE: i32 = 500;
/// Number of attempts to read a changing set, over about a second.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit for reading the whole set: twelve times the limit for one answer.
const WHOLE: Duration = Duration::from_secs(12 * ANSWER.as_secs());
/// Length of a digest in hexadecimal digits. 64 bits are enough to distinguish two sets.
const DIGITS: usize = 16;
