//! Reads the committed set of policies, classes and trunks (*items*): the keys as they were when
//! the *marker* was last changed. The marker is the key `commit`, which is written last.
//!
//! etcd keeps the history of keys. A set that is read at the marker's `mod_revision` is complete,
//! even while a push writes other keys. If compaction has removed the history, the current keys are
//! read instead. They count as the committed set if no key is newer than the marker and the digest
//! in the marker matches.
//!
//! Source: etcd 3.4, `rpc.proto`, `RangeRequest.revision` and `CompactionRequest`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_config::Part;
use tidegate_config::source::Commit;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::client::{Client, Failure, SMALL};
use super::json::{Base64, Header, KeyValue, Number, RangeAnswer, RangeRequest};
use super::keys::{self, Holds, Keys, Range, shown};
use crate::{Fault, FaultKind, Snapshot};

/// Limits for one read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum bytes of keys and values.
    pub(super) size: usize,
    /// Maximum number of policies, classes and trunks.
    pub(super) policies: usize,
}

/// A set of policies, and the revision of the store at which it was read.
pub(super) struct StoredSet {
    pub(super) at: u64,
    pub(super) snapshot: Snapshot,
}

/// The value of a marker that a push wrote. A marker that an operator wrote has any other text.
#[derive(Deserialize, Serialize)]
pub(super) struct Stamp {
    /// Number of policies, classes and trunks.
    pub(super) items: usize,
    /// Digest of their keys and values.
    pub(super) digest: String,
    /// Time of the push, in seconds since 1970.
    pub(super) written_s: u64,
}

/// Reads the committed set. Without markers, returns `None` while a push is running.
///
/// # Errors
///
/// If there is no committed set, if the set cannot be read, or if it contains unknown keys or
/// invalid values.
pub(super) async fn committed(
    client: &mut Client<'_>,
    keys: &Keys,
    limits: Limits,
    commit: Commit,
) -> Result<Option<StoredSet>, Fault> {
    let read = async {
        match commit {
            Commit::Marker => marked(client, keys, limits).await.map(Some),
            Commit::EachChange => present(client, keys, limits).await,
        }
    };
    timeout(WHOLE_SET, read).await.unwrap_or_else(|_| {
        let message = format!("reading the set takes longer than {} s", WHOLE_SET.as_secs());
        Err(Fault::new(FaultKind::Unreachable, message))
    })
}

/// The set at the revision of the marker.
async fn marked(client: &mut Client<'_>, keys: &Keys, limits: Limits) -> Result<StoredSet, Fault> {
    for _ in 0..TRIES {
        let (header, marker) = marker(client, keys).await?;
        let Some(marker) = marker else { return Err(uncommitted(keys)) };
        let at = marker.mod_revision.0;
        match scan(client, &keys.ranges(), limits, at, false).await {
            Ok(found) => return set(keys, limits, at, &found.entries).await,
            Err(Failure::NoHistory) => {}
            Err(failure) => return Err(fault(failure, limits)),
        }
        match scan(client, &keys.ranges(), limits, header.revision.0, false).await {
            Ok(found) => return unchanged(keys, limits, &marker, &found.entries).await,
            Err(Failure::NoHistory) => {}
            Err(failure) => return Err(fault(failure, limits)),
        }
    }
    let message = format!(
        "history below {} is compacted faster than it is read",
        shown(keys.prefix().as_bytes())
    );
    Err(Fault::new(FaultKind::Unsteady, message).help("compact less often: hours, not seconds"))
}

/// The marker, and the header of the answer that contained it.
async fn marker(client: &mut Client<'_>, keys: &Keys) -> Result<(Header, Option<KeyValue>), Fault> {
    let request =
        RangeRequest { key: Base64(keys.marker().into_bytes()), ..RangeRequest::default() };
    let answer: RangeAnswer =
        client.call(RANGE, &request, LONGEST_MARKER).await.map_err(|failure| match failure {
            Failure::TooLong => Fault::new(
                FaultKind::TooLarge,
                format!("the value of key `{}` is too long", keys.marker()),
            )
            .help("write a short value, such as a date"),
            failure => fault(failure, Limits { size: LONGEST_MARKER, policies: 1 }),
        })?;
    Ok((answer.header, answer.kvs.into_iter().next()))
}

