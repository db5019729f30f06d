//! Writes a whole set of policies, classes and trunks (*items*) into etcd. This is a *push*.
//! Transactions of at most 128 operations write the items. The last transaction writes the
//! *marker*, the key that makes the set valid. If a server of the cluster (a *member*) fails, the
//! push continues at the next member.
//!
//! The key `push` is the lock. It is bound to a lease of the cluster, so it expires if the push is
//! interrupted. Each transaction succeeds only if this push still holds the lock. An
//! interrupted push does not change the marker, so the committed set stays as it was.
//!
//! Source: etcd 3.4, `--max-txn-ops` and `--max-request-bytes`; `rpc.proto`, `LeaseGrantRequest`.
//!
//! This file has methods of `Operation`, whose fields are in `json.rs`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tidegate_config::Item;
use tokio::time::Instant;

use super::client::{Client, SMALL};
use super::json::{
    Base64, Compare, Lease, LeaseId, Number, Operation, PutRequest, TxnRequest, Written,
};
use super::keys::{Holds, Keys, shown};
use super::read::{Limits, Stamp, digest, fault, revision, scan};
use crate::{Fault, FaultKind};

/// The set to be written: values by key.
pub(super) type Wanted = BTreeMap<String, Vec<u8>>;

/// The keys and values of `items`.
///
/// # Errors
///
/// If two items have the same key, or the set exceeds `limits`.
pub(super) fn wanted(keys: &Keys, limits: Limits, items: &[Item]) -> Result<Wanted, Fault> {
    let mut wanted = Wanted::new();
    let mut size = 0_usize;
    for item in items {
        let key = keys.item(item.kind, &item.name);
        let value = item.fields.to_string().into_bytes();
        keys.holds(key.as_bytes())?;
        size = size.saturating_add(key.len() + value.len());
        if wanted.insert(key, value).is_some() {
            let message = format!("{} `{}` occurs twice", item.kind, item.name);
            return Err(Fault::new(FaultKind::Malformed, message).help("rename one of them"));
        }
    }
    if size > limits.size || wanted.len() > limits.policies {
        let message = format!("the set has {} items and {size} B", wanted.len());
        return Err(Fault::new(FaultKind::TooLarge, message)
            .help("raise `max_size` or `max_policies`, also at the gateways"));
    }
    Ok(wanted)
}

/// The lock of a push. It stays the same if the push continues at another member.
#[derive(Clone, Copy)]
struct Lock {
    lease: Number,
    revision: u64,
    refreshed: Instant,
}

/// A push. If a member fails, the push continues at the next member.
pub(super) struct Push<'a> {
    keys: &'a Keys,
    wanted: Wanted,
    written_s: u64,
    lock: Mutex<Option<Lock>>,
}

impl<'a> Push<'a> {
    /// A push of the set `wanted`. `written_s` is the time in seconds since 1970.
    pub(super) fn new(keys: &'a Keys, wanted: Wanted, written_s: u64) -> Self {
        Self { keys, wanted, written_s, lock: Mutex::new(None) }
    }

    /// Writes the set through one member. Returns the name of the commit.
    ///
    /// # Errors
    ///
    /// If the member fails, or another push runs.
    pub(super) async fn through(&self, client: &mut Client<'_>) -> Result<String, Fault> {
        self.acquire(client).await?;
        let done = self.write(client).await;
        // If the member became unreachable, the lock is kept for the attempt at the next member. If
        // there is no next member, the lock expires.
        if done.as_ref().err().is_none_or(|fault| fault.kind != FaultKind::Unreachable) {
            self.release(client).await;
        }
        done
    }

    async fn write(&self, client: &mut Client<'_>) -> Result<String, Fault> {
        let marker = self.keys.marker();
        let digest = digest(self.wanted.iter().map(|(key, value)| (key.as_bytes(), &**value)));
        let stamp = Stamp {
            items: self.wanted.len(),
            digest: digest.to_hex().to_string(),
            written_s: self.written_s,
        };
        let stamp = serde_json::to_vec(&stamp).expect("numbers and a string are JSON");
        let mut operations = self.stale(client).await?;
        operations.extend(self.wanted.iter().map(|(key, value)| put(key, value.clone())));
        let end =
            [put(&marker, stamp), Operation::Delete { key: Base64(self.keys.lock().into_bytes()) }];
        let mut batches = batches(operations);
        match batches.last_mut() {
            Some(last) if has_room(last, end.len()) => last.extend(end),
            _ => batches.push(end.into()),
        }
        let mut at = 0;
        for batch in batches {
            self.refresh(client).await?;
            at = self.transact(client, batch).await?;
        }
        Ok(revision(at, &digest))
    }

