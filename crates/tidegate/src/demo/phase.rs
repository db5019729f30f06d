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
    /// The allocation of the gateway; `None` without one.
    pub(super) allocation: Option<&'static str>,
}

pub(super) const PHASES: [Phase; 4] = [
    Phase { name: "unmanaged", title: "no gateway, a plain FIFO", allocation: None },
    Phase {
        name: "sequential",
        title: "one bucket, first flow first",
        allocation: Some("sequential"),
    },
    Phase { name: "fcfs", title: "one bucket, first come first served", allocation: Some("fcfs") },
    Phase {
        name: "logical-partitions",
        title: "a part of the bucket for each flow, by round-trip time",
        allocation: Some("logical-partitions"),
    },
];

/// What the downloads share.
pub(super) const RATE: Rate = Rate::from_mbps(8);

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
    fn policy(&self, allocation: &str) -> String {
        let (limit, flow_limit) = QUEUE;
        format!(
            r#"
[gateway]
lan = "lan"
wan = "wan"

[[policy]]
name = "downloads"
match = {{ direction = "down" }}
profile = {{ mean = "{RATE}", burst = "{BURST}" }}
action = "shape"
allocation = "{allocation}"
queue = {{ kind = "per-flow", limit = "{limit}", flow_limit = "{flow_limit}" }}
"#
        )
    }

    /// What its profile and buffers are, in words.
    pub(super) fn parameters(&self) -> String {
        match self.allocation {
            None => format!("{RATE}, one buffer of {FIFO}, drop-tail"),
            Some(_) => {
                let (limit, flow_limit) = QUEUE;
                format!(
                    "mean {RATE}, burst {BURST}, per-flow queues of {flow_limit}, {limit} in all"
                )
            }
        }
    }

    /// Its network: a client, and a server for each download.
    pub(super) fn topology(&self) -> String {
        let mut text = String::new();
        let gateway = match self.allocation {
            Some(_) => "gateway = \"edge\"\n",
            None => "",
        };
        text += &format!("[[host]]\nname = \"{CLIENT}\"\n{gateway}\n");
        for (number, rtt) in RTTS.iter().enumerate() {
            let back = rtt.as_millis() - DOWN_MS;
            text += &format!("[[host]]\nname = \"{}\"\n\n", server(number));
            text += &format!("[[route]]\nto = \"{}\"\ndelay = \"{back} ms\"\n\n", server(number));
        }
        text += &format!("[[route]]\nto = \"{CLIENT}\"\ndelay = \"{DOWN_MS} ms\"\n");
        match self.allocation {
            Some(allocation) => {
                let policy = self.policy(allocation);
                text += &format!("\n[[gateway]]\nname = \"{GATEWAY}\"\ninline = '''{policy}'''\n");
            }
            None => {
                let queue = format!("{{ kind = \"drop-tail\", limit = \"{FIFO}\" }}");
                text += &format!("rate = \"{RATE}\"\nqueue = {queue}\n");
            }
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
            assert_eq!(topology.gateways.len(), usize::from(phase.allocation.is_some()));
            let down = topology.routes.last().unwrap().link.delay;
            for (route, rtt) in topology.routes.iter().zip(RTTS) {
                assert_eq!(route.link.delay + down, rtt);
            }
            if let Some(allocation) = phase.allocation {
                let (config, found) =
                    crate::config::parse("edge.toml", &phase.policy(allocation), None);
                assert!(config.is_some(), "{}", found.render(false));
            }
        }
    }
}
