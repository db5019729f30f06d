//! Reports of flows. A flow has a report for each direction in which packets have arrived.

use std::borrow::Cow;

use tidegate_core::packet::Direction;
use tidegate_core::reports::ReportValue;
use tidegate_core::{Count, report};

report! {
    /// The state of a flow in one direction.
    pub FlowReport {
        /// Address and port of the sender.
        src: String => { column "from" };
        /// Address and port of the receiver.
        dst: String => { column "to" };
        /// VLAN identifiers of the flow's frames, outermost first. At most two are read.
        vlans: Vec<u16>;
        /// Unencrypted tunnels that carry the flow, outermost first.
        tunnels: Vec<TunnelReport>;
        /// IP protocol number.
        protocol: u8;
        /// Direction of the packets: `up` from the LAN to the WAN, or `down`.
        direction: Direction;
        /// The policy of the flow, if any.
        policy: Option<String> => { column "policy" };
        /// Weight of the flow in its policy.
        weight: u32;
        /// Packets that arrived.
        offered: Count => { column "in" of bytes };
        /// Frame bytes of the flow that wait now at its policy, at a trunk or at the link.
        waiting_bytes: u64;
        /// Number of held ACKs that acknowledge the flow's data.
        held_acks: u32;
        /// Smoothed round-trip time between the gateway and the LAN host, in microseconds.
        rtt_lan_us: Option<u64>;
        /// Smoothed round-trip time between the gateway and the WAN host, in microseconds.
        rtt_wan_us: Option<u64> => { column "rtt lan+wan" = |it| ReportValue::Text(it.rtts()) };
        /// Segments with bytes that the gateway had seen before.
        retransmissions: u64;
        /// TCP state known to the gateway: `full`, `no-window-scale` (no SYN was seen), or
        /// `queue-only` (not TCP, or only one direction was seen).
        tracking: Cow<'static, str>;
        /// Milliseconds since the flow's last packet.
        idle_ms: u64;
        /// The flow's window did not fall after the gateway marked its packets.
        ignores_marks: bool;
        /// The limit in words. The gateway leaves it empty, because the words name the profile in
        /// the policy file.
        limit_text as "limit": String => {
            column "limited by" = |it| ReportValue::Text(it.limit_and_place())
        };
    }
    apart {
        /// The reason why the flow does not send more. Only the gateway itself knows it.
        limit: Limit;
    }
}

report! {
    /// A tunnel that carries a flow. The ports in `src` and `dst` are those of the first packet of
    /// any flow in the tunnel.
    #[derive(Eq)]
    pub TunnelReport {
        /// Tunnel protocol, such as "vxlan".
        kind: Cow<'static, str>;
        /// The VNI of VXLAN and GENEVE, or the key of GRE.
        id: Option<u32>;
        /// Address and port of the sender of the outer packets.
        src: String;
        /// Address and port of the receiver of the outer packets.
        dst: String;
        /// VLAN identifier of the Ethernet frames inside the tunnel, if they have a tag.
        vlan: Option<u16>;
    }
}

impl FlowReport {
    /// Both round-trip times in milliseconds.
    fn rtts(&self) -> String {
        let [lan, wan] = [self.rtt_lan_us, self.rtt_wan_us].map(|us| {
            us.map_or_else(
                || "?".to_owned(),
                |us| format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
            )
        });
        format!("{lan}+{wan}")
    }

    /// The limit in words, and the flow's VLANs and tunnels.
    fn limit_and_place(&self) -> String {
        let vlans = self.vlans.iter().map(|it| format!("; in VLAN {it}"));
        let tunnels = self.tunnels.iter().map(|it| format!("; in {}", it.text()));
        self.limit_text.clone() + &vlans.chain(tunnels).collect::<String>()
    }
}

impl TunnelReport {
    /// The tunnel in words.
    #[must_use]
    pub fn text(&self) -> String {
        let id = self.id.map_or_else(String::new, |id| format!(" {id}"));
        let vlan = self.vlan.map_or_else(String::new, |vlan| format!(", with VLAN {vlan} inside"));
        format!("{}{id} from {} to {}{vlan}", self.kind, self.src, self.dst)
    }
}

/// The reason why a flow does not send faster in one direction. The variants are checked in this
/// order.
///
/// The first four variants name the queue with most of the flow's waiting bytes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Limit {
    /// Packets wait in the queue of the policy.
    Policy {
        /// Frame bytes of the flow in this queue. If `shared`, the bytes of all flows in its
        /// subqueue.
        bytes: u64,
        /// The subqueue holds further flows, such as other flows of the same host.
        shared: bool,
    },
    /// Packets wait in the queue of a trunk for credit.
    Trunk {
        /// The trunk's name.
        name: String,
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// Packets wait in the queue of a class of the link.
    Class {
        /// The class's name.
        name: String,
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// Packets wait in the queue of a link without classes.
    Link {
        /// Frame bytes of the flow in this queue.
        bytes: u64,
    },
    /// No packet waits, and the policy holds ACKs that acknowledge the flow's data.
    HeldAcks {
        /// Number of held ACKs.
        acks: u32,
    },
    /// No packet waits. The flow carries ACKs, and the policy of the other direction holds some of
    /// them.
    IsHeld {
        /// Policy that holds the ACKs.
        policy: String,
        /// Number of held ACKs.
        acks: u32,
    },
    /// The remaining window of the receiver is less than one segment.
    Receiver,
    /// The policy has reduced the window, and the remainder is less than one segment.
    Window,
    /// The sender has sent no packet for more than a second.
    Silent,
    /// The sender itself, or a queue elsewhere on the path. The gateway and the receiver would
    /// permit more.
    #[default]
    Sender,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: the VLAN inside a tunnel missing in the text; a VLAN shown for a tunnel without one.
    #[test]
    fn a_tunnel_is_shown_with_the_vlan_inside() {
        let [src, dst] = ["192.0.2.1:4789", "192.0.2.2:4789"].map(str::to_owned);
        let tagged = TunnelReport { kind: "vxlan".into(), id: Some(7), src, dst, vlan: Some(20) };
        let untagged = TunnelReport { vlan: None, ..tagged.clone() };
        let words = "vxlan 7 from 192.0.2.1:4789 to 192.0.2.2:4789";
        assert_eq!(untagged.text(), words);
        assert_eq!(tagged.text(), format!("{words}, with VLAN 20 inside"));
    }
}
