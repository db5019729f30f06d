//! Tests policies in an LDAP directory that other programs wrote: Table 1 of the paper `aggregates` as LDIF, rules
//! of RFC 3703 whose conditions are separate entries, and the z/OS schema.

use std::fs;
use std::path::PathBuf;

use tidegate_config::policy_file::canonical;
use tidegate_config::{Item, ItemKind, Part};
use tidegate_repository::FaultKind;
use toml::Table;

use crate::server::{BASE, Server};
use crate::{order, parse, run, sorted};

/// The root entry of a policy set, as LDIF.
const ROOT: &str = "dn: ou=tidegate,dc=test\nobjectClass: organizationalUnit\nobjectClass: tgRepository\nou: tidegate\n\n";

/// Writes the root entry, `entries`, and then a new `tgGeneration`. Readers read the set when this attribute
/// changes. In `entries`, `B` is replaced by the name of the root entry.
fn commit(server: &Server, entries: &str) {
    let marker =
        format!("\n\ndn: {BASE}\nchangetype: modify\nreplace: tgGeneration\ntgGeneration: 1\n");
    server.change(
        "ldapadd",
        &format!("{ROOT}{}{marker}", entries.trim().replace(",B", &format!(",{BASE}"))),
    );
}

fn example(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    fs::read_to_string(path).unwrap()
}

#[test]
fn table_1_as_ldif_is_table_1_as_toml() {
    let Some(server) = Server::start() else { return };
    server.change("ldapadd", &example("ldap/table1.ldif").replace("dc=example,dc=net", "dc=test"));
    let mut file: Table = toml::from_str(&example("table1.toml")).unwrap();
    file.remove("gateway");
    run(async {
        let repository = server.repository();
        let written = repository.pull().await.unwrap();
        assert_eq!(sorted(&written), order(parse(&file.to_string())));
        let part = Part { origin: "table1.toml".to_owned(), text: example("table1.toml") };
        assert_eq!(canonical(&written.parts).unwrap(), canonical(&[part]).unwrap());
        // A push of the policy file writes no entry, so the example has the entries that a push writes.
        let before = server.read(&format!("cn=row3,ou=policies,{BASE}"), "entryCSN");
        repository.push(parse(&file.to_string())).await.unwrap();
        assert_eq!(server.read(&format!("cn=row3,ou=policies,{BASE}"), "entryCSN"), before);
    });
}

/// Catches: groups of conditions joined by AND although the rule states OR (disjunctive normal
/// form); conditions that are looked up under a wrong name.
#[test]
fn conditions_in_separate_entries_become_one_match() {
    let Some(server) = Server::start() else { return };
    commit(
        &server,
        "
dn: cn=rule,B
objectClass: pcimRuleInstance
cn: rule
pcimRuleName: web
pcimRuleConditionListType: 1
pcimRuleConditionList: cn=first,cn=rule,B
pcimRuleActionList: cn=action,cn=rule,B
pcimRulePriority: 4

dn: cn=first,cn=rule,B
objectClass: pcimRuleConditionAssociation
objectClass: pcelsFilterListAuxClass
cn: first
pcimConditionGroupNumber: 1
pcimConditionNegated: FALSE
pcelsFilterDirection: 2
pcelsFilterEntryList: cn=http,cn=rule,B

dn: cn=second,cn=rule,B
objectClass: pcimRuleConditionAssociation
cn: second
pcimConditionGroupNumber: 2
pcimConditionNegated: FALSE
pcimConditionDN: cn=shared,B

dn: cn=shared,B
objectClass: pcimPolicyInstance
objectClass: pcelsFilterListAuxClass
cn: shared
pcelsFilterDirection: 2
pcelsFilterEntryList: cn=https,cn=rule,B

dn: cn=http,cn=rule,B
objectClass: pcelsIPHeadersFilter
cn: http
pcelsIPHdrProtocolID: 6
pcelsIPHdrDestPortStart: 80
pcelsIPHdrDestPortEnd: 80

dn: cn=https,cn=rule,B
objectClass: pcelsIPHeadersFilter
cn: https
pcelsIPHdrProtocolID: 6
pcelsIPHdrDestPortStart: 443
pcelsIPHdrDestPortEnd: 443

dn: cn=action,cn=rule,B
objectClass: pcimRuleActionAssociation
objectClass: tgPolicyAuxClass
cn: action
pcimActionOrder: 1
tgAction: pass
",
    );
    let expected = "[[policy]]\nname = \"web\"\npriority = 4\naction = \"pass\"\n\
                    match = { protocol = \"tcp\", dst_port = [80, 443], direction = \"up\" }";
    run(async {
        let snapshot = server.repository().pull().await.unwrap();
        assert_eq!(sorted(&snapshot), parse(expected));
        // A push also removes rules that other programs wrote, with everything below them.
        server.repository().push(Vec::new()).await.unwrap();
        assert!(server.repository().pull().await.unwrap().parts.is_empty());
    });
}

