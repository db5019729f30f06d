//! The tables of a policy file, with the fields as the operator wrote them. The published
//! schema has the same descriptions of the fields.

use std::net::IpAddr;

use serde_json::{Value, json};
use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::flow::WithoutFirst;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::SchedulerSpec;
use tidegate_core::trunk::{Encapsulation, Fallback, Probing};
use tidegate_core::{Bytes, Factor, Rate};
use tidegate_gateway::aggregate::TriggerSet;
use tidegate_gateway::policy::Mode;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::between::Between;
use super::filter::{Addresses, Codepoints, Ports, Protocols, Token, Vlans};
use super::terms::ClassTerms;
use super::weight::TrunkWeight;
use super::{Backend, overhead};
use crate::added::Mechanisms;
use crate::diagnostic::Findings;
use crate::mechanism::{canonical_form, mechanisms, registered};
use crate::read::{
    Also, Array, Choice, Field, Fields, List, Node, Number, Read, Renamed, Required, Table, tables,
};
use crate::schema;
use crate::source::{Apply, Commit};
use crate::tcp::OfTrunk;
use crate::values::{Flag, Period};

tables! {
    /// A policy file: the ports of the gateway, and the treatment of the traffic between them.
    "the file" File {
        /// The gateway itself.
        "gateway" => gateway: Required<Gateway>,
        /// The policies. Of all policies that match a packet, the one with the highest priority
        /// applies; then the most specific one; then the first by name. Packets that match no
        /// policy pass.
        "policy" => policies: Option<Spanned<Array<Policy>>>,
        /// The classes that share the link. A policy names the class of its packets. The class "default" gets all
        /// other packets, and exists even if it is not written. Default: one queue.
        "class" => classes: Option<Spanned<Array<Class>>>,
        /// The trunks that end at this gateway. A policy names the trunk of its packets. Default:
        /// none.
        "trunk" => trunks: Option<Spanned<Array<Trunk>>>,
        /// Further files and repositories to read.
        "head" => head: Also<FurtherParts>,
    }

    /// Further files and repositories to read.
    "the file" FurtherParts {
        /// Further files with policies, classes and trunks: paths or patterns such as "policies.d/*.toml", relative
        /// to the directory of this file, read in the order of their names. Default: none.
        "include" => include: Option<Spanned<List<String>>>,
        /// Repositories that the policy agent watches for further policies, classes and trunks.
        /// Default: none.
        "source" => sources: Option<Spanned<Array<Source>>>,
    }

    /// A repository of policies. A name that two sources contain, or a source and this file, is an
    /// error. The last valid version of all policies then stays in force.
    "[[source]]" Source {
        /// Its name, in reports, alarms and commands: letters, digits, dots, dashes, underscores.
        "name" => name: Required<String>,
        /// Kind of repository: a "directory" of files, "etcd", or "ldap".
        "kind" => kind: Required<WrittenKind>,
        /// Path of the directory, with kind "directory"; an absolute path. Default: none.
        "path" => path: Option<Spanned<String>>,
        /// Servers of "etcd" or "ldap", tried in this order: "http://", "https://", "ldap://" or "ldaps://", with
        /// host and port. Default: none.
        "url" => url: Option<Spanned<List<String>>>,
        /// The DN of the root entry in "ldap". Default: none.
        "base" => base: Option<Spanned<String>>,
        /// Prefix of the keys in "etcd". Default: "/tidegate/".
        "prefix" => prefix: Option<Spanned<String>>,
        /// User of "etcd", or bind DN of "ldap"; with a `password_file`. Default: none, without authentication.
        "user" => user: Option<Spanned<String>>,
        /// File of mode 0600 with the password in its first line. Default: none.
        "password_file" => password_file: Option<Spanned<String>>,
        /// File with the certificates of the authorities that sign the server's certificate.
        /// Default: those of the system.
        "ca" => ca: Option<Spanned<String>>,
        /// File with the certificate of this gateway; with a `key`. Default: none.
        "cert" => cert: Option<Spanned<String>>,
        /// File of mode 0600 with the key of `cert`. Default: none.
        "key" => key: Option<Spanned<String>>,
        /// Roles of this gateway. A policy, class or trunk with `roles` applies only if it lists
        /// one of these roles. Items without `roles` always apply. Default: none.
        "roles" => roles: Option<Spanned<List<String>>>,
        /// Reaction to a commit: "auto" puts the commit in force; "confirm" does so too, but rolls
        /// the commit back unless `tidegate confirm` follows; "manual" waits for `tidegate apply --source`.
        /// Default: "auto".
        "apply" => apply: Option<Spanned<Apply>>,
        /// Changes that count as a commit: "marker", a change of a marker that is written last; or
        /// "each-change", every change that 200 ms without further changes follow. With
        /// "each-change", half of a change can be put in force. Default: "marker".
        "commit" => commit: Option<Spanned<Commit>>,
        /// Interval between two reads of a source that cannot be watched, from "100 ms" to "1 h".
        /// Default: "1 s".
        "poll" => poll: Option<Spanned<Period>>,
        /// Largest total size of its documents, from 1 kB to 1 GB. Default: "64 MiB".
        "max_size" => max_size: Option<Spanned<Bytes>>,
        /// Largest number of its policies, classes and trunks together, from 1 to 1000000. Default: 100000.
        "max_policies" => max_policies: Option<Spanned<Number>>,
    }

    /// The gateway itself. `rate`, `overhead`, `queue`, `marking`, `shaping_interval` and
    /// `fragments_without_first` can change while it runs.
    "[gateway]" Gateway {
        /// Interface towards the users.
        "lan" => lan: Required<String>,
        /// Interface towards the Internet.
        "wan" => wan: Required<String>,
        /// Rate of the access link. Default: not limited here.
        "rate" => rate: Option<Spanned<Rates>>,
        /// Bytes that the access link adds to each IP packet: the name of a kind of link, or
        /// { per_packet, min }. Default: "raw", the frame as the port receives it.
        "overhead" => overhead: Option<Spanned<overhead::Entry>>,
        /// Queue discipline at the access link. "per-flow" with a `marking`, if a policy has an `ack_control`, or
        /// if there are trunks. Default: "hosts".
        "queue" => queue: Option<Spanned<QdiscSpec>>,
        /// Marking: predicts from the windows of flows when the queue would overflow, and marks
        /// packets before. The queue is then "per-flow" or "drop-tail". Default: none.
        "marking" => marking: Option<Spanned<MarkingSpec>>,
        /// The scheduler of the classes: "class-tree", or "jobs", which keeps bounds and ratios of delay and loss.
        /// Default: "class-tree".
        "scheduler" => scheduler: Option<Spanned<SchedulerSpec>>,
        /// Bytes of all classes together that may wait, with scheduler "jobs". Default: "250 kB".
        "buffer" => buffer: Option<Spanned<Bytes>>,
        /// Interval of the shaping timer. With "0 s" the timer expires exactly when the next packet conforms.
        /// Default: "0 s".
        "shaping_interval" => shaping_interval: Option<Spanned<Period>>,
        /// Events after which an aggregate checks whether waiting packets conform. "all": each
        /// event that may have added tokens. "timer": only the shaping timer, as in a host without
        /// the triggers of the paper's section 6; new packets can then take tokens before waiting
        /// ones. Default: "all".
        "shaping_triggers" => shaping_triggers: Option<Spanned<TriggerSet>>,
        /// Policy of an IP fragment whose first fragment did not arrive. "by-address" skips
        /// policies that name ports; "may-match" takes the first policy whose other terms match.
        /// Default: "by-address".
        "fragments_without_first" => fragments_without_first: Option<Spanned<WithoutFirst>>,
        /// Longest time between two heartbeats of the gateway, from "5 ms" to "10 s". After this
        /// time, the kernel passes frames without the gateway. Default: "50 ms".
        "heartbeat" => heartbeat: Option<Spanned<Period>>,
        /// Most packets in the gateway at once, from 1024 to 1048576. Each packet takes 2 KiB of memory, 4 KiB with an
        /// MTU above 1770. On AF_PACKET a packet takes up to 68 KiB. Default: 16384.
        "packets" => packets: Option<Spanned<Number>>,
        /// Entries of the flow table, from 64 to 16777216; each takes at most 256 B of memory.
        /// Default: 131072.
        "flows" => flows: Option<Spanned<Number>>,
        /// Kind of ports. "auto" selects AF_XDP if the host supports it. Default: "auto".
        "backend" => backend: Option<Spanned<Backend>>,
    }

    /// Rate of the access link.
    "`rate`" Rates {
        /// From the LAN to the WAN. Default: not limited here.
        "up" => up: Option<Spanned<Rate>>,
        /// From the WAN to the LAN. Default: not limited here.
        "down" => down: Option<Spanned<Rate>>,
    }

    /// Longest waiting time of the packets of a class, in each direction.
    "`delay_bound`" DelayBounds {
        /// From the LAN to the WAN. Default: no bound.
        "up" => up: Option<Spanned<Period>>,
        /// From the WAN to the LAN. Default: no bound.
        "down" => down: Option<Spanned<Period>>,
    }

    /// A class: packets that share a guarantee and a ceiling at the link. `tidegate class` changes its rates
    /// while the gateway runs.
    "[[class]]" Class {
        /// Its name, in policies, metrics and commands: letters, digits, dots, dashes, underscores.
        "name" => name: Required<String>,
        /// The parent class. Default: the link.
        "parent" => parent: Option<Spanned<String>>,
        /// The terms that schedulers declare for their classes.
        "terms" => terms: Also<ClassTerms>,
        /// Its queue discipline. Default: the queue and marking of the gateway.
        "queue" => queue: Option<Spanned<QdiscSpec>>,
        /// Marking: marks packets before its queue overflows, as in `[gateway]`. Default: none if the class has
        /// a `queue`.
        "marking" => marking: Option<Spanned<MarkingSpec>>,
    }

    /// A class in relation to another: { of = "silver", factor = 0.5 } means half the value of
    /// class `silver`.
    "`delay_ratio` and `loss_ratio`" Ratio {
        /// The other class.
        "of" => of: Required<String>,
        /// Delay or loss of this class divided by the value of the other class; above 0.
        "factor" => factor: Required<Factor>,
    }

    /// An end of a trunk: a path to another gateway whose rate is found by congestion control. The
    /// other gateway has the same table, with `local` and `peer` exchanged and a `next_hop` of its
    /// own.
    "[[trunk]]" Trunk {
        /// Its name, in policies and reports: letters, digits, dots, dashes, underscores.
        "name" => name: Required<String>,
        /// The address of this gateway on its WAN port, for this and other trunks. No other host
        /// may use it.
        "local" => local: Required<Station>,
        /// The address of the other gateway.
        "peer" => peer: Required<Station>,
        /// Next hop of packets to `peer`: the address of the router on the WAN port. A router that answers neither
        /// ARP nor neighbour discovery needs its hardware address. The simulator needs none. Default: none.
        "next_hop" => next_hop: Option<Spanned<Station>>,
        /// The file with the key of the trunk, the same for both gateways: 64 hexadecimal digits, such as
        /// `openssl rand -hex 32` prints. The simulator needs none. Default: none.
        "key_file" => key_file: Option<Spanned<String>>,
        /// UDP port of the messages between its gateways, and the first port of its management connections. Each
        /// connection takes two ports. Default: 4754.
        "port" => port: Option<Spanned<Number>>,
        /// Number of management connections, from 1 to 64. With more connections the rate changes in smaller steps.
        /// Default: 4.
        "connections" => connections: Option<Spanned<Number>>,
        /// User bytes, from the IP header on, for which one management packet is sent: 64 B to
        /// 65535 B. Competing trunks share in proportion to it. Default: "1500 B".
        "vmss" => vmss: Option<Spanned<Bytes>>,
        /// Rate that is sent regardless of congestion control, from the IP header on. Default: zero.
        "guarantee" => guarantee: Option<Spanned<Rate>>,
        /// Largest rate: user packets, the headers of their datagrams, and management packets, from the IP header
        /// on. Default: no ceiling.
        "ceiling" => ceiling: Option<Spanned<Rate>>,
        /// Queue discipline of the tunnel queue, where user packets wait for credit. Default: "per-flow".
        "queue" => queue: Option<Spanned<QdiscSpec>>,
        /// The class of assured forwarding, from 1 to 4: user packets are marked AFx1, management packets
        /// AFx3. Default: 1.
        "assured" => assured: Option<Spanned<Number>>,
        /// TCP settings of its management connections. With probing "vegas", the congestion control
        /// must support weights. Default: profile "rfc", a receive window that never limits, and an
        /// initial window of one packet.
        "tcp" => tcp: Option<Spanned<OfTrunk>>,
        /// Treatment of user packets when the other gateway has not answered for three RTO. "hold"
        /// sends only the guarantee, "direct" sends the packets without the trunk. Default: "hold".
        "fallback" => fallback: Option<Spanned<Fallback>>,
        /// Method that finds the rate of the trunk: "management" packets; "vegas", which is
        /// management packets of one connection with weighted Vegas; or "epochs", whose boundaries
        /// are user packets. With "epochs", the trunk has no `connections`, `vmss`, `weight` or
        /// `tcp`, and no other trunk may have its class `assured`. Default: "management".
        "probing" => probing: Option<Spanned<Probing>>,
        /// The weight of the trunk, from 1 to 16: a number, or "measured", which follows the load
        /// that the users offer. It replaces `connections`: with "management" packets, the rounded
        /// weight is the number of connections, and both gateways must have a `weight`. With
        /// "vegas", the weight is theta. Default: none, which is 1 with "vegas".
        "weight" => weight: Option<Spanned<TrunkWeight>>,
        /// Encapsulation of user packets between live gateways. "none" leaves them unchanged. "udp" puts each into
        /// an authenticated datagram from `local` to `peer`, which takes the path of management packets. Both
        /// gateways need the same value. The simulator has one path, and does not encapsulate. Default: "none".
        "encapsulation" => encapsulation: Option<Spanned<Encapsulation>>,
        /// The longest IP packet that the path to `peer` carries, datagrams of the trunk included,
        /// from 1351 B to 9216 B; only with `encapsulation`. ICMP messages of routers lower it.
        /// Default: the MTU of the WAN port.
        "mtu" => mtu: Option<Spanned<Bytes>>,
        /// VLAN identifier of the trunk's datagrams on the WAN port, from 1 to 4094. Default: not
        /// tagged.
        "vlan" => vlan: Option<Spanned<Number>>,
    }

    /// A policy: a filter, a profile, and an action.
    "[[policy]]" Policy {
        /// Its name, in metrics and commands: letters, digits, dots, dashes, underscores.
        "name" => name: Required<String>,
        /// Precedence among matching policies: the highest number wins. Default: 0.
        "priority" => priority: Option<Spanned<Number>>,
        /// Filter of its packets. Default: all packets.
        "match" => filter: Option<Spanned<Match>>,
        /// The action on its packets.
        "action" => action: Required<Action>,
        /// "enforce" performs the action, "observe" only reports it. Default: "enforce".
        "mode" => mode: Option<Spanned<Mode>>,
        /// Traffic profile. It applies to each direction separately. Required unless the action is
        /// "pass".
        "profile" => profile: Option<Spanned<Profile>>,
        /// Allocation: selects the flow that sends next. Default: "logical-partitions".
        "allocation" => allocation: Option<Spanned<AllocationSpec>>,
        /// Queue discipline of the policy, with action "shape". "per-flow" with a `marking`, an `ack_control` or
        /// a `trunk`. Default: "fq-codel".
        "queue" => queue: Option<Spanned<QdiscSpec>>,
        /// Marking: marks packets before the queue of the policy overflows, as in `[gateway]`. Only
        /// with action "shape", and not together with `trunk`. Default: none.
        "marking" => marking: Option<Spanned<MarkingSpec>>,
        /// ACK control, with action "shape": "postack" holds ACKs in place of data, "tcr" paces ACKs and
        /// reduces windows, "none" forwards ACKs unchanged. Default: "none".
        "ack_control" => ack_control: Renamed<AckControl>,
        /// DS codepoints of packets in profile and out of profile, with action "police-mark".
        "mark" => mark: Option<Spanned<Mark>>,
        /// Weights of flows. The first entry that matches a flow applies. Default: 1 for all flows.
        "weights" => weights: Option<Spanned<Array<Weight>>>,
        /// Members that share the profile equally: flows ("flow"), sending hosts ("source-host"),
        /// receiving hosts ("destination-host"), or pairs of hosts ("hosts"); or a table { by, ipv6
        /// }. Default: "flow".
        "fair_between" => fair_between: Option<Spanned<Between>>,
        /// The class of its packets at the link. Default: "default".
        "class" => class: Option<Spanned<String>>,
        /// The trunk of its packets from the LAN; not together with `class`. Default: none.
        "trunk" => trunk: Option<Spanned<String>>,
    }

    /// A filter. A packet matches if each field has one of the given values.
    "`match`" Match {
        /// Source address, prefix or range. Default: any.
        "src" => src: Option<Spanned<List<Token<Addresses>>>>,
        /// Destination address, prefix or range. Default: any.
        "dst" => dst: Option<Spanned<List<Token<Addresses>>>>,
        /// Source port or range. Default: any.
        "src_port" => src_port: Option<Spanned<List<Token<Ports>>>>,
        /// Destination port or range. Default: any.
        "dst_port" => dst_port: Option<Spanned<List<Token<Ports>>>>,
        /// IP protocol, by name or number. Default: any.
        "protocol" => protocol: Option<Spanned<List<Token<Protocols>>>>,
        /// DS codepoint, by name or number. Default: any.
        "dscp" => dscp: Option<Spanned<List<Token<Codepoints>>>>,
        /// VLAN identifier or range; "none" for untagged frames. If a frame has several tags, the
        /// outermost counts; `{ outer = 100, inner = 20 }` matches two tags. Default: any.
        "vlan" => vlan: Option<Spanned<Tags>>,
        /// "up" from the LAN to the WAN, "down" from the WAN to the LAN. Default: both, as two
        /// aggregates.
        "direction" => direction: Option<Spanned<Direction>>,
        /// For packets in unencrypted tunnels: true to match addresses, ports and protocol of the
        /// innermost header, false to match those of the outermost header. Default: false.
        "inner" => inner: Option<Spanned<Flag>>,
    }

    /// VLAN tags of a frame, each a value or a list.
    "`vlan`" TwoTags {
        /// Outermost VLAN identifier or range; "none" for untagged frames. Default: any.
        "outer" => outer: Option<Spanned<List<Token<Vlans>>>>,
        /// VLAN identifier or range of the second tag; "none" for frames with at most one tag. Default: any.
        "inner" => inner: Option<Spanned<List<Token<Vlans>>>>,
    }

    /// A traffic profile: rates and burst of the packets in profile.
    "`profile`" Profile {
        /// Mean rate.
        "mean" => mean: Required<Rate>,
        /// Rate within a burst, at least the mean. Default: as fast as the port.
        "peak" => peak: Option<Spanned<Rate>>,
        /// Burst at the peak rate, at least one full-size packet. Default: 100 ms of the mean rate, at least ten
        /// full-size packets.
        "burst" => burst: Option<Spanned<Bytes>>,
        /// The longest IP packet in profile, from 68 B to 65535 B. A longer packet is out of
        /// profile if the action polices, and is dropped if it shapes. Default: any that a port can
        /// send.
        "max_packet" => max_packet: Option<Spanned<Bytes>>,
    }

    /// DS codepoints of policed packets.
    "`mark`" Mark {
        /// Codepoint in profile, by name or number. Default: unchanged.
        "in" => in_profile: Option<Spanned<Token<Codepoints>>>,
        /// Codepoint out of profile, by name or number.
        "out" => out_of_profile: Option<Spanned<Token<Codepoints>>>,
    }

    /// The weight of some flows of a policy.
    "`weights`" Weight {
        /// The flows, in the direction of the policy.
        "match" => filter: Required<Match>,
        /// Their share relative to other flows, from 1 to 65535.
        "weight" => weight: Required<Number>,
    }
}

