//! The field `fair_between`: do flows or hosts share a profile equally? Its value is a name, or a
//! table with a prefix length.

use serde_json::{Value, json};
use tidegate_gateway::policy::{FairBetween, Sharers};
use toml::Spanned;
use toml::de::DeValue;

use crate::added::Mechanisms;
use crate::diagnostic::Findings;
use crate::read::{Choice, Field, Node, Number, Read, Required, Table, tables};
use crate::values::number;

impl Choice for Sharers {
    const WHAT: &str = "the members that share a profile";
    const CHOICES: &[(&str, Self)] = &[
        ("flow", Self::Flow),
        ("source-host", Self::SourceHost),
        ("destination-host", Self::DestinationHost),
        ("hosts", Self::Hosts),
    ];
}

tables! {
    /// Members that share a profile equally, with the prefix length of IPv6 hosts.
    "`fair_between`" Prefixes {
        /// "source-host", "destination-host" or "hosts".
        "by" => by: Required<Sharers>,
        /// IPv6 addresses with this many equal first bits are one host: 56 for a customer, 64 for a LAN. Default: 128.
        "ipv6" => ipv6: Option<Spanned<Number>>,
    }
}

/// `fair_between` as written: a name, or a name with a prefix length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between(pub(crate) FairBetween);

impl Read for Between {
    fn read(node: &Node<'_>, found: &mut Findings) -> Option<Self> {
        if !matches!(node.get_ref(), DeValue::Table(_)) {
            return Sharers::read(node, found).map(|by| Self(by.into()));
        }
        let written = Prefixes::read(node, found)?;
        let ipv6 = match &written.ipv6 {
            Some(length) => number(length, "ipv6", 1..=FairBetween::WHOLE_ADDRESS, found)?,
            None => FairBetween::WHOLE_ADDRESS,
        };
        Some(Self(FairBetween { by: *written.by.get()?.get_ref(), ipv6 }))
    }

    fn schema(added: &Mechanisms) -> Value {
        json!({ "anyOf": [Sharers::schema(added), Prefixes::schema(added)] })
    }

    fn canonical(node: &Node<'_>, added: &Mechanisms) -> toml::Value {
        let is_table = matches!(node.get_ref(), DeValue::Table(_));
        if is_table { Prefixes::canonical(node, added) } else { Sharers::canonical(node, added) }
    }
}
