//! Follows an etcd source: reads the set of policies, and asks the server to report (*watch*)
//! changes from the next revision on. If reports were missed, reads the set again.
//!
//! With a commit marker, only the marker's key is watched. A change is read when no further change
//! has followed for [`QUIET`], but at most [`LONGEST_BURST`] after the first change. Every
//! [`LOOK`], the newest revision is requested. This reveals a watch that reports nothing any more,
//! and a server that lost its data.
//!
//! Source: etcd 3.4, `rpc.proto`, `WatchCreateRequest` and `WatchResponse.compact_revision`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::source::Commit;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::Etcd;
use super::client::{Client, Failure, SMALL};
use super::http::{ANSWER, Endpoint, Response};
use super::json::{
    Base64, ErrorBody, Number, RangeAnswer, RangeRequest, WatchCreate, WatchLine, WatchRequest,
};
use super::keys::Range;
use super::read::{self, RANGE, committed};
use crate::{Fault, FaultKind, QUIET, Snapshot};

/// Watches `etcd` until the other end of `sender` is dropped.
pub(super) async fn run(etcd: Arc<Etcd>, sender: Sender<Result<Snapshot, Fault>>) {
    let receiver = sender.clone();
    let mut last_sent = LastSent { sender, revision: None, fault: None };
    tokio::select! {
        () = receiver.closed() => {}
        () = forever(&etcd, &mut last_sent) => {}
    }
}

async fn forever(etcd: &Etcd, last_sent: &mut LastSent) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let mut faults = Vec::new();
        let mut steady = false;
        for endpoint in &etcd.endpoints {
            let Err(fault) = session(etcd, endpoint, last_sent, &mut steady).await;
            tracing::debug!(%fault, steady, "a watch of etcd ends");
            if steady {
                break;
            }
            faults.push(fault);
        }
        // If a watch worked until now, it is opened again without an alarm. The alarm follows if
        // that fails.
        if !steady {
            let fault = super::all(faults);
            etcd.renew(fault.kind);
            last_sent.fault(fault).await;
        } else if began.elapsed() >= LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The messages that the receiver was last sent.
struct LastSent {
    sender: Sender<Result<Snapshot, Fault>>,
    /// Revision of the last snapshot.
    revision: Option<String>,
    /// The fault that was reported, while it lasts.
    fault: Option<Fault>,
}

impl LastSent {
    async fn snapshot(&mut self, snapshot: Snapshot) {
        let recovered = self.fault.take().is_some();
        if recovered || self.revision.as_ref() != Some(&snapshot.revision) {
            self.revision = Some(snapshot.revision.clone());
            // The result is ignored: if the receiver was dropped, the task ends anyway.
            let _ = self.sender.send(Ok(snapshot)).await;
        }
    }

    async fn fault(&mut self, fault: Fault) {
        if self.fault.as_ref() != Some(&fault) {
            self.fault = Some(fault.clone());
            let _ = self.sender.send(Err(fault)).await;
        }
    }
}

/// Follows the source through one member. Sets `steady` once the watch works and the set was read.
async fn session(
    etcd: &Etcd,
    endpoint: &Endpoint,
    last_sent: &mut LastSent,
    steady: &mut bool,
) -> Result<Infallible, Fault> {
    let ranges = match etcd.commit {
        Commit::Marker => vec![(etcd.keys.marker().into_bytes(), Vec::new())],
        Commit::EachChange => etcd.keys.ranges().to_vec(),
    };
    let mut client = etcd.connect(endpoint).await?;
    let mut newest = newest(&mut client, &ranges).await?;
    let mut listener = etcd.connect(endpoint).await?;
    let mut lines = Lines::open(&mut listener, &ranges, newest.header + 1).await?;
    let mut state =
        SessionProgress { seen: newest.changed, read: 0, burst: None, again: None, missed: 0 };
    state.read(etcd, endpoint, &mut client, last_sent).await?;
    *steady = true;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look.reset();
    loop {
        let due = state.due();
        tokio::select! {
            changed = lines.next(&listener) => state.changed(changed?),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                state.read(etcd, endpoint, &mut client, last_sent).await?;
            }
            _ = look.tick() => {
                let now = self::newest(&mut client, &ranges).await?;
                state.look(&client, &newest, &now)?;
                newest = now;
            }
        }
    }
}