/// Returns the current keys as the set of `marker`. Fails if a key changed after the marker was
/// written.
async fn unchanged(
    keys: &Keys,
    limits: Limits,
    marker: &KeyValue,
    entries: &[KeyValue],
) -> Result<StoredSet, Fault> {
    let at = marker.mod_revision.0;
    let unsteady = |what: String| {
        let message = format!(
            "{what} after the marker `{}`, and the history at the marker is compacted",
            keys.marker()
        );
        Fault::new(FaultKind::Unsteady, message)
            .help("finish the change and write the marker again")
    };
    if let Some(newer) = entries.iter().find(|entry| entry.mod_revision.0 > at) {
        return Err(unsteady(format!("key {} changed", shown(&newer.key.0))));
    }
    if let Ok(stamp) = serde_json::from_slice::<Stamp>(&marker.value.0)
        && stamp.digest != digest(items(keys, entries)).to_hex().as_str()
    {
        return Err(unsteady("keys were removed".to_owned()));
    }
    set(keys, limits, at, entries).await
}

/// Returns the current keys as a set, or `None` while a push runs.
async fn present(
    client: &mut Client<'_>,
    keys: &Keys,
    limits: Limits,
) -> Result<Option<StoredSet>, Fault> {
    for _ in 0..TRIES {
        let found = match scan(client, &keys.ranges(), limits, 0, false).await {
            Ok(found) => found,
            Err(Failure::NoHistory) => continue,
            Err(failure) => return Err(fault(failure, limits)),
        };
        if found.entries.iter().any(|entry| matches!(keys.holds(&entry.key.0), Ok(Holds::Lock))) {
            return Ok(None);
        }
        // A store without keys may have lost its data. Only a marker shows that an empty set is
        // intended.
        if found.entries.is_empty() {
            return Err(uncommitted(keys));
        }
        return set(keys, limits, found.header, &found.entries).await.map(Some);
    }
    Err(Fault::new(FaultKind::Unsteady, "history is compacted faster than it is read"))
}

fn uncommitted(keys: &Keys) -> Fault {
    Fault::new(FaultKind::Uncommitted, format!("there is no key `{}`", keys.marker()))
}

/// Parses `entries`, read at revision `at`, into a snapshot. Lets other tasks of the thread run in
/// between.
async fn set(
    keys: &Keys,
    limits: Limits,
    at: u64,
    entries: &[KeyValue],
) -> Result<StoredSet, Fault> {
    let mut parts = Vec::new();
    for entry in entries {
        if let Holds::Item(kind, name) = keys.holds(&entry.key.0)? {
            let origin = String::from_utf8_lossy(&entry.key.0).into_owned();
            let text = keys::item(kind, name, &entry.key.0, &entry.value.0)?.text();
            parts.push(Part { origin, text });
            if parts.len().is_multiple_of(PARSED_AT_ONCE) {
                yield_now().await;
            }
        }
    }
    if parts.len() > limits.policies {
        return Err(too_many(limits));
    }
    let revision = revision(at, &digest(items(keys, entries)));
    Ok(StoredSet { at, snapshot: Snapshot { revision, parts } })
}

/// Keys and values of the entries that are policies, classes or trunks.
fn items<'a>(keys: &Keys, entries: &'a [KeyValue]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let is_item = |entry: &&KeyValue| matches!(keys.holds(&entry.key.0), Ok(Holds::Item(..)));
    entries.iter().filter(is_item).map(|entry| (&*entry.key.0, &*entry.value.0))
}

