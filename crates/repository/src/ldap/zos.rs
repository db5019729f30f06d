//! Reads policies in the LDAP schema of the AIX and z/OS policy agents.
//!
//! | attribute | field |
//! |---|---|
//! | `PolicyName`, `PolicyRulePriority`, `SelectorTag` | name, `priority`, `roles` |
//! | `ProtocolNumber`, `SourceAddressRange`, ... | `match` |
//! | `MaxRate`, or `DiffServInProfileRate` (kbit/s) | `profile.mean` |
//! | `DiffServInProfilePeakRate` (kbit/s) | `profile.peak` |
//! | `MaxTokenBucket`, or `DiffServInProfileTokenBucket` (kbit) | `profile.burst` |
//! | `DiffServInProfileMaxPacketSize` (kbit) | `profile.max_packet` |
//! | `OutgoingTOS`, `DiffServOutProfileTransmittedTOSByte` (eight binary digits) | `mark.in`, `mark.out` |
//! | `FlowServiceType`, `DiffServExcessTrafficTreatment` | `action` |
//!
//! `ControlledLoad` means that traffic is policed and marked, `Guaranteed` that it is shaped.
//! Traffic above its rate is dropped (`Drop`), sent as best effort (`BestEffort`), or shaped
//! (`Shape`). Names of attributes may begin with `ibm-`.
//!
//! Source: the paper `aggregates`, section 6; AIX 7.1, Networks, "IBM SecureWay Directory Server
//! policy loads" and "QoS policy specification"; z/OS 2.1 Communications Server, "PolicyAction
//! statement".
//! Differs: all other attributes that affect packets are refused by name. These are rates of single
//! connections, limits on the number of connections, marks for shaped traffic, and marks without a
//! rate.

use std::net::IpAddr;

use tidegate_config::{Item, ItemKind};
use tidegate_core::packet::Codepoint;
use toml::{Table, Value};

use super::entry::Entry;
use super::filter;
use super::index::Index;
use crate::Fault;

/// Converts `rule` and its service category to a policy.
pub(super) fn read(rule: &Entry, index: &Index) -> Result<Item, Fault> {
    let rule = &plain(rule);
    known(rule, &RULE_ATTRIBUTES)?;
    let name =
        rule.text("PolicyName")?.ok_or_else(|| rule.malformed("PolicyName", "is missing"))?;
    let category = plain(category(rule, index)?);
    known(&category, &CATEGORY_ATTRIBUTES)?;
    let mut fields = action(&category)?;
    if let Some(priority) = rule.integer("PolicyRulePriority")? {
        fields.insert("priority".to_owned(), Value::Integer(priority));
    }
    let mut roles = rule.texts(TAG)?;
    roles.sort_unstable();
    if !roles.is_empty() {
        let roles = roles.into_iter().map(|role| Value::String(role.to_owned()));
        fields.insert("roles".to_owned(), Value::Array(roles.collect()));
    }
    let matched = matched(rule)?;
    if !matched.is_empty() {
        fields.insert("match".to_owned(), Value::Table(matched));
    }
    Ok(Item { kind: ItemKind::Policy, name: name.to_owned(), fields })
}

/// Returns `entry` with the attribute names of AIX, which lack the prefix `ibm-`.
fn plain(entry: &Entry) -> Entry {
    let name = |name: &String| name.strip_prefix("ibm-").unwrap_or(name).to_owned();
    let attributes = entry.attributes.iter().map(|(key, values)| (name(key), values.clone()));
    Entry { dn: entry.dn.clone(), attributes: attributes.collect() }
}

/// Refuses each attribute that affects packets and is not in `names`.
fn known(entry: &Entry, names: &[&str]) -> Result<(), Fault> {
    let is =
        |name: &str| names.iter().chain(&DESCRIPTIVE).any(|known| known.eq_ignore_ascii_case(name));
    match entry.attributes.keys().find(|name| !is(name)) {
        None => Ok(()),
        Some(name) => Err(entry.malformed(name, "is not supported")),
    }
}

/// The service category that `rule` refers to.
fn category<'a>(rule: &Entry, index: &'a Index) -> Result<&'a Entry, Fault> {
    let reference = rule.text(REFERENCE)?.ok_or_else(|| rule.malformed(REFERENCE, "is missing"))?;
    index.service(reference).ok_or_else(|| {
        rule.malformed(
            REFERENCE,
            &format!("names `{reference}`, and there is no such service category"),
        )
    })
}

