//! Explains which policy a packet belongs to, and why.

use serde::{Deserialize, Serialize};

use super::Flow;

/// A packet to explain.
#[derive(Clone, Debug, Default, Deserialize, Serialize, clap::Args)]
pub struct Question {
    /// Source address
    #[arg(long)]
    pub src: Option<String>,
    /// Destination address
    #[arg(long)]
    pub dst: Option<String>,
    /// IP protocol, by name or number
    #[arg(long, default_value = "tcp")]
    pub protocol: String,
    /// Source port
    #[arg(long, value_name = "PORT")]
    pub src_port: Option<u16>,
    /// Destination port
    #[arg(long, value_name = "PORT")]
    pub dst_port: Option<u16>,
    /// DS codepoint, by name or number
    #[arg(long, default_value = "DF")]
    pub dscp: String,
    /// VLAN identifier [default: untagged]
    #[arg(long)]
    pub vlan: Option<u16>,
    /// VLAN identifier of the second tag [default: none]
    #[arg(long, value_name = "VLAN")]
    #[serde(default)]
    pub inner_vlan: Option<u16>,
    /// "up" from the LAN to the WAN, or "down"
    #[arg(long, default_value = "up")]
    pub direction: String,
    /// Source address of the tunnel that the packet is in; the other options then describe the inner packet
    #[arg(long, value_name = "ADDRESS", requires = "tunnel_dst")]
    #[serde(default)]
    pub tunnel_src: Option<String>,
    /// Destination address of that tunnel
    #[arg(long, value_name = "ADDRESS", requires = "tunnel_src")]
    #[serde(default)]
    pub tunnel_dst: Option<String>,
    /// Kind of that tunnel: ip, gre, vxlan, geneve, l2tp or gtp-u
    #[arg(long, value_name = "KIND", default_value = "vxlan")]
    #[serde(default)]
    pub tunnel: String,
}

/// The answer: the policy of a packet, and why the packet belongs to it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Explanation {
    /// The policy. None if the packet passes unmanaged.
    pub policy: Option<String>,
    /// The action of the policy.
    pub action: String,
    /// Why the packet belongs to this policy.
    pub why: String,
    /// Every policy, in the order of precedence.
    pub policies: Vec<Candidate>,
    /// Bytes that the link is charged for packets of some typical lengths.
    #[serde(default)]
    pub charged: Vec<Charged>,
    /// Live flows between the two addresses, if a gateway was asked.
    #[serde(default)]
    pub flows: Vec<Flow>,
}

/// The bytes that the link is charged for a packet of some length.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Charged {
    /// Bytes of the packet, from the IP header on.
    pub ip_bytes: u32,
    /// Bytes charged, with the overhead of the link.
    pub bytes: u32,
}

/// A policy, and whether it matches the packet.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Candidate {
    /// The name of the policy.
    pub policy: String,
    /// The priority of the policy.
    pub priority: i32,
    /// `true` if the policy matches.
    pub matches: bool,
    /// The first field of the policy that does not match.
    pub differs_in: Option<String>,
}
