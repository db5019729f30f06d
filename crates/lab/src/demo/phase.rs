//! The phases of the demonstration. Each phase has another kind of gateway, or no gateway.

use std::time::Duration;

use tidegate_core::Rate;

/// A phase of the demonstration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    /// Name in the figures.
    pub(super) name: &'static str,
    /// Description that the demonstration shows.
    pub(super) title: &'static str,
    /// The gateway between the client and the network, or `None`.
    pub(super) edge: Option<Edge>,
}

/// The position of a gateway, and its configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Edge {
    /// The gateway is the bottleneck. It shares the rate by the allocation policy with this name.
    Bottleneck(&'static str),
    /// The gateway is downstream of the bottleneck. A policy with these fields keeps the
    /// bottleneck's queue empty.
    DownstreamPolicy(&'static str),
    /// The gateway is downstream of the bottleneck. It sends all traffic through this queue, at a
    /// lower rate than the bottleneck's.
    DownstreamQueue(&'static str),
}

pub(super) const PHASES: [Phase; 8] = [
    Phase { name: "unmanaged", title: "no gateway, a plain FIFO", edge: None },
    Phase {
        name: "sequential",
        title: "one bucket, first flow first",
        edge: Some(Edge::Bottleneck("sequential")),
    },
    Phase {
        name: "fcfs",
        title: "one bucket, first come first served",
        edge: Some(Edge::Bottleneck("fcfs")),
    },
    Phase {
        name: "logical-partitions",
        title: "a part of the bucket for each flow, by round-trip time",
        edge: Some(Edge::Bottleneck("logical-partitions")),
    },
    Phase {
        name: "inbound-fifo",
        title: "the bottleneck is upstream of the gateway: a shaper with one FIFO",
        edge: Some(Edge::DownstreamQueue(r#"{ kind = "drop-tail", limit = "256 KiB" }"#)),
    },
    Phase {
        name: "inbound-fq-codel",
        title: "the bottleneck is upstream of the gateway: a shaper with FQ-CoDel",
        edge: Some(Edge::DownstreamQueue(r#""fq-codel""#)),
    },
    Phase {
        name: "inbound-policed",
        title: "the bottleneck is upstream of the gateway: packets out of profile are dropped",
        edge: Some(Edge::DownstreamPolicy(
            r#"
match = { direction = "down", protocol = "tcp" }
action = "police-drop"
"#,
        )),
    },
    Phase {
        name: "inbound-postack",
        title: "the bottleneck is upstream of the gateway: ACKs are held",
        edge: Some(Edge::DownstreamPolicy(
            r#"
match = { direction = "down" }
action = "shape"
allocation = "drr"
ack_control = "postack"
"#,
        )),
    },
];

/// The rate of the bottleneck, which the downloads share.
pub(super) const RATE: Rate = Rate::from_mbps(8);

/// The rate that a gateway downstream of the bottleneck allows (its profile). It is a little lower
/// than the bottleneck's rate, so the bottleneck's queue drains.
pub(super) const INBOUND: Rate = Rate::from_kbps(7_600);

/// The round-trip time of each download, without time in queues.
pub(super) const RTTS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(300),
    Duration::from_millis(300),
    Duration::from_millis(600),
];

/// One-way delay from the servers to the client. The opposite direction has the remainder of each
/// round-trip time.
const DOWN_MS: u128 = 20;

/// The buffer of the unmanaged bottleneck, as in a home router.
pub(super) const FIFO: &str = "256 KiB";

/// Depth of the token bucket in the gateway's profile.
///
/// Differs: the paper `aggregates`, section 4.1, requires `rtt_av * r_m` (mean round-trip time
/// times mean rate), here 312 kB. The paper's bucket must be so deep that a flow loses no tokens
/// while it waits for ACKs. Here, data waits in the queue meanwhile (see [`QUEUE`]), so a deep
/// bucket would only blur the displayed rate.
pub(super) const BURST: &str = "32 KiB";

/// Limits of the gateway's queue: in total, and for one flow. The flow with a round-trip time of
/// 600 ms needs a window of 150 kB for its share. Its limit is larger, so it can still send after
/// it has halved its window.
///
/// With only 48 KiB per flow, flows have no data to send at times. Jain's index then depends on
/// when the 600-ms flow loses its first packets: 0.96 to 0.98 with the allocation `fcfs`, and 0.89
/// to 1.00 with `logical-partitions`.
pub(super) const QUEUE: (&str, &str) = ("2 MiB", "256 KiB");

impl Phase {
    /// The policy file of the phase's gateway.
    fn policy(edge: Edge) -> String {
        let (limit, flow_limit) = QUEUE;
        let (rate, rest) = match edge {
            Edge::DownstreamQueue(queue) => return queue_policy(queue),
            Edge::DownstreamPolicy(fields) => (INBOUND, fields.to_owned()),
            Edge::Bottleneck(allocation) => (
                RATE,
                format!(
                    r#"
match = {{ direction = "down" }}
action = "shape"
allocation = "{allocation}"
queue = {{ kind = "per-flow", limit = "{limit}", flow_limit = "{flow_limit}" }}
"#
                ),
            ),
        };
        format!(
            r#"
[gateway]
lan = "lan"
wan = "wan"

[[policy]]
name = "downloads"
profile = {{ mean = "{rate}", burst = "{BURST}" }}
{rest}
"#
        )
    }

    /// Describes the profile and the buffers.
    pub(super) fn parameters(&self) -> String {
        let (limit, flow_limit) = QUEUE;
        match self.edge {
            None => format!("{RATE}, one buffer of {FIFO}, drop-tail"),
            Some(Edge::Bottleneck(_)) => {
                format!(
                    "mean {RATE}, burst {BURST}, per-flow queues of {flow_limit}, {limit} in all"
                )
            }
            Some(Edge::DownstreamPolicy(_)) => {
                format!(
                    "mean {INBOUND}, burst {BURST}, downstream of {RATE} with one buffer of {FIFO}, drop-tail"
                )
            }
            Some(Edge::DownstreamQueue(queue)) => {
                format!(
                    "{INBOUND}, queue {queue}, downstream of {RATE} with one buffer of {FIFO}, drop-tail"
                )
            }
        }
    }

    /// The intended total rate of the downloads.
    pub(super) const fn profile(&self) -> Rate {
        match self.edge {
            Some(Edge::DownstreamPolicy(_) | Edge::DownstreamQueue(_)) => INBOUND,
            None | Some(Edge::Bottleneck(_)) => RATE,
        }
    }

    /// The topology of the phase: a client, and a server for each download.
    pub(super) fn topology(&self) -> String {
        let mut text = String::new();
        let gateway = if self.edge.is_some() { "gateway = \"edge\"\n" } else { "" };
        text += &format!("[[host]]\nname = \"{CLIENT}\"\n{gateway}\n");
        for (number, rtt) in RTTS.iter().enumerate() {
            let back = rtt.as_millis() - DOWN_MS;
            text += &format!("[[host]]\nname = \"{}\"\n\n", server(number));
            text += &format!("[[route]]\nto = \"{}\"\ndelay = \"{back} ms\"\n\n", server(number));
        }
        text += &format!("[[route]]\nto = \"{CLIENT}\"\ndelay = \"{DOWN_MS} ms\"\n");
        if !matches!(self.edge, Some(Edge::Bottleneck(_))) {
            let queue = format!("{{ kind = \"drop-tail\", limit = \"{FIFO}\" }}");
            text += &format!("rate = \"{RATE}\"\nqueue = {queue}\n");
        }
        if let Some(edge) = self.edge {
            let policy = Self::policy(edge);
            text += &format!("\n[[gateway]]\nname = \"{GATEWAY}\"\ninline = '''{policy}'''\n");
        }
        text
    }
}

/// The policy file of a gateway that sends downloads at [`INBOUND`] through `queue`.
fn queue_policy(queue: &str) -> String {
    format!(
        r#"
[gateway]
lan = "lan"
wan = "wan"
rate = {{ down = "{INBOUND}" }}
queue = {queue}
"#
    )
}

pub(super) const CLIENT: &str = "client";
pub(super) const GATEWAY: &str = "edge";

/// Name of the server of download `number`.
pub(super) fn server(number: usize) -> String {
    format!("server-{}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;

    #[test]
    fn every_phase_has_a_valid_topology_with_the_stated_round_trip_times() {
        for phase in PHASES {
            let (topology, found) = topology::parse(phase.name, &phase.topology());
            assert_eq!(found.iter().count(), 0, "{}", found.render(false));
            let topology = topology.unwrap();
            assert_eq!(topology.gateways.len(), usize::from(phase.edge.is_some()));
            let down = topology.routes.last().unwrap().link.delay;
            for (route, rtt) in topology.routes.iter().zip(RTTS) {
                assert_eq!(route.link.delay + down, rtt);
            }
            if let Some(edge) = phase.edge {
                let (config, found) = crate::config::parse("edge.toml", &Phase::policy(edge), None);
                assert!(config.is_some(), "{}", found.render(false));
            }
        }
    }
}
