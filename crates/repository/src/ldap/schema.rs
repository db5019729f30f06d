//! Generates the schema files in `packaging/ldap`. `tidegate.schema` is generated from the table of
//! attributes, and each `.ldif` file from the `.schema` file of the same name.
//!
//! `UPDATE=1 cargo test -p tidegate-repository --lib the_schema_files` rewrites these files.
//!
//! Source: RFC 4512, section 4.1 (descriptions); slapd.conf(5) and slapd-config(5) (the two file
//! formats).

use std::fs;
use std::path::PathBuf;

use tidegate_config::ItemKind;

use super::attributes::{
    ARC, CLASS_CLASS, FIELDS, GENERATION, PENDING, POLICY_CLASS, REPORT, REPORT_CLASS, ROOT_CLASS,
    TRUNK_CLASS, fields,
};
use super::standard::ROLES;
use super::status;

/// The text of `tidegate.schema`.
fn ours() -> String {
    let mut text = format!(
        "# Attributes and classes of Tidegate for slapd. Needs core, pcim.schema and pcels.schema.\n\
         # Made from crates/repository/src/ldap/attributes.rs: UPDATE=1 cargo test -p tidegate-repository --lib the_schema_files\n\n\
         # A UUID as an integer, ITU-T X.667.\n\
         objectidentifier tidegate {ARC}\n\
         objectidentifier tgAttribute tidegate:1\n\
         objectidentifier tgObject tidegate:2\n\n"
    );
    for field in FIELDS.iter() {
        text += &attribute(
            &field.oid(),
            &field.attribute,
            &format!("Field {}", field.path),
            DIRECTORY_STRING,
        );
    }
    for (number, name, description, syntax) in OTHERS {
        text += &attribute(&format!("tgAttribute:{number}"), name, description, syntax);
    }
    text += &class(
        1,
        ROOT_CLASS,
        "Root entry of a repository of policies",
        "top AUXILIARY",
        "",
        &[GENERATION, PENDING],
    );
    let held = |kind| fields(kind).map(|field| &*field.attribute).collect::<Vec<_>>();
    text += &class(
        2,
        POLICY_CLASS,
        "Action, profile and sharing of a policy rule",
        "pcimActionAuxClass AUXILIARY",
        "",
        &held(ItemKind::Policy),
    );
    for (number, name, kind) in
        [(3, CLASS_CLASS, ItemKind::Class), (4, TRUNK_CLASS, ItemKind::Trunk)]
    {
        let mut held = held(kind);
        held.push(ROLES);
        held.push("description");
        text += &class(number, name, &format!("A {kind}"), "top STRUCTURAL", " MUST cn", &held);
    }
    let reported = [REPORT, status::REVISION, status::GENERATION, status::SINCE, status::ERROR];
    text += &class(5, REPORT_CLASS, "Report of a gateway", "top STRUCTURAL", " MUST cn", &reported);
    text
}

fn attribute(attribute: &str, name: &str, description: &str, syntax: (&str, &str)) -> String {
    let (syntax, equality) = syntax;
    format!(
        "attributetype ( {attribute} NAME '{name}'\n\tDESC '{description}'\n\tEQUALITY {equality}\n\tSYNTAX {syntax} SINGLE-VALUE )\n\n"
    )
}

fn class(
    number: u32,
    name: &str,
    description: &str,
    above: &str,
    must: &str,
    may: &[&str],
) -> String {
    let may = may.join(" $\n\t\t");
    format!(
        "objectclass ( tgObject:{number} NAME '{name}'\n\tDESC '{description}'\n\tSUP {above}{must}\n\tMAY ( {may} ) )\n\n"
    )
}

