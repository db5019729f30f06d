//! Reasons for refusing a trunk datagram.

use tidegate_core::countable;

countable! {
    /// Why a datagram to a trunk is refused.
    pub enum Refusal, counts Refusals {
        /// The datagram is cut short, or has an invalid field.
        Malformed = "malformed",
        /// The datagram is of another protocol version.
        Version = "version",
        /// The authentication tag is wrong: an unknown sender, a damaged datagram, or one from an
        /// earlier run of either gateway.
        Forged = "forged",
        /// The datagram was accepted before, or is too old to tell.
        Replayed = "replayed",
        /// The gateways have not agreed on a session since one of them started.
        NoSession = "no-session",
        /// User packets travel in datagrams at one end only.
        Encapsulation = "encapsulation",
        /// The ends find the share by different mechanisms: management packets, `vegas` or epochs.
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
        /// The packet is addressed to this end, but is no datagram from the other end. It has another
        /// sender, port or protocol, is in a tunnel, or is cut off before its ports. The first trunk of
        /// the address counts it.
        Stranger = "stranger",
    }
}
