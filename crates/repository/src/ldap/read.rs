//! Reads the set that is committed now.
//!
//! A directory has no transactions and no history. So a set is read in its current state. Three
//! conditions make it the set of its marker:
//! 1. No change is being written: the root entry has no `tgPending`.
//! 2. Nothing changed while marker and set were read: `contextCSN` is equal before and after. If
//!    the server has none, or other entries are being written, two readings must give the same set,
//!    with a reading of the marker in between.
//! 3. No entry is newer than the marker: its `entryCSN` is at most that of the root entry.
//!
//! Otherwise the set is read again, [`TRIES`] times at most. Condition 3 holds for servers with
//! `entryCSN` only.
//!
//! Source: RFC 2696 (pages); RFC 4533, section 4; draft-chu-ldap-csn (change sequence numbers).
//! Differs: the removal of an entry without a marker is not noticed, as it leaves no trace.

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

/// The set to read: its server, its root entry, its commits and its limits.
pub(super) struct Reader {
    pub(super) servers: Servers,
    pub(super) base: String,
    pub(super) commit: Commit,
    pub(super) max_policies: usize,
}

/// The root entry at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Root {
    generation: Option<String>,
    pending: bool,
    csn: Option<String>,
}

impl Reader {
    /// Reads the committed set on a connection of its own.
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
                    // A large set takes seconds, in which other sources are to be followed.
                    let read = spawn_blocking(move || proposal(commit, root, entries)).await;
                    return read.unwrap_or_else(|error| Err(ended(&error)));
                }
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    /// The root entry of the repository.
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

    /// Checks that the root entry marks the set as complete.
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

    /// The `contextCSN` of the database with the root entry, if the server has it.
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

    /// The entries that make policies, classes and trunks, in the order of their names.
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

/// The `entries` as a set of policies, below `root`.
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

/// The fault of a reader that was ended.
fn ended(error: &JoinError) -> Fault {
    Fault::new(FaultKind::Protocol, format!("the entries could not be read: {error}"))
}

/// The revision of a set without marker: a digest of its texts.
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

/// The cookie of the next page, empty after the last.
fn next_page(controls: &[Control]) -> Result<Vec<u8>, Fault> {
    let page = controls.iter().find(|control| matches!(control.0, Some(ControlType::PagedResults)));
    let Some(value) = page.and_then(|control| control.1.val.as_ref()) else {
        return Ok(Vec::new());
    };
    nesting::check(value)?;
    Ok(PagedResults::parse(value).cookie)
}

/// The filter for the entries of policies.
///
/// Each class is named by itself: not every server finds the entries of a class by its superclass.
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

/// The change sequence number of an entry, and of a database. They have the order of their texts.
pub(super) const ENTRY_CSN: &str = "entryCSN";
const CONTEXT_CSN: &str = "contextCSN";
/// All user attributes, and the change sequence number; RFC 4511, section 4.5.1.8.
const ATTRIBUTES: [&str; 2] = ["*", ENTRY_CSN];
/// Entries in a page. A page of entries of 1 kB is 500 kB, small against the default `max_size`.
const PAGE: i32 = 500;
/// Number of readings of a changing set, over about a second.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Time limit of the whole reading: twelve silences.
const WHOLE: Duration = Duration::from_secs(12 * ANSWER.as_secs());
/// Hexadecimal digits of a digest: 64 bits tell sets apart.
const DIGITS: usize = 16;
