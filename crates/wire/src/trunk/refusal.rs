//! Reasons for refusing a trunk datagram.

use tidegate_core::countable;

countable! {
    /// The reason for refusing a datagram that is addressed to a trunk.
    pub enum Refusal, counts Refusals {
        /// The datagram is cut short, or has an invalid field.
        Malformed = "malformed",
        /// The datagram is of another protocol version.
        Version = "version",
        /// The authentication tag is wrong. The datagram is damaged, from an unknown sender, or
        /// from an earlier run of one of the gateways.
        Forged = "forged",
        /// The datagram was accepted before, or is too old to decide whether it was.
        Replayed = "replayed",
        /// The gateways have not agreed on a session since one of them started.
        NoSession = "no-session",
        /// Only one of the ends sends user packets in datagrams.
        Encapsulation = "encapsulation",
        /// The ends find the trunk's share by different mechanisms: management packets, `vegas` or
        /// epochs.
        Probing = "probing",
        /// Only one end has management connections with a weight.
        Weight = "weight",
        /// The payload is not exactly one IP packet between two hosts.
        Inner = "inner",
        /// The datagram was marked CE on the way, and the user packet inside is not ECN-capable.
        Congested = "congested",
        /// The datagram is a fragment. Trunks do not fragment their datagrams.
        Fragment = "fragment",
        /// The segment belongs to a management connection that this end does not have.
        Channel = "channel",
        /// The packet is addressed to this end, but is not a datagram from the other end. Its
        /// sender, port or protocol differs, it is in a tunnel, or it is cut off before its ports.
        /// If several trunks have the address, the first one counts the packet.
        NotFromPeer = "stranger",
    }
}
