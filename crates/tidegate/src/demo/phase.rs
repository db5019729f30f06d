//! What each part of the demonstration is made of.

use std::time::Duration;

use tidegate_core::Rate;

/// A part of the demonstration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    /// What it is called in the figures.
    pub(super) name: &'static str,
    /// What it is, for people.
    pub(super) title: &'static str,
    /// The gateway before the client, if there is one.
    pub(super) edge: Option<Edge>,
}

/// Where a gateway stands, and what it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Edge {
    /// It is the bottleneck, and shares it by this allocation.
    Bottleneck(&'static str),
    /// It is behind the bottleneck, which it keeps empty by this action, in the words of a policy.
    Behind(&'static str),
}

pub(super) const PHASES: [Phase; 6] = [
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
        name: "inbound-policed",
        title: "the bottleneck is before us: what exceeds the profile is dropped",
        edge: Some(Edge::Behind("action = \"police-drop\"")),
    },
    Phase {
        name: "inbound-postack",
        title: "the bottleneck is before us: ACKs are held",
        edge: Some(Edge::Behind("action = \"shape\"\nallocation = \"drr\"\nsignal = \"postack\"")),
    },
];

/// What the downloads share.
pub(super) const RATE: Rate = Rate::from_mbps(8);

/// The profile where the bottleneck lies before us: a little less than that, so that no queue stays.
pub(super) const INBOUND: Rate = Rate::from_kbps(7_600);

/// The round-trip time of each download without any queue.
pub(super) const RTTS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(300),
    Duration::from_millis(300),
    Duration::from_millis(600),
];

/// The way from the servers to the client; the rest of each round trip lies on the way back.
const DOWN_MS: u128 = 20;

/// The buffer before the bottleneck where nothing is managed: what a home router has.
pub(super) const FIFO: &str = "256 KiB";

/// The token bucket of the gateway's profile.
///
/// Differs: `aggregates`, section 4.1, wants `rtt_av * r_m`, here 312 kB, so that no flow loses a
/// token while it waits for acknowledgements. Here data waits instead (see [`QUEUE`]), and a bucket so
/// deep would only blur the rate that is shown.
pub(super) const BURST: &str = "32 KiB";

/// What may wait in the gateway, altogether and of one flow: more than the window with which the
/// 600-ms flow has its share (150 kB), so that it has something left to send after halving it.
///
/// With 48 KiB, flows run dry, and Jain's index lies between 0.96 and 0.98 with `fcfs` and between
/// 0.89 and 1.00 with `logical-partitions`, by when the 600-ms flow loses its first packets.
pub(super) const QUEUE: (&str, &str) = ("2 MiB", "256 KiB");

impl Phase {
    /// The policy file of its gateway.
    fn policy(edge: Edge) -> String {
        let (limit, flow_limit) = QUEUE;
        let (rate, action) = match edge {
            Edge::Behind(action) => (INBOUND, action.to_owned()),
            Edge::Bottleneck(allocation) => (
                RATE,
                format!(
                    "action = \"shape\"\nallocation = \"{allocation}\"\n\
                     queue = {{ kind = \"per-flow\", limit = \"{limit}\", flow_limit = \"{flow_limit}\" }}"
                ),
            ),
        };
        let filter = match edge {
            Edge::Bottleneck(_) => "direction = \"down\"",
            Edge::Behind(_) => "direction = \"down\", protocol = \"tcp\"",
        };
        format!(
            r#"
[gateway]
lan = "lan"
wan = "wan"

[[policy]]
name = "downloads"
match = {{ {filter} }}
profile = {{ mean = "{rate}", burst = "{BURST}" }}
{action}
"#
        )
    }

    /// What its profile and buffers are, in words.
    pub(super) fn parameters(&self) -> String {
        let (limit, flow_limit) = QUEUE;
        match self.edge {
            None => format!("{RATE}, one buffer of {FIFO}, drop-tail"),
            Some(Edge::Bottleneck(_)) => {
                format!(
                    "mean {RATE}, burst {BURST}, per-flow queues of {flow_limit}, {limit} in all"
                )
            }
            Some(Edge::Behind(_)) => {
                format!(
                    "mean {INBOUND}, burst {BURST}, behind {RATE} with one buffer of {FIFO}, drop-tail"
                )
            }
        }
    }

    /// What all downloads together are to have.
    pub(super) const fn profile(&self) -> Rate {
        match self.edge {
            Some(Edge::Behind(_)) => INBOUND,
            None | Some(Edge::Bottleneck(_)) => RATE,
        }
    }

    /// Its network: a client, and a server for each download.
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

pub(super) const CLIENT: &str = "client";
pub(super) const GATEWAY: &str = "edge";

/// The name of the server of download `number`.
pub(super) fn server(number: usize) -> String {
    format!("server-{}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;

    #[test]
    fn every_phase_is_a_topology_without_complaints_and_has_the_round_trip_times_it_claims() {
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