/// The revisions that a session has seen, read and missed.
struct SessionProgress {
    /// The newest change that the watch reported or that was read.
    seen: u64,
    /// The revision at which the set was last read.
    read: u64,
    /// Times of the first and the last change that was not read yet.
    burst: Option<(Instant, Instant)>,
    /// Time at which the set is read again even if no further change is reported, because it kept
    /// changing during the last read.
    again: Option<Instant>,
    /// A change that the last request for the newest revision found, but the watch had not reported
    /// yet. The watch must report it before the next request.
    missed: u64,
}

impl SessionProgress {
    fn changed(&mut self, revision: u64) {
        self.seen = self.seen.max(revision);
        if revision > self.read {
            let now = Instant::now();
            let first = self.burst.map_or(now, |(first, _)| first);
            self.burst = Some((first, now));
        }
    }

    /// Time at which the changes are read.
    fn due(&self) -> Option<Instant> {
        let changes = self.burst.map(|(first, last)| (last + QUIET).min(first + LONGEST_BURST));
        changes.into_iter().chain(self.again).min()
    }

    async fn read<'a>(
        &mut self,
        etcd: &'a Etcd,
        endpoint: &'a Endpoint,
        client: &mut Client<'a>,
        last_sent: &mut LastSent,
    ) -> Result<(), Fault> {
        (self.burst, self.again) = (None, None);
        match committed(client, &etcd.keys, etcd.limits, etcd.commit).await {
            Ok(Some(set)) => {
                self.read = set.at;
                self.seen = self.seen.max(set.at);
                last_sent.snapshot(set.snapshot).await;
            }
            // A push is running. It will report another change when it ends.
            Ok(None) => {}
            Err(fault) if of_content(fault.kind) => {
                if fault.kind == FaultKind::Unsteady {
                    self.again = Some(Instant::now() + LONGEST_PAUSE);
                }
                last_sent.fault(fault).await;
                // The connection was closed because a part of the last answer was not read.
                *client = etcd.connect(endpoint).await?;
            }
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn look(&mut self, client: &Client<'_>, before: &Newest, now: &Newest) -> Result<(), Fault> {
        if now.header < before.header {
            return Err(client.unreachable("lost data: its revision went back"));
        }
        if self.missed > self.seen {
            return Err(client.unreachable("does not show changes to its watches"));
        }
        self.missed = now.changed;
        Ok(())
    }
}

/// Returns `true` if the next commit can repair the fault, but a new connection cannot.
fn of_content(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Uncommitted | FaultKind::Unsteady | FaultKind::TooLarge | FaultKind::Malformed
    )
}

/// The newest revisions on a server.
struct Newest {
    /// Revision of the whole store.
    header: u64,
    /// Newest revision of a key in the watched ranges; 0 if the ranges hold no key.
    changed: u64,
}

async fn newest(client: &mut Client<'_>, ranges: &[Range]) -> Result<Newest, Fault> {
    let mut newest = Newest { header: 0, changed: 0 };
    for (key, range_end) in ranges {
        let request = RangeRequest {
            key: Base64(key.clone()),
            range_end: Base64(range_end.clone()),
            limit: Number(1),
            keys_only: true,
            sort_target: Some("MOD"),
            sort_order: Some("DESCEND"),
            ..RangeRequest::default()
        };
        let answer: Result<RangeAnswer, Failure> = client.call(RANGE, &request, SMALL).await;
        let answer = answer.map_err(|failure| read::fault(failure, SMALL_LIMITS))?;
        newest.header = newest.header.max(answer.header.revision.0);
        let changed = answer.kvs.first().map_or(0, |entry| entry.mod_revision.0);
        newest.changed = newest.changed.max(changed);
    }
    Ok(newest)
}

/// The lines of a watch's endless response.
struct Lines<'a> {
    response: Response<'a>,
    /// Received bytes that are not a whole line yet. The bytes before `searched` contain no line
    /// break.
    buffer: Vec<u8>,
    searched: usize,
}

