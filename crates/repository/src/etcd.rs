//! Policies in the key-value store etcd v3, through the JSON gateway of the cluster's servers
//! (*members*).
//!
//! ```text
//! <prefix>policy/<name>, class/<name>, trunk/<name>   body of one table, in TOML
//! <prefix>commit                                      the marker: the set is the one at its mod_revision
//! <prefix>push                                        exists while a push runs
//! <prefix>status/<node>                               report of a gateway, in JSON
//! ```
//!
//! Source: etcd 3.4, `Documentation/dev-guide/api_grpc_gateway.md`.
//! Differs: with `commit = "each-change"`, a store without any key counts as uncommitted, because a
//! server that lost its data looks like this. With a marker, a set without items is an empty set.

mod client;
mod credentials;
mod http;
mod json;
mod keys;
mod push;
mod read;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_config::Item;
use tidegate_config::source::{Access, Commit, SourceSpec};
use tokio::sync::mpsc;
use tokio::time::sleep;

use self::client::{Client, SMALL};
use self::credentials::{Credentials, of_credentials};
use self::http::Endpoint;
use self::json::{Base64, Number, PutRequest, Written};
use self::keys::Keys;
use self::push::Push;
use self::read::{Limits, committed};
use crate::{Answer, Fault, FaultKind, NodeReport, PolicyRepository, Snapshot, Snapshots};

/// A prefix of keys in an etcd cluster.
pub(crate) struct Etcd {
    endpoints: Vec<Endpoint>,
    access: Access,
    credentials: Mutex<Arc<Credentials>>,
    keys: Keys,
    limits: Limits,
    commit: Commit,
}

impl Etcd {
    /// The repository that `spec` describes, at `urls` below `prefix`.
    ///
    /// # Errors
    ///
    /// If a URL is wrong, or a file cannot be used.
    pub(crate) fn new(spec: &SourceSpec, urls: &[String], prefix: &str) -> Result<Self, Fault> {
        let endpoints: Vec<Endpoint> =
            urls.iter().map(|url| Endpoint::new(url)).collect::<Result<_, _>>()?;
        let https = endpoints.iter().any(Endpoint::is_https);
        let credentials = Credentials::read(&spec.access, https)?;
        if endpoints.is_empty() {
            return Err(Fault::new(
                FaultKind::Unusable,
                format!("source `{}` has no `url`", spec.name),
            ));
        }
        let size = usize::try_from(spec.max_size.0).unwrap_or(usize::MAX);
        let limits = Limits { size, policies: spec.max_policies };
        Ok(Self {
            endpoints,
            access: spec.access.clone(),
            credentials: Mutex::new(Arc::new(credentials)),
            keys: Keys::new(prefix),
            limits,
            commit: spec.commit,
        })
    }

    async fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> Result<Client<'a>, Fault> {
        Client::connect(endpoint, self.credentials()).await
    }

    fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&self.credentials.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// After a fault of this kind, reads the credentials files again if they have changed. Returns
    /// `true` if they have changed.
    fn renew(&self, kind: FaultKind) -> bool {
        let renewed =
            of_credentials(kind).then(|| self.credentials().renewed(&self.access)).flatten();
        let Some(renewed) = renewed else { return false };
        *self.credentials.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(renewed);
        true
    }

    /// Returns the answer of the first member that answers. If a member refuses the credentials,
    /// they are read again once.
    async fn first<'a, T>(
        &'a self,
        job: impl Fn(Client<'a>) -> Answer<'a, T> + Send + Sync,
    ) -> Result<T, Fault> {
        match self.attempt(&job).await {
            Err(fault) if self.renew(fault.kind) => self.attempt(&job).await,
            answer => answer,
        }
    }

    async fn attempt<'a, T>(
        &'a self,
        job: &(impl Fn(Client<'a>) -> Answer<'a, T> + Send + Sync),
    ) -> Result<T, Fault> {
        let mut faults = Vec::new();
        for endpoint in &self.endpoints {
            let answer = match self.connect(endpoint).await {
                Ok(client) => job(client).await,
                Err(fault) => Err(fault),
            };
            match answer {
                Err(fault) if of_member(fault.kind) => faults.push(fault),
                answer => return answer,
            }
        }
        Err(all(faults))
    }

    async fn pull_through(&self, mut client: Client<'_>) -> Result<Snapshot, Fault> {
        for _ in 0..PUSH_LOOKS {
            if let Some(set) = committed(&mut client, &self.keys, self.limits, self.commit).await? {
                return Ok(set.snapshot);
            }
            sleep(PUSH_LOOK).await;
        }
        let message = format!("a push is running: it holds key `{}`", self.keys.lock());
        Err(Fault::new(FaultKind::Unsteady, message))
    }

    async fn report_through(
        &self,
        mut client: Client<'_>,
        report: &NodeReport,
    ) -> Result<(), Fault> {
        let value = serde_json::to_vec(report).map_err(|error| {
            Fault::new(FaultKind::Unusable, format!("the report is not JSON: {error}"))
        })?;
        let request = PutRequest {
            key: Base64(self.keys.status(&report.node).into_bytes()),
            value: Base64(value),
            lease: Number(0),
        };
        let written: Result<Written, _> = client.call(PUT, &request, SMALL).await;
        written.map(drop).map_err(|failure| read::fault(failure, self.limits))
    }
}

impl PolicyRepository for Etcd {
    fn watch(self: Arc<Self>) -> Snapshots {
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(watch::run(self, sender));
        receiver
    }

    fn pull(&self) -> Answer<'_, Snapshot> {
        Box::pin(self.first(|client| Box::pin(self.pull_through(client))))
    }

    fn push(&self, items: Vec<Item>) -> Answer<'_, String> {
        Box::pin(async move {
            let wanted = push::wanted(&self.keys, self.limits, &items)?;
            let push = Arc::new(Push::new(&self.keys, wanted, seconds_since_1970()));
            self.first(|mut client| {
                let push = Arc::clone(&push);
                Box::pin(async move { push.through(&mut client).await })
            })
            .await
        })
    }

    fn report(&self, report: &NodeReport) -> Answer<'_, ()> {
        let report = report.clone();
        Box::pin(async move {
            let report = Arc::new(report);
            self.first(|client| {
                let report = Arc::clone(&report);
                Box::pin(async move { self.report_through(client, &report).await })
            })
            .await
        })
    }
}

/// Returns `true` if the fault concerns only one member, so another member may answer.
fn of_member(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Unreachable | FaultKind::Untrusted | FaultKind::Protocol)
}

/// Combines the faults of all members: the kind of the first fault, and the messages of all.
fn all(faults: Vec<Fault>) -> Fault {
    faults
        .into_iter()
        .reduce(|all, next| Fault { message: format!("{}; {}", all.message, next.message), ..all })
        .unwrap_or_else(|| Fault::new(FaultKind::Unusable, "there is no `url`"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time stamp of a marker is the time of day; nothing reads it"
)]
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// URL path that writes a key.
const PUT: &str = "/v3/kv/put";

/// Number of times that a pull checks whether a running push has ended.
const PUSH_LOOKS: u32 = 25;

/// Interval between two of these checks. Chosen: 25 checks take 5 s, in which a debug build pushes
/// 60,000 items.
const PUSH_LOOK: Duration = Duration::from_millis(200);
