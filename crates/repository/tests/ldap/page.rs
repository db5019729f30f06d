//! Tests that the commands on the manual's page about LDAP work: from an empty server to a policy
//! in force.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tidegate_config::source::{Access, SourceKind};
use tidegate_repository::open;

use crate::server::{Folder, Slapd, free_port, slapd, spec};
use crate::{parse, run, sorted};

/// The configuration that Debian's package creates, without its database.
const DEBIAN: &str = "dn: cn=config\nobjectClass: olcGlobal\ncn: config\n\n\
    dn: cn=module{0},cn=config\nobjectClass: olcModuleList\ncn: module{0}\nolcModulePath: /usr/lib/ldap\nolcModuleLoad: back_mdb\n\n\
    dn: cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: schema\n\n\
    include: file:///etc/ldap/schema/core.ldif\n\n\
    dn: olcDatabase={0}config,cn=config\nobjectClass: olcDatabaseConfig\nolcDatabase: {0}config\n\
    olcAccess: to * by dn.exact=ROOT manage\n";

/// The name by which slapd knows the host's root user, who logs in through a Unix socket.
const ROOT: &str = "gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth";

#[test]
fn the_commands_of_the_page_work() {
    let Some(program) = slapd() else { return };
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(project.join("docs/operate/repositories.md")).unwrap();
    let (_, section) =
        page.split_once("\n### From nothing to a policy in force, with LDAP\n").unwrap();
    let mut blocks = section.split("```").skip(1).step_by(2);
    let mut commands = || blocks.next().unwrap().strip_prefix("sh\n").unwrap();
    let (server, gateway) = (commands(), commands());

    let folder = Folder::new();
    let path = folder.0.display().to_string();
    let user = fs::metadata(&folder.0).unwrap();
    let root = ROOT
        .replace("gidNumber=0", &format!("gidNumber={}", user.gid()))
        .replace("uidNumber=0", &format!("uidNumber={}", user.uid()));
    fs::write(folder.0.join("debian.ldif"), DEBIAN.replace("ROOT", &root)).unwrap();
    fs::create_dir(folder.0.join("config")).unwrap();
    let made = Command::new("/usr/sbin/slapadd")
        .args(["-n", "0", "-F", &format!("{path}/config"), "-l", &format!("{path}/debian.ldif")])
        .status();
    assert!(made.unwrap().success());
    let port = free_port();
    let socket = format!("ldapi://{}", format!("{path}/socket").replace('/', "%2F"));
    let urls = format!("ldap://127.0.0.1:{port} {socket}");
    let configuration = format!("{path}/config");
    let _server = Slapd::run(&program, &["-F", &configuration, "-h", &urls], port).unwrap();
    for file in fs::read_dir(project.join("packaging/ldap")).unwrap() {
        let file = file.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        let text =
            text.replace(ROOT, &root).replace("/var/lib/ldap/tidegate", &format!("{path}/data"));
        fs::write(folder.0.join(file.file_name().unwrap()), text).unwrap();
    }
    let script: String = server
        .lines()
        .filter(|line| !line.starts_with("apt-get") && !line.starts_with("cd "))
        .map(|line| {
            line.replace("-o openldap -g openldap", "").replace("ldapi:///", &socket) + "\n"
        })
        .collect();
    let script = script.replace("/var/lib/ldap/tidegate", &format!("{path}/data"));
    let shell = Command::new("bash")
        .args(["-euc", &script])
        .current_dir(&folder.0)
        .stdout(Stdio::null())
        .status();
    assert!(shell.unwrap().success(), "{script}");

    let file = gateway.split("END").nth(1).unwrap().trim_start_matches('\'');
    let file: toml::Table = toml::from_str(file).unwrap();
    let source = &file["source"][0];
    let url = source["url"].as_str().unwrap().replace(":389", &format!(":{port}"));
    let mut spec = spec(&url, None);
    spec.access = Access::default();
    spec.kind =
        SourceKind::Ldap { urls: vec![url], base: source["base"].as_str().unwrap().to_owned() };
    let expected = "[[policy]]\nname = \"web\"\nmatch = { dst_port = 80 }\n\
                    action = \"police-drop\"\nprofile = { mean = \"10 Mbit/s\" }";
    run(async {
        let snapshot = open(&spec).unwrap().pull().await.unwrap();
        assert_eq!((snapshot.revision.as_str(), sorted(&snapshot)), ("1", parse(expected)));
    });
}