/// The name of a service category.
pub(super) fn service_name(entry: &Entry) -> Option<&str> {
    let name = ["serviceName", "ibm-serviceName"].map(|name| entry.text(name).ok().flatten());
    entry.is_a(CATEGORY_CLASS).then(|| name.into_iter().flatten().next()).flatten()
}

fn matched(rule: &Entry) -> Result<Table, Fault> {
    let mut matched = Table::new();
    for (attribute, field) in [("SourceAddressRange", "src"), ("DestinationAddressRange", "dst")] {
        let Some(text) = rule.text(attribute)? else { continue };
        let address = |text: &str| {
            text.trim()
                .parse::<IpAddr>()
                .map_err(|_| rule.malformed(attribute, "is not a range of addresses"))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (address(first)?, address(last)?);
        let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
        matched.insert(field.to_owned(), Value::String(range));
    }
    for (attribute, field) in
        [("SourcePortRange", "src_port"), ("DestinationPortRange", "dst_port")]
    {
        let Some(text) = rule.text(attribute)? else { continue };
        let port = |text: &str| {
            text.trim()
                .parse::<u16>()
                .map_err(|_| rule.malformed(attribute, "is not a range of ports"))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = match (port(first)?, port(last)?) {
            (0, 0) => continue,
            (first, last) if first == last => Value::Integer(i64::from(first)),
            (first, last) => Value::String(format!("{first}-{last}")),
        };
        matched.insert(field.to_owned(), range);
    }
    if let Some(number) = rule.integer(PROTOCOL)? {
        let number =
            u8::try_from(number).map_err(|_| rule.malformed(PROTOCOL, "is not 0 to 255"))?;
        if number != 0 {
            matched.insert("protocol".to_owned(), filter::protocol(number));
        }
    }
    Ok(matched)
}

/// The action, the profile and the marks of a service category.
fn action(category: &Entry) -> Result<Table, Fault> {
    for attribute in ["MinRate", "MaxConnections"] {
        if category.integer(attribute)?.is_some_and(|limit| limit != 0) {
            return Err(category.malformed(
                attribute,
                "is for single connections, which have no limit of their own",
            ));
        }
    }
    let aix = positive(category, MAX_RATE)?;
    let zos = positive(category, IN_PROFILE_RATE)?;
    if aix.is_some() && zos.is_some() {
        return Err(category
            .malformed(MAX_RATE, "limits single connections if DiffServInProfileRate is given"));
    }
    let mean = aix.or(zos);
    let action = treatment(category, mean.is_some())?;
    let mut fields = Table::from_iter([("action".to_owned(), Value::String(action.to_owned()))]);
    if let Some(mean) = mean {
        fields.insert("profile".to_owned(), Value::Table(profile(category, mean)?));
    }
    let (inside, outside) = (codepoint(category, TOS)?, codepoint(category, OUT_TOS)?);
    match action {
        "police-mark" => {
            let inside = inside.map(|inside| ("in".to_owned(), inside));
            let outside = outside.unwrap_or_else(|| Value::String("DF".to_owned()));
            let marks = inside.into_iter().chain([("out".to_owned(), outside)]).collect();
            fields.insert("mark".to_owned(), Value::Table(marks));
        }
        "police-drop" if inside.is_some() => {
            return Err(category.malformed(TOS, "cannot be set where excess traffic is dropped"));
        }
        "shape" if inside.is_some() => {
            return Err(category.malformed(TOS, "cannot be set on traffic that is shaped"));
        }
        _ if inside.is_some() => return Err(category.malformed(TOS, "needs a MaxRate")),
        _ if outside.is_some() => {
            return Err(
                category.malformed(OUT_TOS, "needs excess traffic that is sent as best effort")
            );
        }
        _ => {}
    }
    Ok(fields)
}

/// The policy action of a service category. `limited` is `true` if the category has a rate.
fn treatment(category: &Entry, limited: bool) -> Result<&'static str, Fault> {
    let service = match category.text(SERVICE)? {
        None => None,
        Some(text) if text.eq_ignore_ascii_case("ControlledLoad") => Some("police-mark"),
        Some(text) if text.eq_ignore_ascii_case("Guaranteed") => Some("shape"),
        Some(_) => {
            return Err(category.malformed(SERVICE, "is neither ControlledLoad nor Guaranteed"));
        }
    };
    let excess = match category.text(EXCESS)? {
        None => None,
        Some(text) if text.eq_ignore_ascii_case("Drop") => Some("police-drop"),
        Some(text) if text.eq_ignore_ascii_case("BestEffort") => Some("police-mark"),
        Some(text) if text.eq_ignore_ascii_case("Shape") => Some("shape"),
        Some(_) => return Err(category.malformed(EXCESS, "is not Drop, BestEffort or Shape")),
    };
    Ok(if limited { excess.or(service).unwrap_or("police-mark") } else { "pass" })
}

fn profile(category: &Entry, mean: i64) -> Result<Table, Fault> {
    let rate = |kilobits: i64| Value::String(format!("{kilobits} kbit/s"));
    let mut profile = Table::from_iter([("mean".to_owned(), rate(mean))]);
    if let Some(peak) = positive(category, PEAK_RATE)? {
        profile.insert("peak".to_owned(), rate(peak));
    }
    for (attributes, field) in
        [(&[BUCKET, IN_PROFILE_BUCKET][..], "burst"), (&[MAX_PACKET][..], "max_packet")]
    {
        for attribute in attributes {
            let Some(kilobits) = positive(category, attribute)? else { continue };
            let bytes = kilobits
                .checked_mul(BYTES_IN_KILOBIT)
                .ok_or_else(|| category.malformed(attribute, "is too large"))?;
            if profile.insert(field.to_owned(), Value::String(format!("{bytes} B"))).is_some() {
                return Err(
                    category.malformed(attribute, "is given together with another token bucket")
                );
            }
        }
    }
    Ok(profile)
}

/// A number above 0. `None` for 0, which means "no limit".
fn positive(category: &Entry, attribute: &str) -> Result<Option<i64>, Fault> {
    match category.integer(attribute)? {
        Some(number) if number < 0 => Err(category.malformed(attribute, "is negative")),
        number => Ok(number.filter(|number| *number > 0)),
    }
}

/// The DS codepoint in a TOS byte that is written in binary digits. Missing digits are 0. `None`
/// for codepoint 0.
fn codepoint(category: &Entry, attribute: &str) -> Result<Option<Value>, Fault> {
    let Some(text) = category.text(attribute)? else { return Ok(None) };
    let wrong = |why: &str| category.malformed(attribute, why);
    if text.is_empty()
        || text.len() > TOS_DIGITS
        || !text.bytes().all(|digit| matches!(digit, b'0' | b'1'))
    {
        return Err(wrong("is not eight binary digits"));
    }
    let byte = u8::from_str_radix(&format!("{text:0<TOS_DIGITS$}"), 2)
        .map_err(|_| wrong("is not a byte"))?;
    if byte & ECN_BITS != 0 {
        return Err(wrong("sets bits of ECN"));
    }
    Ok(Codepoint::new(byte >> ECN_BITS.count_ones()).filter(|_| byte != 0).map(filter::codepoint))
}

/// The object class of rules.
pub(super) const RULE_CLASS: &str = "ServicePolicyRules";
/// The object class of service categories.
pub(super) const CATEGORY_CLASS: &str = "ServiceCategories";

const TAG: &str = "SelectorTag";
const REFERENCE: &str = "ServiceReference";
const PROTOCOL: &str = "ProtocolNumber";
const SERVICE: &str = "FlowServiceType";
const EXCESS: &str = "DiffServExcessTrafficTreatment";
const MAX_RATE: &str = "MaxRate";
const IN_PROFILE_RATE: &str = "DiffServInProfileRate";
const PEAK_RATE: &str = "DiffServInProfilePeakRate";
const BUCKET: &str = "MaxTokenBucket";
const IN_PROFILE_BUCKET: &str = "DiffServInProfileTokenBucket";
const MAX_PACKET: &str = "DiffServInProfileMaxPacketSize";
const TOS: &str = "OutgoingTOS";
const OUT_TOS: &str = "DiffServOutProfileTransmittedTOSByte";

/// The rule attributes that this module translates to policy fields.
const RULE_ATTRIBUTES: [&str; 9] = [
    "PolicyName",
    "PolicyRulePriority",
    TAG,
    REFERENCE,
    PROTOCOL,
    "SourceAddressRange",
    "DestinationAddressRange",
    "SourcePortRange",
    "DestinationPortRange",
];

/// The attributes of service categories that this module translates.
const CATEGORY_ATTRIBUTES: [&str; 14] = [
    "serviceName",
    TAG,
    SERVICE,
    EXCESS,
    MAX_RATE,
    IN_PROFILE_RATE,
    PEAK_RATE,
    BUCKET,
    IN_PROFILE_BUCKET,
    MAX_PACKET,
    TOS,
    OUT_TOS,
    "MinRate",
    "MaxConnections",
];

/// Attributes that have no effect on packets.
const DESCRIPTIVE: [&str; 4] = ["objectClass", "cn", "description", "entryCSN"];

const BYTES_IN_KILOBIT: i64 = 125;
const TOS_DIGITS: usize = 8;
/// The bits of a TOS byte outside of the DS codepoint; RFC 3168, section 5.
const ECN_BITS: u8 = 0b11;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultKind;

    fn entry(class: &str, attributes: &[(&str, &str)]) -> Entry {
        let mut entry = Entry::new(format!("cn={class},ou=x"), &[class]);
        for (name, value) in attributes {
            entry.add(name, *value);
        }
        entry
    }

    fn policy(category: &[(&str, &str)]) -> Result<Item, Fault> {
        let rule = entry(
            RULE_CLASS,
            &[
                ("PolicyName", "web"),
                ("SelectorTag", "edge"),
                ("ServiceReference", "gold"),
                ("PolicyRulePriority", "7"),
                ("ProtocolNumber", "6"),
                ("SourceAddressRange", "10.0.0.1-10.0.0.9"),
                ("DestinationPortRange", "80-80"),
            ],
        );
        let mut category = entry(CATEGORY_CLASS, category);
        category.add("serviceName", "gold");
        read(&rule, &Index::new(vec![rule.clone(), category]))
    }

    #[test]
    fn a_category_of_aix_becomes_a_policy() {
        let item = policy(&[
            ("FlowServiceType", "ControlledLoad"),
            ("MaxRate", "1000"),
            ("MaxTokenBucket", "160"),
            ("OutgoingTOS", "10111000"),
        ]);
        let expected: Table = toml::from_str(
            "action = \"police-mark\"\npriority = 7\nroles = [\"edge\"]\n\
             match = { src = \"10.0.0.1-10.0.0.9\", dst_port = 80, protocol = \"tcp\" }\n\
             profile = { mean = \"1000 kbit/s\", burst = \"20000 B\" }\n\
             mark = { in = \"EF\", out = \"DF\" }",
        )
        .unwrap();
        assert_eq!(item.unwrap().fields, expected);
    }

    #[test]
    fn a_category_of_zos_becomes_a_policy() {
        let item = policy(&[
            ("ibm-DiffServInProfileRate", "256"),
            ("ibm-DiffServInProfilePeakRate", "512"),
            ("ibm-DiffServInProfileTokenBucket", "120"),
            ("ibm-DiffServInProfileMaxPacketSize", "12"),
            ("ibm-DiffServExcessTrafficTreatment", "Shape"),
        ]);
        let fields = item.unwrap().fields;
        assert_eq!(fields["action"].as_str(), Some("shape"));
        let profile: Table = toml::from_str(
            "mean = \"256 kbit/s\"\npeak = \"512 kbit/s\"\nburst = \"15000 B\"\nmax_packet = \"1500 B\"",
        )
        .unwrap();
        assert_eq!(fields["profile"], Value::Table(profile));
    }

    /// Catches: an attribute with an effect on packets that is silently ignored.
    #[test]
    fn an_attribute_without_an_equivalent_is_refused_with_its_name() {
        let cases: [(&str, &[(&str, &str)]); 8] = [
            ("MinRate", &[("MinRate", "100")]),
            ("MaxConnections", &[("MaxConnections", "5")]),
            ("OutgoingTOS", &[("OutgoingTOS", "10111000")]),
            ("OutgoingTOS", &[("OutgoingTOS", "10111011"), ("MaxRate", "1")]),
            (
                "OutgoingTOS",
                &[("OutgoingTOS", "101"), ("MaxRate", "1"), ("FlowServiceType", "Guaranteed")],
            ),
            ("FlowServiceType", &[("FlowServiceType", "Best")]),
            ("maxdelay", &[("MaxDelay", "5")]),
            ("MaxRate", &[("MaxRate", "5"), ("DiffServInProfileRate", "5")]),
        ];
        for (attribute, category) in cases {
            let fault = policy(category).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Malformed);
            assert!(fault.message.contains(&format!("`{attribute}`")), "{attribute}: {fault}");
        }
    }
}
