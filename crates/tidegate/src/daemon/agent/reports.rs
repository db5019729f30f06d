//! Reports to the policy sources: the revision in force, and for each policy the ratio of its
//! measured rate to the mean rate of its profile.
//!
//! Methods of `Daemon`, whose fields are in `daemon.rs`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::{ItemKind, Part, items};
use tidegate_core::packet::Direction;
use tidegate_repository::{Conformance, NodeReport, PolicyRepository};
use tokio::time::Instant;

use super::super::{Daemon, aside};
use super::node;
use crate::api::{Aggregate, Status};
use crate::clock;

/// Interval between two reports. Rates are measured over it.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time limit for a source to accept a report. A report to a slower source is abandoned.
const PATIENCE: Duration = Duration::from_secs(5);

/// Conforming bytes counted up to time `at`, for each policy and direction.
struct Sample {
    at: Instant,
    bytes: HashMap<(String, Direction), u64>,
}

impl Daemon {
    /// Reports to every source that accepts reports, until dropped.
    pub(crate) async fn report_to_sources(self: &Arc<Self>) {
        let mut before: Option<Sample> = None;
        let (mut generation, mut since_s) = (0, 0);
        loop {
            tokio::time::sleep(INTERVAL).await;
            if self.agent.lock().is_empty() {
                before = None;
                continue;
            }
            let Ok(status) = self.status().await else { continue };
            if status.generation != generation {
                (generation, since_s) = (status.generation, clock::since_1970().as_secs());
            }
            let sample = Sample::of(&status);
            if let Some(before) = before.replace(sample) {
                self.report(&status, &before, since_s).await;
            }
        }
    }

    async fn report(&self, status: &Status, before: &Sample, since_s: u64) {
        let Ok(flows_on_it) = self.plane.classified(INTERVAL).await else { return };
        let documents = self.installed().await.documents.clone();
        let sources: Vec<_> = {
            let sources = self.agent.lock();
            let one = |(name, watched): (&String, &super::Watched)| {
                Some((name.clone(), watched.repository.clone()?, watched.alarm()))
            };
            sources.iter().filter_map(one).collect()
        };
        for (name, repository, error) in sources {
            let set = documents.sets.get(&name).cloned();
            let of_set = set.clone();
            let policies = aside(move || of_set.map(|set| policies(&set.parts)));
            let Ok(policies) = policies.await else { continue };
            let report = NodeReport {
                node: node(),
                revision: set.map(|set| set.revision.clone()),
                generation: status.generation,
                since_s,
                error,
                flows_on_it,
                policies: before.conformance(status, &policies.unwrap_or_default()),
            };
            send(&name, &*repository, &report).await;
        }
    }
}

/// Sends `report`. An error raises no alarm, because the user of the source may have read access
/// only.
async fn send(name: &str, repository: &dyn PolicyRepository, report: &NodeReport) {
    match tokio::time::timeout(PATIENCE, repository.report(report)).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => tracing::debug!(source = name, "no report: {fault}"),
        Err(_) => tracing::debug!(source = name, "no report: the source is too slow"),
    }
}

/// The names of the policies in `parts`.
fn policies(parts: &[Part]) -> HashSet<String> {
    let items = parts.iter().flat_map(|part| items(part).unwrap_or_default());
    items.filter(|item| item.kind == ItemKind::Policy).map(|item| item.name).collect()
}

impl Sample {
    fn of(status: &Status) -> Self {
        let bytes = |it: &Aggregate| ((it.policy.clone(), it.direction), it.conforming.bytes);
        Self { at: Instant::now(), bytes: status.aggregates.iter().map(bytes).collect() }
    }

    /// The rates of `policies` since this sample, divided by the mean rates of their profiles.
    fn conformance(
        &self,
        status: &Status,
        policies: &HashSet<String>,
    ) -> BTreeMap<String, Conformance> {
        let seconds = self.at.elapsed().as_secs_f64();
        let mut found = BTreeMap::<String, Conformance>::new();
        for it in status.aggregates.iter().filter(|it| policies.contains(&it.policy)) {
            let of = found.entry(it.policy.clone()).or_default();
            let key = (it.policy.clone(), it.direction);
            let (Some(mean), Some(before)) = (it.mean, self.bytes.get(&key)) else { continue };
            let ratio = ratio(it.conforming.bytes.saturating_sub(*before), seconds, mean.bps());
            match it.direction {
                Direction::Up => of.up = ratio,
                Direction::Down => of.down = ratio,
            }
        }
        found
    }
}

/// Rate of `bytes` in `seconds`, divided by `mean_bps`.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "shown to three digits")]
fn ratio(bytes: u64, seconds: f64, mean_bps: u64) -> Option<f64> {
    (mean_bps > 0 && seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds / mean_bps as f64)
}