    /// Operations that delete the items that the new set lacks. An unknown key below the prefix is
    /// an error, because gateways would refuse the set.
    async fn stale(&self, client: &mut Client<'_>) -> Result<Vec<Operation>, Fault> {
        let limits = Limits { size: LONGEST_LIST, policies: usize::MAX };
        let found = scan(client, &self.keys.ranges(), limits, 0, true).await;
        let mut stale = Vec::new();
        for entry in found.map_err(|failure| fault(failure, limits))?.entries {
            let item = matches!(self.keys.holds(&entry.key.0)?, Holds::Item(..));
            let key = String::from_utf8(entry.key.0).expect("a key that was parsed is UTF-8");
            if item && !self.wanted.contains_key(&key) {
                stale.push(Operation::Delete { key: Base64(key.into_bytes()) });
            }
        }
        Ok(stale)
    }

    /// Runs one transaction, which succeeds only if this push still holds the lock. Returns its
    /// revision.
    async fn transact(
        &self,
        client: &mut Client<'_>,
        success: Vec<Operation>,
    ) -> Result<u64, Fault> {
        let lock = self.lock().ok_or_else(|| self.lost())?;
        let compare = vec![Compare::unchanged(self.keys.lock().as_bytes(), lock.revision)];
        let written = self.txn(client, TxnRequest { compare, success }).await?;
        if written.succeeded { Ok(written.header.revision.0) } else { Err(self.lost()) }
    }

    async fn txn(&self, client: &mut Client<'_>, request: TxnRequest) -> Result<Written, Fault> {
        let names: Vec<&[u8]> = request.success.iter().map(Operation::key).collect();
        let answer = client.call(TXN, &request, SMALL).await;
        answer.map_err(|failure| match (fault(failure, LIMITS_OF_ANSWERS), &*names) {
            (fault, [name]) => {
                Fault { message: format!("{}: {}", shown(name), fault.message), ..fault }
            }
            (fault, _) => fault,
        })
    }

    /// Takes the lock. Does nothing if the push already took it at another member.
    async fn acquire(&self, client: &mut Client<'_>) -> Result<(), Fault> {
        if self.lock().is_some() {
            return Ok(());
        }
        let call = |failure| fault(failure, LIMITS_OF_ANSWERS);
        let request = Lease { seconds: Number(LEASE.as_secs()), id: Number(0) };
        let lease: Lease = client.call(LEASE_GRANT, &request, SMALL).await.map_err(call)?;
        let key = self.keys.lock();
        let request = TxnRequest {
            compare: vec![Compare::absent(key.as_bytes())],
            success: vec![Operation::Put(PutRequest {
                key: Base64(key.clone().into_bytes()),
                value: Base64(self.written_s.to_string().into_bytes()),
                lease: lease.id,
            })],
        };
        let written = self.txn(client, request).await?;
        let lock = Lock {
            lease: lease.id,
            revision: written.header.revision.0,
            refreshed: Instant::now(),
        };
        if written.succeeded {
            self.set_lock(Some(lock));
            return Ok(());
        }
        self.revoke(client, lease.id).await;
        let message = format!("another push is running: it holds key `{key}`");
        let help = format!(
            "wait until it is over; the lock of a dead one expires after {} s",
            LEASE.as_secs()
        );
        Err(Fault::new(FaultKind::Unsteady, message).help(help))
    }

    /// Extends the lease once a third of it is over.
    async fn refresh(&self, client: &mut Client<'_>) -> Result<(), Fault> {
        let Some(lock) = self.lock().filter(|lock| lock.refreshed.elapsed() > LEASE / 3) else {
            return Ok(());
        };
        let request = LeaseId { id: lock.lease };
        let answer: Result<Value, _> = client.call(LEASE_KEEPALIVE, &request, SMALL).await;
        answer.map_err(|failure| fault(failure, LIMITS_OF_ANSWERS))?;
        self.set_lock(Some(Lock { refreshed: Instant::now(), ..lock }));
        Ok(())
    }