/// The digest of keys and values, in the order of keys.
pub(super) fn digest<'a>(items: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for (key, value) in items {
        for part in [key, value] {
            let length = u64::try_from(part.len()).expect("a length has 64 bits");
            hasher.update(&length.to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize()
}

/// The name of a commit: its revision in etcd, and a part of its digest. A server that lost its
/// data counts revisions from 1 again. It may reach the same revision with another set.
pub(super) fn revision(at: u64, digest: &blake3::Hash) -> String {
    let hex = digest.to_hex();
    format!("{at}-{}", hex.get(..SHORT_DIGEST).unwrap_or(&hex))
}

/// Keys that were read at one revision.
pub(super) struct StoredKeys {
    /// The revision of the store at the first page.
    pub(super) header: u64,
    pub(super) entries: Vec<KeyValue>,
}

/// Reads `ranges` in pages, at `revision`. With `revision` 0, reads the current keys.
///
/// # Errors
///
/// See [`Failure`]. If a limit is exceeded, this is a fault too.
pub(super) async fn scan(
    client: &mut Client<'_>,
    ranges: &[Range],
    limits: Limits,
    revision: u64,
    keys_only: bool,
) -> Result<StoredKeys, Failure> {
    let mut found = StoredKeys { header: revision, entries: Vec::new() };
    let mut left = limits.size;
    let mut page = PAGE;
    for (from, end) in ranges {
        let mut from = from.clone();
        loop {
            let request = RangeRequest {
                key: Base64(from.clone()),
                range_end: Base64(end.clone()),
                limit: Number(page),
                revision: Number(found.header),
                keys_only,
                ..RangeRequest::default()
            };
            let answer: RangeAnswer = match client.call(RANGE, &request, longest_answer(left)).await
            {
                Err(Failure::TooLongForServer) if page > 1 => {
                    page /= 2;
                    continue;
                }
                answer => answer?,
            };
            if found.header == 0 {
                found.header = answer.header.revision.0;
            }
            if answer.count.0
                > u64::try_from(limits.policies.saturating_add(NOT_ITEMS)).unwrap_or(u64::MAX)
            {
                return Err(too_many(limits).into());
            }
            for entry in answer.kvs {
                if entry.key.0 < from || !(entry.key.0 < *end || end == &[0]) {
                    return Err(client
                        .protocol("answers with keys that were not asked for")
                        .into());
                }
                left = left
                    .checked_sub(entry.key.0.len() + entry.value.0.len())
                    .ok_or_else(|| too_large(limits))?;
                from = entry.key.0.clone();
                from.push(0);
                found.entries.push(entry);
                if found.entries.len() > limits.policies.saturating_add(NOT_ITEMS) {
                    return Err(too_many(limits).into());
                }
            }
            if !answer.more {
                break;
            }
            if request.key.0 == from {
                return Err(client
                    .protocol("says that there are more keys, and sends none")
                    .into());
            }
        }
    }
    Ok(found)
}

/// Maximum bytes of an answer whose keys and values have at most `left` bytes.
fn longest_answer(left: usize) -> usize {
    let page = usize::try_from(PAGE).expect("a page has few keys");
    left.div_ceil(3).saturating_mul(4).saturating_add(page * ENTRY_OVERHEAD + SMALL)
}

/// Translates the failure of a read into a fault for the operator.
pub(super) fn fault(failure: Failure, limits: Limits) -> Fault {
    match failure {
        Failure::Fault(fault) => fault,
        Failure::TooLong => too_large(limits),
        Failure::TooLongForServer => {
            Fault::new(FaultKind::TooLarge, "a value is too long for the server's JSON gateway")
        }
        Failure::NoHistory => {
            Fault::new(FaultKind::Unsteady, "history was compacted while it was read")
        }
    }
}

fn too_large(limits: Limits) -> Fault {
    Fault::new(FaultKind::TooLarge, format!("the set has more than {} B", limits.size))
}

fn too_many(limits: Limits) -> Fault {
    let message = format!("the set has more than {} policies, classes and trunks", limits.policies);
    Fault::new(FaultKind::TooLarge, message)
}

/// URL path that reads keys.
pub(super) const RANGE: &str = "/v3/kv/range";

/// Keys per answer. Chosen: 1,000 policies of 1 kB fit into 4 MiB, which gRPC accepts by default.
const PAGE: u64 = 1000;

/// Bytes of a JSON entry besides its key and value: the field names, and three numbers of 20
/// digits.
const ENTRY_OVERHEAD: usize = 256;

/// Bytes of the longest answer with a marker.
const LONGEST_MARKER: usize = SMALL;

/// Number of keys that are read but are no items: the marker and the lock.
const NOT_ITEMS: usize = 2;

/// Number of attempts to read the set, because a compaction may interrupt a read.
const TRIES: usize = 4;

/// Hexadecimal digits of the digest in a commit's name. Chosen: the digits of two different sets
/// are equal with a probability of 2^-32.
const SHORT_DIGEST: usize = 8;

/// Number of items parsed before other tasks may run. Chosen: 12 ms of work in a debug build, which
/// parses 100,000 items in 12 s.
const PARSED_AT_ONCE: usize = 100;

/// Time limit for reading a whole set. Chosen: twice the limit for one answer.
const WHOLE_SET: Duration = Duration::from_secs(120);