#[test]
fn policies_in_the_zos_schema_are_read() {
    let Some(server) = Server::start() else { return };
    commit(
        &server,
        "
dn: cn=gold,B
objectClass: ServiceCategories
cn: gold
SelectorTag: edge
serviceName: gold
FlowServiceType: Guaranteed
MaxRate: 1000
MaxTokenBucket: 160

dn: cn=web,B
objectClass: ServicePolicyRules
cn: web
SelectorTag: edge
PolicyName: web
ServiceReference: gold
ibm-PolicyRulePriority: 3
ProtocolNumber: 6
SourceAddressRange: 10.0.0.1-10.0.0.1
SourcePortRange: 80-443
",
    );
    let expected = "action = \"shape\"\npriority = 3\nroles = [\"edge\"]\n\
                    match = { src = \"10.0.0.1\", src_port = \"80-443\", protocol = \"tcp\" }\n\
                    profile = { mean = \"1000 kbit/s\", burst = \"20000 B\" }";
    let fields = toml::from_str(expected).unwrap();
    let item = Item { kind: ItemKind::Policy, name: "web".to_owned(), fields };
    run(async {
        assert_eq!(sorted(&server.repository().pull().await.unwrap()), [item]);
    });
}

/// Catches: an attribute that changes the meaning of a rule and is silently ignored.
#[test]
fn rules_that_no_policy_can_express_are_refused_with_the_attribute() {
    let cases = [
        ("pcimRuleEnabled", "pcimRuleEnabled: 7\ntgAction: pass"),
        (
            "pcimRuleValidityPeriodList",
            "pcimRuleValidityPeriodList: cn=office hours,B\ntgAction: pass",
        ),
        ("pcimRulePriority", "pcimRulePriority: -1\ntgAction: pass"),
        ("pcimRoles", "pcimRoles: edge&&lab\ntgAction: pass"),
        ("pcimRuleConditionList", "pcimRuleConditionList: cn=nobody,B\ntgAction: pass"),
        ("cn=rule", "tgMatch: { src = \"10.0.0.1\" }\ntgMatchSource: 10.0.0.2"),
    ];
    let Some(server) = Server::start() else { return };
    commit(&server, "dn: cn=other,B\nobjectClass: tgClass\ncn: other");
    run(async {
        let repository = server.repository();
        for (attribute, lines) in cases {
            let entry = format!(
                "dn: cn=rule,B\nobjectClass: pcimRuleInstance\nobjectClass: tgPolicyAuxClass\ncn: rule\n{lines}\n\n\
                 dn: {BASE}\nchangetype: modify\nreplace: tgGeneration\ntgGeneration: {attribute}\n"
            );
            server.change("ldapadd", &entry.replace(",B", &format!(",{BASE}")));
            let fault = repository.pull().await.unwrap_err();
            assert_eq!(fault.kind, FaultKind::Malformed, "{fault}");
            assert!(
                fault.message.contains(attribute) && fault.message.contains("cn=rule"),
                "{fault}"
            );
            server.change("ldapmodify", &format!("dn: cn=rule,{BASE}\nchangetype: delete\n"));
        }
    });
}