/// The field `vlan` as written: the outermost tag, or a table for two tags.
#[derive(Clone, Debug)]
pub(crate) struct Tags(pub(crate) TwoTags);

impl Read for Tags {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        if let DeValue::Table(_) = node.get_ref() {
            return TwoTags::read(node, found).map(Self);
        }
        let outer = Some(Spanned::new(node.span(), List::read(node, found)?));
        Some(Self(TwoTags { outer, inner: None }))
    }

    fn schema(added: &Mechanisms) -> Value {
        json!({ "anyOf": [List::<Token<Vlans>>::schema(added), TwoTags::schema(added)] })
    }

    fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        let DeValue::Table(_) = node.get_ref() else {
            return List::<Token<Vlans>>::canonical(node, added);
        };
        let table = <TwoTags as Read>::canonical(node, added);
        match (table.get("outer"), table.get("inner")) {
            (Some(outer), None) => outer.clone(),
            _ => table,
        }
    }
}

impl File {
    /// Reads all tables of a document.
    pub(crate) fn from_document(document: &DeTable<'_>, found: &mut Findings) -> Self {
        Table::document(document).only(found)
    }
}

impl FurtherParts {
    /// Reads only these fields, and ignores all others.
    pub(crate) fn from_document(document: &DeTable<'_>, found: &mut Findings) -> Self {
        <Self as Fields>::take(&Table::document(document), found)
    }
}

