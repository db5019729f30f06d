//! The table of LDAP attributes that hold the fields of policies, classes and trunks.
//!
//! Each row has a field, its attribute, and the last number of the attribute's object identifier
//! (OID). A scheduler declares the fields that only its own classes have. Such a field needs no row:
//! its attribute and its OID follow from its name. The schema files in `packaging/ldap` are generated
//! from all fields.
//!
//! Source: RFC 3703 (`pcim...`). Attributes that are missing in RFC 3703 and RFC 4104 are our own
//! (`tg...`), in the terms of QPIM, RFC 3644.

use std::borrow::Cow;
use std::sync::LazyLock;

use tidegate_config::ItemKind;
use tidegate_config::ItemKind::{Class, Policy, Trunk};
use tidegate_core::scheduler::{SchedulerSpec, Term};

/// A field of a policy, class or trunk, and its attribute.
#[derive(Clone)]
pub(super) struct Field {
    /// Kinds of items with this field.
    pub(super) kinds: &'static [ItemKind],
    /// The name of the field. For a field in a table, the name of the table precedes it:
    /// `profile.mean`.
    pub(super) path: &'static str,
    /// The attribute.
    pub(super) attribute: Cow<'static, str>,
    /// The last number of the attribute's OID. `None` for a term without a row.
    number: Option<u32>,
}

impl Field {
    /// The table, and the field's name in the table. `None` for a field that is in no table.
    pub(super) fn in_table(&self) -> Option<(&'static str, &'static str)> {
        self.path.split_once('.')
    }

    /// Returns `true` for the field `name` of classes.
    fn is_of_class(&self, name: &str) -> bool {
        self.kinds.contains(&Class) && self.path == name
    }

    /// Returns the OID of the attribute in the notation of the schema files.
    ///
    /// The OID of a term without a row is its name: one number for each letter. Two terms never have the same
    /// OID, and no list of used numbers is needed.
    ///
    /// Source: RFC 2578, section 7.7 (strings as parts of an OID).
    #[cfg_attr(not(test), expect(dead_code, reason = "only the schema has OIDs"))]
    pub(super) fn oid(&self) -> String {
        let letters = || self.path.bytes().map(|letter| format!(".{letter}")).collect::<String>();
        self.number.map_or_else(|| TERMS.to_owned() + &letters(), |it| format!("tgAttribute:{it}"))
    }
}

/// The fields of `kind`.
pub(super) fn fields(kind: ItemKind) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.kinds.contains(&kind))
}

/// Prefix of the OIDs: the UUID 2c409b53-06e3-485f-a8e9-a3ea21c3ba10 as an integer. Such OIDs need
/// no registration.
///
/// Source: ITU-T X.667, section 7.
#[cfg_attr(not(test), expect(dead_code, reason = "only the schema has OIDs"))]
pub(super) const ARC: &str = "2.25.58821489165040260063828679051301861904";

/// The OIDs of terms without a row begin with this OID, as the schema files write it.
const TERMS: &str = "tidegate:3";

/// The commit marker, an attribute of the root entry.
pub(super) const GENERATION: &str = "tgGeneration";
/// An attribute that the root entry has while a change is being written.
pub(super) const PENDING: &str = "tgPending";
/// The whole report of a gateway, as JSON.
pub(super) const REPORT: &str = "tgReport";

/// The auxiliary object class of the root entry.
pub(super) const ROOT_CLASS: &str = "tgRepository";
/// The auxiliary object class of policies, in addition to `pcimRuleInstance`.
pub(super) const POLICY_CLASS: &str = "tgPolicyAuxClass";
/// The structural object class of bandwidth classes.
pub(super) const CLASS_CLASS: &str = "tgClass";
/// The structural object class of trunks.
pub(super) const TRUNK_CLASS: &str = "tgTrunk";
/// The structural object class of reports.
pub(super) const REPORT_CLASS: &str = "tgNodeReport";

const fn row(
    kinds: &'static [ItemKind],
    path: &'static str,
    attribute: &'static str,
    number: u32,
) -> Field {
    Field { kinds, path, attribute: Cow::Borrowed(attribute), number: Some(number) }
}

/// All fields, in the order of their OIDs. A number is never reused for another attribute.
///
/// Some fields also have a standard attribute in RFC 3703 or RFC 4104 (`standard.rs`, `filter.rs`).
/// The attribute in this table then holds only the values that the standard attribute cannot
/// express.
pub(super) static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let has_row = |term: &Term| ROWS.iter().any(|row| row.is_of_class(term.name()));
    let without = SchedulerSpec::all_terms().filter(|term| !has_row(term)).map(of_term);
    ROWS.iter().cloned().chain(without).collect()
});

/// The field of `term`, which has no row. For example, the attribute of `loss_peak` is `tgLossPeak`.
fn of_term(term: Term) -> Field {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
    };
    let words: String = term.name().split('_').map(capital).collect::<Vec<String>>().concat();
    let attribute = Cow::Owned(format!("tg{words}"));
    Field { kinds: &[Class], path: term.name(), attribute, number: None }
}