/// Converts `text`, a schema file for `slapd.conf`, to an entry of the configuration database
/// `cn=config`.
fn configuration(name: &str, text: &str) -> String {
    let mut ldif = format!(
        "# Made from {name}.schema, for ldapadd into cn=config.\ndn: cn={name},cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: {name}\n"
    );
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let mut statements: Vec<String> = Vec::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        match statements.last_mut() {
            Some(last) if line.starts_with(char::is_whitespace) => {
                *last += " ";
                *last += line.trim();
            }
            _ => statements.push(line.trim().to_owned()),
        }
    }
    for (keyword, attribute) in KEYWORDS {
        for statement in &statements {
            if let Some(rest) = statement.strip_prefix(keyword) {
                ldif += &format!("{attribute}: {}\n", rest.trim());
            }
        }
    }
    ldif
}

/// Keywords in `slapd.conf`, and the corresponding attributes of `cn=config`; slapd-config(5).
const KEYWORDS: [(&str, &str); 3] = [
    ("objectidentifier", "olcObjectIdentifier"),
    ("attributetype", "olcAttributeTypes"),
    ("objectclass", "olcObjectClasses"),
];

/// Syntaxes and their matching rules; RFC 4517, sections 3.3 and 4.2.
const DIRECTORY_STRING: (&str, &str) = ("1.3.6.1.4.1.1466.115.121.1.15", "caseExactMatch");
const INTEGER: (&str, &str) = ("1.3.6.1.4.1.1466.115.121.1.27", "integerMatch");

/// Attributes that hold no fields of items. The last numbers of their OIDs begin at 100.
const OTHERS: [(u32, &str, &str, (&str, &str)); 7] = [
    (100, GENERATION, "Commit marker: written last", DIRECTORY_STRING),
    (101, PENDING, "Token of the push that is being written", DIRECTORY_STRING),
    (102, REPORT, "Report of a gateway as JSON", DIRECTORY_STRING),
    (103, status::REVISION, "Revision in force", DIRECTORY_STRING),
    (104, status::GENERATION, "Generation in force", INTEGER),
    (105, status::SINCE, "Seconds since 1970 at which it came into force", INTEGER),
    (106, status::ERROR, "Why the newest revision is not in force", DIRECTORY_STRING),
];

/// The change of `cn=config` that updates the schema of the previous version to this version.
fn upgrade(ldif: &str) -> String {
    let line = |start: &str| ldif.lines().find(|line| line.contains(start)).unwrap();
    let attribute = line(&format!("NAME '{ADDED}'"));
    let class = line(&format!("NAME '{POLICY_CLASS}'"));
    let class = class.strip_prefix("olcObjectClasses: ").unwrap();
    // Index of the object class in `tidegate.ldif`. slapd needs it to find the value that is
    // deleted.
    let at = ldif
        .lines()
        .filter(|line| line.starts_with("olcObjectClasses:"))
        .position(|line| line.contains(POLICY_CLASS))
        .unwrap();
    format!(
        "# Made from tidegate.schema, for ldapmodify of cn=config with the schema of the previous version.\n\
         # docs/operate/repositories.md says how to load it.\n\
         dn: cn=tidegate,cn=schema,cn=config\nchangetype: modify\n\
         add: olcAttributeTypes\n{attribute}\n-\n\
         delete: olcObjectClasses\nolcObjectClasses: {{{at}}}\n-\n\
         add: olcObjectClasses\nolcObjectClasses: {{{at}}}{class}\n"
    )
}

/// The attribute that this version adds.
const ADDED: &str = "tgAckControl";

#[test]
fn the_schema_files_match_the_table_of_attributes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/ldap");
    let update = std::env::var_os("UPDATE").is_some();
    let same = |name: &str, text: &str| {
        let path = folder.join(name);
        if update {
            fs::write(&path, text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "{name} is not what it is made from; run this test with UPDATE=1");
    };
    same("tidegate.schema", &ours());
    for name in ["pcim", "pcels", "tidegate", "zos"] {
        let text = fs::read_to_string(folder.join(format!("{name}.schema"))).unwrap();
        assert!(name != "zos" || text.contains(ARC), "zos.schema has another arc");
        same(&format!("{name}.ldif"), &configuration(name, &text));
        if name == "tidegate" {
            same("upgrade.ldif", &upgrade(&configuration(name, &text)));
        }
    }
}