/// The action of a policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    Shape,
    PoliceMark,
    PoliceDrop,
    Pass,
}

impl Choice for Action {
    const WHAT: &str = "an action";
    const CHOICES: &[(&str, Self)] = &[
        ("shape", Self::Shape),
        ("police-mark", Self::PoliceMark),
        ("police-drop", Self::PoliceDrop),
        ("pass", Self::Pass),
    ];
}

/// An IP or MAC address of a single host.
#[derive(Clone, Debug)]
pub(crate) struct Station(pub(crate) String);

impl Read for Station {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        String::read(node, found).map(Self)
    }

    fn schema(added: &Mechanisms) -> Value {
        String::schema(added)
    }

    fn canonical(node: &Node<'_>, _: &Mechanisms) -> toml::Value {
        let text = node.get_ref().as_str().unwrap_or_default();
        let address = text.parse::<IpAddr>().map(|address| address.to_string());
        toml::Value::String(address.unwrap_or_else(|_| text.to_ascii_lowercase()))
    }
}

impl Choice for Fallback {
    const WHAT: &str = "a fallback of trunks";
    const CHOICES: &[(&str, Self)] = &[("hold", Self::Hold), ("direct", Self::Direct)];
}

impl Choice for Encapsulation {
    const WHAT: &str = "an encapsulation";
    const CHOICES: &[(&str, Self)] = &[("none", Self::None), ("udp", Self::Udp)];
}