    /// Releases the lock, if this push has it.
    async fn release(&self, client: &mut Client<'_>) {
        if let Some(lock) = self.lock() {
            self.set_lock(None);
            self.revoke(client, lock.lease).await;
        }
    }

    async fn revoke(&self, client: &mut Client<'_>, id: Number) {
        // The result is ignored: without an answer, the lease expires.
        let _ = client.call::<Value>(LEASE_REVOKE, &LeaseId { id }, SMALL).await;
    }

    fn lock(&self) -> Option<Lock> {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_lock(&self, lock: Option<Lock>) {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = lock;
    }

    fn lost(&self) -> Fault {
        let message =
            format!("the lock `{}` of this push was lost before its end", self.keys.lock());
        Fault::new(FaultKind::Unsteady, message).help("push again")
    }
}

fn put(key: &str, value: Vec<u8>) -> Operation {
    Operation::Put(PutRequest {
        key: Base64(key.as_bytes().to_vec()),
        value: Base64(value),
        lease: Number(0),
    })
}

/// Splits `operations` into transactions that the server accepts, in the same order.
fn batches(operations: Vec<Operation>) -> Vec<Vec<Operation>> {
    let mut batches: Vec<Vec<Operation>> = Vec::new();
    let mut size = 0;
    for operation in operations {
        let more = operation.size();
        match batches.last_mut() {
            Some(last) if last.len() < MOST_OPERATIONS && size + more <= LONGEST_BATCH => {
                size += more;
                last.push(operation);
            }
            _ => {
                size = more;
                batches.push(vec![operation]);
            }
        }
    }
    batches
}

/// Returns `true` if `more` small operations still fit into the transaction.
fn has_room(batch: &[Operation], more: usize) -> bool {
    let size: usize = batch.iter().map(Operation::size).sum();
    batch.len() + more <= MOST_OPERATIONS && size <= LONGEST_BATCH
}

impl Operation {
    fn key(&self) -> &[u8] {
        let (Self::Put(PutRequest { key, .. }) | Self::Delete { key }) = self;
        &key.0
    }

    fn size(&self) -> usize {
        let value = if let Self::Put(put) = self { put.value.0.len() } else { 0 };
        self.key().len() + value
    }
}

/// URL path of a transaction.
const TXN: &str = "/v3/kv/txn";

/// URL path that creates a lease.
const LEASE_GRANT: &str = "/v3/lease/grant";

/// URL path that extends a lease.
const LEASE_KEEPALIVE: &str = "/v3/lease/keepalive";

/// URL path that ends a lease.
const LEASE_REVOKE: &str = "/v3/lease/revoke";

/// Maximum number of operations in a transaction. Source: the default of `--max-txn-ops` in etcd
/// 3.4.
const MOST_OPERATIONS: usize = 128;

/// Maximum bytes of keys and values in a transaction: two thirds of the default of
/// `--max-request-bytes`, 1.5 MiB.
const LONGEST_BATCH: usize = 1024 * 1024;

/// Limit for the keys that exist before a push, in bytes. Chosen: 100,000 keys of 640 B.
const LONGEST_LIST: usize = 64 * 1024 * 1024;

/// Lifetime of the lock after an interrupted push. Chosen: the push extends it after a third.
/// The remaining time suffices for two answers of at most 5 s each.
const LEASE: Duration = Duration::from_secs(20);

/// Limits to state in messages about answers without keys.
const LIMITS_OF_ANSWERS: Limits = Limits { size: SMALL, policies: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a transaction with 129 operations; a transaction that is split too early, because
    /// the size of the previous one was not reset; operations in another order.
    #[test]
    fn transactions_keep_to_the_limits_of_the_server() {
        let operations: Vec<_> = (0..300).map(|n| put(&format!("{n:03}"), Vec::new())).collect();
        let batched = batches(operations);
        assert_eq!(batched.iter().map(Vec::len).collect::<Vec<_>>(), [128, 128, 44]);
        let names: Vec<_> = batched.iter().flatten().map(|one| one.key().to_vec()).collect();
        assert!(names.is_sorted());
        let large: Vec<_> =
            (0..5).map(|n| put(&n.to_string(), vec![0; LONGEST_BATCH / 2 - 1])).collect();
        assert_eq!(batches(large).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    }
}