/// The fields that no scheduler declares, and the terms whose OIDs were published as numbers.
const ROWS: &[Field] = &[
    row(&[Policy], "mode", "tgMode", 1),
    row(&[Policy, Class], "priority", "tgPriority", 2),
    row(&[Policy, Class, Trunk], "roles", "tgRoles", 3),
    row(&[Policy], "action", "tgAction", 4),
    row(&[Policy], "profile", "tgProfile", 5),
    row(&[Policy], "profile.mean", "tgProfileMean", 6),
    row(&[Policy], "profile.peak", "tgProfilePeak", 7),
    row(&[Policy], "profile.burst", "tgProfileBurst", 8),
    row(&[Policy], "profile.max_packet", "tgProfileMaxPacket", 9),
    row(&[Policy], "mark", "tgMark", 10),
    row(&[Policy], "mark.in", "tgMarkIn", 11),
    row(&[Policy], "mark.out", "tgMarkOut", 12),
    row(&[Policy], "match", "tgMatch", 13),
    row(&[Policy], "match.src", "tgMatchSource", 14),
    row(&[Policy], "match.dst", "tgMatchDestination", 15),
    row(&[Policy], "match.src_port", "tgMatchSourcePort", 16),
    row(&[Policy], "match.dst_port", "tgMatchDestinationPort", 17),
    row(&[Policy], "match.protocol", "tgMatchProtocol", 18),
    row(&[Policy], "match.dscp", "tgMatchDscp", 19),
    row(&[Policy], "match.vlan", "tgMatchVlan", 20),
    row(&[Policy], "match.direction", "tgMatchDirection", 21),
    row(&[Policy], "allocation", "tgAllocation", 22),
    row(&[Policy, Class, Trunk], "queue", "tgQueue", 23),
    row(&[Policy, Class], "marking", "tgMarking", 24),
    row(&[Policy], "signal", "tgSignal", 25),
    row(&[Policy], "weights", "tgWeights", 26),
    row(&[Policy], "fair_between", "tgFairBetween", 27),
    row(&[Policy], "class", "tgClassName", 28),
    row(&[Policy], "trunk", "tgTrunkName", 29),
    row(&[Class], "parent", "tgParent", 30),
    row(&[Class, Trunk], "guarantee", "tgGuarantee", 31),
    row(&[Class, Trunk], "ceiling", "tgCeiling", 32),
    row(&[Class, Trunk], "weight", "tgWeight", 33),
    row(&[Class], "burst", "tgBurst", 34),
    row(&[Class], "delay_bound", "tgDelayBound", 35),
    row(&[Class], "loss_bound", "tgLossBound", 36),
    row(&[Class], "delay_ratio", "tgDelayRatio", 37),
    row(&[Class], "loss_ratio", "tgLossRatio", 38),
    row(&[Trunk], "local", "tgLocal", 39),
    row(&[Trunk], "peer", "tgPeer", 40),
    row(&[Trunk], "next_hop", "tgNextHop", 41),
    row(&[Trunk], "key_file", "tgKeyFile", 42),
    row(&[Trunk], "port", "tgPort", 43),
    row(&[Trunk], "connections", "tgConnections", 44),
    row(&[Trunk], "vmss", "tgVmss", 45),
    row(&[Trunk], "assured", "tgAssured", 46),
    row(&[Trunk], "tcp", "tgTcp", 47),
    row(&[Trunk], "fallback", "tgFallback", 48),
    row(&[Trunk], "probing", "tgProbing", 49),
    row(&[Trunk], "encapsulation", "tgEncapsulation", 50),
    row(&[Trunk], "mtu", "tgMtu", 51),
    row(&[Trunk], "vlan", "tgVlan", 52),
    row(&[Policy], "match.inner", "tgMatchInner", 60),
    row(&[Policy], "ack_control", "tgAckControl", 61),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use tidegate_core::scheduler::{TermDeclaration, TermForm};

    use super::*;

    /// Tables of a policy in which each field has its own attribute.
    const TABLES: [&str; 3] = ["match", "profile", "mark"];

    /// Catches: a field of policy files without an attribute, which a directory would lose.
    #[test]
    fn every_field_of_policy_files_has_an_attribute() {
        let schema = tidegate_config::policy_file::schema();
        for kind in ItemKind::ALL {
            let known: BTreeSet<_> = fields(kind).map(|field| field.path).collect();
            let properties = &schema["properties"][kind.word()]["items"]["properties"];
            let Value::Object(properties) = properties else { panic!("no {kind} in the schema") };
            for (name, property) in properties.iter().filter(|(name, _)| *name != "name") {
                assert!(known.contains(&**name), "{kind}: `{name}` has no attribute; add a row");
                if !TABLES.contains(&&**name) {
                    continue;
                }
                for inner in property["properties"].as_object().unwrap().keys() {
                    let path = format!("{name}.{inner}");
                    assert!(known.contains(&*path), "{kind}: `{path}` has no attribute; add a row");
                }
            }
        }
    }

    /// Catches: two rows with one number; a new row that takes the place of an earlier one.
    #[test]
    fn no_attribute_and_no_oid_is_used_twice() {
        let most = ROWS.iter().filter_map(|row| row.number).max().unwrap();
        let free = format!("the next free number is {}", most + 1);
        let (mut names, mut oids) = (BTreeSet::new(), BTreeSet::new());
        for field in FIELDS.iter() {
            let (path, attribute) = (field.path, &field.attribute);
            assert!(names.insert(attribute), "`{path}`: `{attribute}` is used twice");
            assert!(oids.insert(field.oid()), "`{path}`: {} is used twice; {free}", field.oid());
        }
    }

    /// Catches: an OID that depends on the number or the order of other terms.
    #[test]
    fn the_attribute_and_the_oid_of_a_new_term_follow_from_its_name() {
        static NEW: TermDeclaration = TermDeclaration::new("loss_peak", "", TermForm::Chance);
        let field = of_term(Term::declared(&NEW));
        assert_eq!(field.attribute, "tgLossPeak");
        assert_eq!(field.oid(), "tidegate:3.108.111.115.115.95.112.101.97.107");
        let published = FIELDS.iter().find(|field| field.path == "loss_bound").unwrap();
        assert_eq!(published.oid(), "tgAttribute:36");
    }
}