impl<'a> Lines<'a> {
    /// Watches `ranges` from revision `first` on.
    async fn open(client: &mut Client<'a>, ranges: &[Range], first: u64) -> Result<Self, Fault> {
        let requests: Vec<WatchRequest> = ranges
            .iter()
            .map(|(key, range_end)| WatchRequest {
                create_request: WatchCreate {
                    key: Base64(key.clone()),
                    range_end: Base64(range_end.clone()),
                    start_revision: Number(first),
                    fragment: true,
                },
            })
            .collect();
        let requests: Vec<&WatchRequest> = requests.iter().collect();
        let response = client.stream(WATCH, &requests).await;
        let response = response.map_err(|failure| read::fault(failure, SMALL_LIMITS))?;
        let mut lines = Self { response, buffer: Vec::new(), searched: 0 };
        for _ in ranges {
            let created = timeout(ANSWER, lines.answer(client)).await;
            let (created, _) =
                created.map_err(|_| client.unreachable("does not begin to watch"))??;
            if !created {
                return Err(client.protocol("sends changes before the watch begins"));
            }
        }
        Ok(lines)
    }

    /// Waits for the next changes. Returns the revision of the newest. The future may be dropped
    /// while it waits, without losing data.
    async fn next(&mut self, client: &Client<'_>) -> Result<u64, Fault> {
        Ok(self.answer(client).await?.1)
    }

    /// Parses the next line. Returns `true` if the line confirms a new watch, and the revision of
    /// its newest change.
    async fn answer(&mut self, client: &Client<'_>) -> Result<(bool, u64), Fault> {
        let line = self.line(client).await?;
        let parsed: Result<WatchLine, _> = serde_json::from_slice(&line);
        let parsed = parsed.map_err(|_| client.protocol("sends wrong JSON to a watch"))?;
        if let Some(error) = parsed.error {
            let error = ErrorBody { code: error.grpc_code, message: error.message };
            return Err(read::fault(client.failure(&error), SMALL_LIMITS));
        }
        let Some(answer) = parsed.result else {
            return Err(client.protocol("sends wrong JSON to a watch"));
        };
        if answer.canceled && answer.compact_revision.0 > 0 {
            return Err(client.unreachable("has compacted the changes that were to be watched"));
        }
        if answer.canceled {
            let code = if answer.cancel_reason.contains("permission denied") {
                PERMISSION_DENIED
            } else {
                ABORTED
            };
            let error = ErrorBody { code, message: answer.cancel_reason };
            return Err(read::fault(client.failure(&error), SMALL_LIMITS));
        }
        let newest = answer.events.iter().map(|event| event.kv.mod_revision.0).max();
        Ok((answer.created, newest.unwrap_or(0)))
    }

    async fn line(&mut self, client: &Client<'_>) -> Result<Vec<u8>, Fault> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or(&[]);
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.drain(..=self.searched + end).collect();
                self.searched = 0;
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > LONGEST_LINE {
                return Err(client.protocol("sends a line without end to a watch"));
            }
            let piece = self.response.piece().await?;
            self.buffer
                .extend_from_slice(&piece.ok_or_else(|| client.unreachable("closed the watch"))?);
        }
    }
}

/// URL path of a watch.
const WATCH: &str = "/v3/watch";

/// First pause after a fault. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Longest pause after a fault.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Longest time between the first change of a burst and the read. Chosen: half of 2 s, the time
/// within which a commit must take effect.
const LONGEST_BURST: Duration = Duration::from_secs(1);

/// Interval of the requests for the newest revision. Chosen: the same as the longest pause, because
/// each is one small request.
const LOOK: Duration = Duration::from_secs(5);

/// Maximum length of a line of a watch, in bytes. Chosen: ten requests of 1.5 MiB, the default of
/// `--max-request-bytes`.
const LONGEST_LINE: usize = 15 * 1024 * 1024;

/// Limits to state in messages about answers without values.
const SMALL_LIMITS: read::Limits = read::Limits { size: SMALL, policies: 1 };

// Source: gRPC, doc/statuscodes.md.
const PERMISSION_DENIED: u32 = 7;
const ABORTED: u32 = 10;
