//! Policies in an LDAP directory.
//!
//! ```text
//! ou=tidegate,dc=example,dc=net      tgRepository; tgGeneration is the commit marker
//! +- ou=policies
//! |  +- cn=web                       pcimRuleInstance, tgPolicyAuxClass
//! |     +- cn=filter                 pcelsIPHeadersFilter
//! +- ou=classes
//! |  +- cn=voice                     tgClass
//! +- ou=trunks
//! |  +- cn=north                     tgTrunk
//! +- ou=status
//!    +- cn=gateway-1                 tgNodeReport
//! ```
//!
//! Policies may be anywhere below the root entry. Other programs may write them as rules of RFC
//! 3703 with filters of RFC 4104 (`conditions.rs`), or as rules of the AIX and z/OS policy agents
//! (`zos.rs`).
//!
//! Source: RFC 3703, RFC 4104, RFC 4511, RFC 4533; the directory of the paper `aggregates`, section
//! 6.
//! Differs: with a marker, the revision is only the text of `tgGeneration`, without a digest of the
//! set. So a program that writes the marker must use a new text each time.

mod attributes;
mod conditions;
mod entry;
mod fault;
mod filter;
mod index;
mod items;
mod nesting;
mod read;
mod relay;
#[cfg(test)]
mod schema;
mod session;
mod standard;
mod status;
mod value;
mod watch;
mod write;
mod zos;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidegate_config::Item;
use tidegate_config::source::{Commit, SourceSpec};
use tokio::sync::mpsc;

use self::read::Reader;
use self::session::Servers;
use crate::{Answer, Fault, FaultKind, NodeReport, PolicyRepository, Snapshot, Snapshots};

/// The repository below the entry `base`, on one of the servers `urls`.
///
/// # Errors
///
/// If a file that `spec` names cannot be used.
pub(crate) fn open(
    spec: &SourceSpec,
    urls: &[String],
    base: &str,
) -> Result<Arc<dyn PolicyRepository>, Fault> {
    let reader = Reader {
        servers: Servers::new(urls, &spec.access, spec.max_size.0)?,
        base: base.to_owned(),
        commit: spec.commit,
        max_policies: spec.max_policies,
    };
    Ok(Arc::new(Ldap { reader: Arc::new(reader), poll: spec.poll }))
}

struct Ldap {
    reader: Arc<Reader>,
    poll: Duration,
}

impl PolicyRepository for Ldap {
    fn watch(self: Arc<Self>) -> Snapshots {
        let (to, snapshots) = mpsc::channel(1);
        tokio::spawn(watch::watch(self.reader.clone(), self.poll, to));
        snapshots
    }

    fn pull(&self) -> Answer<'_, Snapshot> {
        Box::pin(contained(self.reader.snapshot()))
    }

    fn push(&self, items: Vec<Item>) -> Answer<'_, String> {
        Box::pin(contained(async move {
            let mut session = self.reader.servers.connect().await?;
            let marker = write::push(&self.reader, &mut session, &items).await?;
            session.close().await;
            match self.reader.commit {
                Commit::Marker => Ok(marker),
                Commit::EachChange => Ok(self.reader.snapshot().await?.revision),
            }
        }))
    }

    fn report<'a>(&'a self, report: &NodeReport) -> Answer<'a, ()> {
        let report = report.clone();
        Box::pin(contained(async move {
            let mut session = self.reader.servers.connect().await?;
            status::write(&mut session, &self.reader.base, &report).await?;
            session.close().await;
            Ok(())
        }))
    }
}

/// Runs `work`, and converts a panic to a fault. The client library panics on an answer that it
/// cannot parse.
async fn contained<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        Err(Fault::new(FaultKind::Protocol, "the server sends an answer that is not LDAP"))
    })
}
