//! Reading the committed set: a marker, and the keys as they were at the revision of its last
//! change.
//!
//! etcd keeps history. A set that is read at the marker's `mod_revision` is therefore complete,
//! even while a push writes other keys. Compaction removes history. Then the present is the
//! committed set, if no key is newer than the marker and the digest in the marker agrees.
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

/// Limits of a reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of keys and values.
    pub(super) size: usize,
    /// Policies, classes and trunks.
    pub(super) policies: usize,
}

/// A set of policies, and the revision of the store it was read at.
pub(super) struct StoredSet {
    pub(super) at: u64,
    pub(super) snapshot: Snapshot,
}

/// The value of a marker that a push wrote. Markers written by hand have other values.
#[derive(Deserialize, Serialize)]
pub(super) struct Stamp {
    /// Policies, classes and trunks.
    pub(super) items: usize,
    /// Digest of their keys and values.
    pub(super) digest: String,
    /// Seconds since 1970.
    pub(super) written_s: u64,
}

/// Reads the committed set; none if every change is a commit and a push is running.
///
/// # Errors
///
/// If there is none, it cannot be read, or it is not what a repository holds.
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

/// The set at the marker.
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

/// The marker, and the head of the answer that had it.
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

/// The present as the set of `marker`, if nothing changed after it.
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

/// The set as it is now; none while a push runs.
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
        // An emptied store looks like this too: only a marker says that it is meant.
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

/// The snapshot of `entries` at revision `at`. Other tasks of the thread run in between.
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

/// Keys and values of the items among `entries`.
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

/// The name of a commit: its revision in etcd and a part of its digest. A server that lost its data
/// counts revisions from 1 again, and may reach the same number with another set.
pub(super) fn revision(at: u64, digest: &blake3::Hash) -> String {
    let hex = digest.to_hex();
    format!("{at}-{}", hex.get(..SHORT_DIGEST).unwrap_or(&hex))
}

/// Keys that were read at one revision.
pub(super) struct StoredKeys {
    /// The revision of the store when the first of them were read.
    pub(super) header: u64,
    pub(super) entries: Vec<KeyValue>,
}

/// Reads `ranges` at `revision`, or at the present if it is 0, in pages.
///
/// # Errors
///
/// See [`Failure`]; a limit that is exceeded is a fault.
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

/// Bytes of the longest answer whose keys and values have `left` bytes.
fn longest_answer(left: usize) -> usize {
    let page = usize::try_from(PAGE).expect("a page has few keys");
    left.div_ceil(3).saturating_mul(4).saturating_add(page * ENTRY_OVERHEAD + SMALL)
}

/// The fault that a failed reading stands for.
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

/// Path of reading.
pub(super) const RANGE: &str = "/v3/kv/range";

/// Keys in one answer. Chosen: policies of 1 kB fit into the 4 MiB that gRPC passes on by default.
const PAGE: u64 = 1000;

/// Bytes of an entry in JSON beyond its key and value: names of fields and three numbers of 20
/// digits.
const ENTRY_OVERHEAD: usize = 256;

/// Bytes of the longest answer with a marker.
const LONGEST_MARKER: usize = SMALL;

/// Keys that are read and are no items: marker and lock.
const NOT_ITEMS: usize = 2;

/// Attempts to read between two compactions.
const TRIES: usize = 4;

/// Hexadecimal digits of a digest in the name of a commit. Chosen: a chance of 2^-32 that two sets
/// have the same.
const SHORT_DIGEST: usize = 8;

/// Items parsed before other tasks run. Chosen: 12 ms, since a debug build reads 100,000 items in
/// 12 s.
const PARSED_AT_ONCE: usize = 100;

/// Longest time for a whole set. Chosen: twice the longest of an answer.
const WHOLE_SET: Duration = Duration::from_secs(120);