impl Choice for Mode {
    const WHAT: &str = "a mode";
    const CHOICES: &[(&str, Self)] = &[("enforce", Self::Enforce), ("observe", Self::Observe)];
}

impl Choice for Probing {
    const WHAT: &str = "a way of probing";
    const CHOICES: &[(&str, Self)] =
        &[("management", Self::Management), ("epochs", Self::Epochs), ("vegas", Self::Vegas)];
}

impl Choice for Direction {
    const WHAT: &str = "a direction";
    const CHOICES: &[(&str, Self)] = &[("up", Self::Up), ("down", Self::Down)];
}

impl Choice for TriggerSet {
    const WHAT: &str = "a set of triggers";
    const CHOICES: &[(&str, Self)] = &[("all", Self::All), ("timer", Self::Timer)];
}

impl Choice for WithoutFirst {
    const WHAT: &str = "a rule for fragments";
    const CHOICES: &[(&str, Self)] =
        &[("by-address", Self::ByAddress), ("may-match", Self::MayMatch)];
}

/// The ACK control of a policy; `None` for a policy without ACK control.
#[derive(Clone, Debug)]
pub(crate) struct AckControl(pub(crate) Option<AckSpec>);

/// The name that means "without ACK control".
const NO_CONTROL: &str = "none";

impl Read for AckControl {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        if node.get_ref().as_str() == Some(NO_CONTROL) {
            return Some(Self(None));
        }
        registered(node, found).map(|it| Self(Some(it)))
    }

    fn schema(added: &Mechanisms) -> Value {
        let control = schema::mechanisms(&mechanisms::<AckSpec>(added));
        json!({ "anyOf": [{ "const": NO_CONTROL }, control] })
    }

    fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        canonical_form::<AckSpec>(node, added)
    }
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WrittenKind {
    Directory,
    Etcd,
    Ldap,
}

impl Choice for WrittenKind {
    const WHAT: &str = "a kind of source";
    const CHOICES: &[(&str, Self)] =
        &[("directory", Self::Directory), ("etcd", Self::Etcd), ("ldap", Self::Ldap)];
}

impl Choice for Apply {
    const WHAT: &str = "a way to apply commits";
    const CHOICES: &[(&str, Self)] =
        &[("auto", Self::Auto), ("confirm", Self::Confirm), ("manual", Self::Manual)];
}

impl Choice for Commit {
    const WHAT: &str = "a kind of commit";
    const CHOICES: &[(&str, Self)] = &[("marker", Self::Marker), ("each-change", Self::EachChange)];
}
