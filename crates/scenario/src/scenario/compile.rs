//! Compiles a scenario file into the scenario that the simulator runs.

use std::time::Duration;

use tidegate_core::tcp;
use tidegate_core::trunk::Wire;
use tidegate_sim::Scenario;
use tidegate_sim::scenario::{Gateway, Host, Node, NodeKind, Run};
use toml::Spanned;
use toml::de::DeTable;

use super::network::{CLOUD, Network};
use super::{Fetch, change, traffic};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::policy_file::{self, Config};
use crate::tcp::Settings;
use crate::topology::compile::rows;
use crate::topology::raw::{self as topology_raw, File};
use crate::topology::{PolicyFile, Topology};

/// Compiles `file`. `topology` is its compiled topology. Returns `None` after an error.
pub(super) fn compile(
    file: &File,
    topology: &Topology,
    document: &DeTable<'_>,
    fetch: Fetch<'_>,
    found: &mut Findings,
) -> Option<Scenario> {
    let run_tcp = file.run.as_ref().and_then(|run| run.get_ref().tcp.as_ref());
    let settings = Settings::new(run_tcp, document, found);
    let run = run(file, topology.seed, &settings, found);
    let gateways = gateways(file, topology, fetch, found);
    let network = Network::new(file, topology, found);
    let traffic = traffic::traffic(file, topology, document, &settings, fetch, found);
    let tcp = |(number, raw): (usize, &Spanned<topology_raw::Host>)| {
        settings.of(raw.get_ref().tcp.as_ref(), &format!("host[{number}].tcp"), found)
    };
    let hosts = file.hosts.get().map_or(&[][..], |it| &it.get_ref().0);
    let tcp: Vec<_> = hosts.iter().enumerate().map(tcp).collect();
    let probes = traffic::probes(file, topology, document, found);
    let changes = change::changes(file, topology, found);
    if found.has_errors() {
        return None;
    }
    network.lead(&traffic, file, found);
    let node = |name: &str, kind| Node { name: name.to_owned(), kind };
    let host = |(it, tcp): (&crate::topology::Host, Option<tcp::Config>)| {
        node(
            &it.name,
            NodeKind::Host(Host { addresses: it.addresses.clone(), tcp: tcp.map(Box::new) }),
        )
    };
    let router = |it: &Spanned<topology_raw::Router>| {
        let name = it.get_ref().name.get()?;
        Some(node(name.get_ref(), NodeKind::Router))
    };
    let nodes = topology.hosts.iter().zip(tcp).map(host);
    let nodes = nodes.chain(rows(file.routers.as_ref()).iter().filter_map(router));
    let nodes = nodes.chain(gateways);
    let nodes = nodes.chain(network.cloud.map(|it| node(CLOUD, NodeKind::Cloud(Box::new(it)))));
    let nodes = nodes.collect();
    Some(Scenario { run: run?, nodes, links: network.links, traffic, probes, changes })
}

/// Default number of samples in a time series.
const STEPS: u32 = 300;

fn run(file: &File, seed: u64, settings: &Settings<'_>, found: &mut Findings) -> Option<Run> {
    let Some(raw) = &file.run else {
        let message = "`[run]` is missing in the file";
        let help = "say how long to simulate: [run] and below it duration = \"60 s\"";
        found.push(Diagnostic::error(Code::MissingField, 0..0, message).help(help));
        return None;
    };
    let raw = raw.get_ref();
    let usual = Run::default();
    let duration = raw.duration.get()?.get_ref().0;
    let step = raw.sample.as_ref().map_or(duration / STEPS, |it| it.get_ref().0);
    Some(Run {
        duration,
        warmup: raw.warmup.as_ref().map_or(usual.warmup, |it| it.get_ref().0),
        sample: Some(step.max(Duration::from_nanos(1))),
        seed,
        link_header: match &raw.link_header {
            Some(bytes) => traffic::small(bytes, found)?,
            None => usual.link_header,
        },
        tcp: settings.of_run().unwrap_or(usual.tcp),
    })
}

fn gateways(file: &File, topology: &Topology, fetch: Fetch<'_>, found: &mut Findings) -> Vec<Node> {
    let written = rows(file.gateways.as_ref());
    let pairs = topology.gateways.iter().zip(written);
    let gateway = |(gateway, raw): (&crate::topology::Gateway, &Spanned<topology_raw::Gateway>)| {
        let raw = raw.get_ref();
        let place = raw.inline.as_ref().or(raw.policy.as_ref())?.span();
        let mut config = policies(&gateway.policy, place, fetch, found)?;
        // In the simulator, all packets take the same path, so trunks need no encapsulation.
        config.gateway.trunks.iter_mut().for_each(|it| it.wire = Wire::Headers);
        let policies = config.policy_set().ok()?;
        let kind = NodeKind::Gateway(Box::new(Gateway { config: config.gateway, policies }));
        Some(Node { name: gateway.name.clone(), kind })
    };
    pairs.filter_map(gateway).collect()
}

/// Reads the policy file of a gateway. `place` is the position in the scenario of the file's path
/// or of its embedded text.
fn policies(
    file: &PolicyFile,
    place: Span,
    fetch: Fetch<'_>,
    found: &mut Findings,
) -> Option<Config> {
    let path = match file {
        PolicyFile::Inline(text) => {
            let (config, inner) = policy_file::parse("the policy file", text, None);
            found.adopt(&inner, &place);
            return config;
        }
        PolicyFile::Path(path) => path,
    };
    let text = match fetch(path) {
        Ok(text) => text,
        Err(why) => {
            let message = format!("cannot read `{}`: {why}", path.escape_debug());
            found.push(Diagnostic::error(Code::NoSuchFile, place, message));
            return None;
        }
    };
    let (config, inner) = policy_file::parse(path, &text, None);
    if let Some((code, message, help)) = inner.summary() {
        found.push(Diagnostic::error(code, place, message).help(help));
    }
    config
}
