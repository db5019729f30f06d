//! Watches an LDAP directory for commits, and sends the set of each commit to the gateway. Programs
//! commit a set by writing the *marker*, an attribute of the root entry.
//!
//! The server reports changes: a search with the control of RFC 4533, in the mode
//! refreshAndPersist, stays open. With markers, the search covers only the root entry; with
//! `each-change`, all entries. If the server does not support the control, the root entry is read
//! every `poll`. The set itself is always read over a separate connection (`read.rs`).
//!
//! Source: RFC 4533, sections 1.3 and 3.4.
//! Differs: the entries that the control transfers are not used. They only show that something has
//! changed.

use std::sync::Arc;
use std::time::Duration;

use ldap3::controls::{
    MakeCritical, RawControl, RefreshMode, SyncInfo, SyncRequest, parse_syncinfo,
};
use ldap3::{ResultEntry, Scope, SearchEntry, SearchStream};
use tidegate_config::source::Commit;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::attributes::GENERATION;
use super::entry::Entry;
use super::read::{Reader, wanted};
use super::session::{ANYTHING, Session, controls};
use super::{contained, fault, nesting};
use crate::{Fault, FaultKind, QUIET, Snapshot};

type Sender = mpsc::Sender<Result<Snapshot, Fault>>;

/// Watches the source until the receiver is dropped.
pub(super) async fn watch(reader: Arc<Reader>, poll: Duration, to: Sender) {
    let mut state = PollState { to, fault: None, revision: None, pause: FIRST_PAUSE };
    loop {
        let closed = state.to.clone();
        let end = tokio::select! {
            () = closed.closed() => return,
            end = contained(state.follow(&reader, poll)) => end,
        };
        match end {
            Ok(()) => return,
            Err(fault) => state.fault(fault).await,
        }
        let pause = state.next_pause();
        tokio::select! {
            () = closed.closed() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct PollState {
    to: Sender,
    /// The fault that was last sent to the receiver, while it lasts.
    fault: Option<Fault>,
    /// The revision that was sent last.
    revision: Option<String>,
    /// Pause before the next attempt.
    pause: Duration,
}

impl PollState {
    /// Sends commits to the receiver until the connection fails. Returns `Ok` when the receiver was
    /// dropped.
    async fn follow(&mut self, reader: &Reader, poll: Duration) -> Result<(), Fault> {
        let mut session = reader.servers.connect().await?;
        let mut news = News::open(&mut session, reader).await?;
        loop {
            let again = match reader.snapshot().await {
                Ok(snapshot) => {
                    if !self.propose(snapshot).await {
                        return Ok(());
                    }
                    if news.is_temporary() {
                        // The set is read after the new search has begun. So changes before the
                        // search are found too.
                        news = News::open(&mut session, reader).await?;
                        continue;
                    }
                    None
                }
                // The server is at fault, not the set. A new connection is needed.
                Err(fault) if lasts(fault.kind) => return Err(fault),
                Err(fault) => {
                    self.fault(fault).await;
                    Some(self.next_pause())
                }
            };
            loop {
                let first = tokio::select! {
                    first = news.next(&mut session, reader, poll) => first?,
                    () = sleep(again) => break,
                };
                let last = self.settle(first, &mut news, &mut session, reader, poll).await?;
                session.refill();
                if self.fault.is_some() || last.is_none() || last != self.revision {
                    break;
                }
            }
        }
    }

    /// Waits until no change has been reported for [`QUIET`], but at most [`LATEST`] after the
    /// first change. Returns the last marker.
    async fn settle(
        &self,
        first: Option<String>,
        news: &mut News,
        session: &mut Session,
        reader: &Reader,
        poll: Duration,
    ) -> Result<Option<String>, Fault> {
        let mut last = first;
        let begin = Instant::now();
        loop {
            let quiet = Instant::now() + QUIET;
            let marked = reader.commit == Commit::Marker;
            let until = if marked { quiet.min(begin + LATEST) } else { quiet };
            tokio::select! {
                next = news.next(session, reader, poll) => last = next?,
                () = tokio::time::sleep_until(until) => return Ok(last),
            }
            if marked && Instant::now() >= begin + LATEST {
                return Ok(last);
            }
        }
    }

    /// Sends `snapshot`, unless it was the last snapshot sent. Returns `false` if the receiver was
    /// dropped.
    async fn propose(&mut self, snapshot: Snapshot) -> bool {
        self.pause = FIRST_PAUSE;
        let over = self.fault.take().is_some();
        if !over && self.revision.as_ref() == Some(&snapshot.revision) {
            return true;
        }
        self.revision = Some(snapshot.revision.clone());
        self.to.send(Ok(snapshot)).await.is_ok()
    }

    /// Sends `fault`, unless it was the last fault sent.
    async fn fault(&mut self, fault: Fault) {
        if self.fault.as_ref() != Some(&fault) {
            self.fault = Some(fault.clone());
            // The result is ignored: if the receiver was dropped, the task notices it later.
            let _ = self.to.send(Err(fault)).await;
        }
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// Returns `true` if the server is at fault and will report no changes.
const fn lasts(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Unreachable | FaultKind::Refused | FaultKind::Untrusted | FaultKind::Protocol
    )
}

/// The way to notice changes: the server reports them, or the gateway polls.
enum News {
    /// The server reports them in a search that stays open.
    Pushed(Box<SearchStream<'static, &'static str, Vec<&'static str>>>),
    /// The gateway polls the marker. The value is the last marker.
    Polled(Option<String>),
    /// The root entry does not exist yet. The gateway polls until it exists.
    Absent,
}

impl News {
    /// Asks the server to report changes.
    async fn open(session: &mut Session, reader: &Reader) -> Result<Self, Fault> {
        let request =
            SyncRequest { mode: RefreshMode::RefreshAndPersist, cookie: None, reload_hint: false };
        let control = controls([RawControl::from(request.critical())]);
        let (scope, filter, attributes) = match reader.commit {
            Commit::Marker => (Scope::Base, ANYTHING.to_owned(), vec![GENERATION]),
            Commit::EachChange => (Scope::Subtree, wanted(), vec![NO_ATTRIBUTES]),
        };
        let ldap = session.ldap_without_limit().with_controls(control);
        let stream = ldap.streaming_search(&reader.base, scope, &filter, attributes).await;
        let mut stream = stream.map_err(|error| session.fault(&error))?;
        // The server first sends the current entries, then a message that is not an entry.
        loop {
            let next = tokio::time::timeout(super::session::ANSWER, stream.next()).await;
            match next
                .map_err(|_| fault::silent(&session.name))?
                .map_err(|error| session.fault(&error))?
            {
                Some(message) if message.is_ref() => {
                    return Err(fault::referral(
                        &ldap3::parse_refs(message.0).join(", "),
                        &session.name,
                    ));
                }
                Some(message) if message.is_intermediate() => {
                    if is_refreshed(message)? {
                        return Ok(Self::Pushed(Box::new(stream)));
                    }
                }
                Some(_) => {}
                None => {
                    let result = stream.finish().await;
                    if result.rc == fault::NO_SUCH_OBJECT {
                        return Ok(Self::Absent);
                    }
                    if [0, fault::UNAVAILABLE_EXTENSION, fault::UNWILLING].contains(&result.rc) {
                        return Ok(Self::Polled(None));
                    }
                    session.check(Ok(result), &format!("watch {}", reader.base))?;
                }
            }
        }
    }

    /// Returns `true` if polling will end, because the root entry does not exist yet.
    const fn is_temporary(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Waits for the next change. Returns the marker if it is known.
    async fn next(
        &mut self,
        session: &mut Session,
        reader: &Reader,
        poll: Duration,
    ) -> Result<Option<String>, Fault> {
        match self {
            Self::Pushed(stream) => pushed(stream, session, reader).await,
            Self::Polled(seen) => loop {
                tokio::time::sleep(poll).await;
                if reader.commit == Commit::EachChange {
                    return Ok(None);
                }
                let entry = session.entry(&reader.base, &[GENERATION]).await?;
                let marker = entry.as_ref().map(marker).transpose()?.flatten();
                if marker.is_none() || marker != *seen {
                    seen.clone_from(&marker);
                    return Ok(marker);
                }
            },
            Self::Absent => {
                tokio::time::sleep(poll).await;
                Ok(None)
            }
        }
    }
}

/// Waits for the next change that the server reports.
async fn pushed(
    stream: &mut SearchStream<'static, &'static str, Vec<&'static str>>,
    session: &mut Session,
    reader: &Reader,
) -> Result<Option<String>, Fault> {
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            () = tokio::time::sleep(PING) => {
                session.entry(&reader.base, &[NO_ATTRIBUTES]).await?;
                continue;
            }
        };
        match message.map_err(|error| session.fault(&error))? {
            Some(message) if message.is_intermediate() || message.is_ref() => {}
            Some(message) => return marker(&Entry::from(SearchEntry::construct(message))),
            None => return Err(fault::closed(&session.name)),
        }
    }
}

fn marker(entry: &Entry) -> Result<Option<String>, Fault> {
    Ok(entry.text(GENERATION)?.map(str::to_owned))
}

/// Returns `true` if `message` says that all current entries were sent and changes follow.
fn is_refreshed(message: ResultEntry) -> Result<bool, Fault> {
    for value in message.0.clone().expect_constructed().into_iter().flatten() {
        if value.id == SYNC_INFO
            && let Some(value) = value.expect_primitive()
        {
            nesting::check(&value)?;
        }
    }
    Ok(match parse_syncinfo(message) {
        SyncInfo::RefreshDelete { refresh_done, .. }
        | SyncInfo::RefreshPresent { refresh_done, .. } => refresh_done,
        SyncInfo::NewCookie(_) | SyncInfo::SyncIdSet { .. } => false,
    })
}

/// Sleeps for `time`; forever if it is `None`.
async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Tag number of the element that holds the value of an intermediate response; RFC 4511, section
/// 4.13.
const SYNC_INFO: u64 = 1;
/// Requests no attributes, in place of a list of attributes; RFC 4511, section 4.5.1.8.
const NO_ATTRIBUTES: &str = "1.1";
/// Longest time between the first unread marker and the read, even if more markers follow.
const LATEST: Duration = Duration::from_secs(1);
/// Interval of requests that test whether a server without reports still answers.
const PING: Duration = Duration::from_secs(15);
/// Pause before the second attempt. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause. A server that works again is found within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
