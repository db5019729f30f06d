//! Live test: the commands on the manual's page about repositories work. At most ten commands lead
//! from an empty server to a policy in force.

use std::path::{Path, PathBuf};
use std::{env, fs};

use tidegate_e2e::{Process, Server, Testbed, program, run, until, witnessed_beside_others};

use crate::site::{Kind, LIMIT, ask, in_state, policy_of, prepare};

/// Maximum number of commands.
const MOST: usize = 10;

/// The configuration that Debian's package creates, without its database.
const DEBIAN: &str = "dn: cn=config\nobjectClass: olcGlobal\ncn: config\n\n\
    dn: cn=module{0},cn=config\nobjectClass: olcModuleList\ncn: module{0}\nolcModulePath: /usr/lib/ldap\nolcModuleLoad: back_mdb\n\n\
    dn: cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: schema\n\n\
    include: file:///etc/ldap/schema/core.ldif\n\n\
    dn: olcDatabase={0}config,cn=config\nobjectClass: olcDatabaseConfig\nolcDatabase: {0}config\n\
    olcAccess: to * by dn.exact=gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth manage\n";

#[test]
fn files() {
    witnessed_beside_others(|bed| follow(bed, Kind::Directory));
}

#[test]
fn etcd() {
    if Kind::Etcd.is_here() {
        witnessed_beside_others(|bed| follow(bed, Kind::Etcd));
    }
}

#[test]
fn ldap() {
    if Kind::Ldap.is_here() {
        witnessed_beside_others(|bed| follow(bed, Kind::Ldap));
    }
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands in all `sh` blocks of the section `heading`.
fn commands(heading: &str) -> String {
    let page = fs::read_to_string(project().join("docs/operate/repositories.md")).unwrap();
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let section = section.split("\n#").next().unwrap();
    let blocks = section.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix("sh\n")).collect()
}

/// Counts the commands. Lines of their input do not count.
fn count(commands: &str) -> usize {
    let (mut count, mut inside, mut quotes) = (0, false, 0);
    for line in commands.lines() {
        if inside {
            inside = line != "END";
            continue;
        }
        count += usize::from(quotes % 2 == 0);
        inside = line.contains("<<");
        quotes += if inside { 0 } else { line.matches('\'').count() };
    }
    count
}

fn follow(bed: &Testbed, kind: Kind) {
    prepare(bed);
    let heading = match kind {
        Kind::Directory => "## Files",
        Kind::Etcd => "### From nothing to a policy in force",
        Kind::Ldap => "### From nothing to a policy in force, with LDAP",
    };
    let commands = commands(heading);
    assert!((2..=MOST).contains(&count(&commands)), "{commands}");
    let file = bed.file("policies.toml", "[gateway]\nlan = \"lan\"\nwan = \"wan\"\n\n");
    let _server = serve(bed, kind);
    let mut gateway = bed.tidegate(&["run"]);
    let _gateway = (kind != Kind::Directory).then(|| Process::start(gateway.arg(&file)));
    until("the gateway to answer", LIMIT, || {
        let status = Process::start(&mut bed.tidegate(&["status"])).finish(LIMIT);
        (kind == Kind::Directory || status.status.success()).then_some(())
    });
    obey(bed, &commands);

    let source =
        in_state(bed, if kind == Kind::Directory { "site" } else { "central" }, "in force");
    assert_eq!((&source["kind"], &source["error"]), (&kind.name().into(), &().into()), "{source}");
    assert!(source["revision"].is_string() && source["revision"] == source["newest"], "{source}");
    assert_eq!(policy_of(bed, "tcp", "80"), "web");
    assert_eq!(policy_of(bed, "tcp", "81"), serde_json::Value::Null);
    let server = Server::start(&bed.wan, 80, "reno");
    let outcome = server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "1 MB"]).finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}");
    let status = ask(bed, "status");
    assert!(status["alarms"].as_array().unwrap().is_empty(), "{status}");
    let web = &status["aggregates"][0];
    assert_eq!((&web["policy"], &web["direction"]), (&"web".into(), &"up".into()), "{status}");
    assert!(web["conforming"]["packets"].as_u64() > Some(10), "{status}");
}

/// Starts the server without data, as Debian's package does. The page assumes that the package is
/// installed.
fn serve(bed: &Testbed, kind: Kind) -> Option<Process> {
    let (mut command, ready) = match kind {
        Kind::Directory => return None,
        Kind::Etcd => {
            let mut command = bed.middle.command("etcd");
            command.args(["--data-dir", "/var/lib/etcd"]);
            (command, "ETCDCTL_API=3 etcdctl --command-timeout=1s get x")
        }
        Kind::Ldap => {
            let config = bed.folder.join("config");
            fs::create_dir(&config).unwrap();
            let debian = bed.file("debian.ldif", DEBIAN);
            let mut command = bed.middle.command("/usr/sbin/slapadd");
            command.args(["-n", "0", "-F"]).arg(&config).arg("-l").arg(debian);
            run(&mut command, LIMIT);
            let mut command = bed.middle.command("/usr/sbin/slapd");
            command.args(["-d", "0", "-h", "ldap:/// ldapi:///", "-F"]).arg(&config);
            (command, "ldapsearch -Q -Y EXTERNAL -H ldapi:/// -b cn=config -s base")
        }
    };
    let mut server = Process::start(&mut command);
    until("the server", LIMIT, || {
        assert!(server.runs(), "{}", server.all_output());
        let asked = Process::start(bed.middle.command("sh").args(["-c", ready])).finish(LIMIT);
        asked.status.success().then_some(())
    });
    Some(server)
}

/// Runs `commands` in a shell on the middle machine, with the files of the test bed. Leaves out
/// commands that install software.
fn obey(bed: &Testbed, commands: &str) {
    let commands: String = commands
        .lines()
        .filter(|line| !line.starts_with("apt-get "))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let folder = bed.folder.display();
    let commands = commands
        .replace("/etc/tidegate/policy.toml", &format!("{folder}/policies.toml"))
        .replace("/etc/tidegate/", &format!("{folder}/"))
        // The servers run as the user of the test. So their files keep this owner.
        .replace(" -o openldap -g openldap", "");
    let log = bed.folder.join("page.log");
    let (log_file, project) = (log.display(), fs::canonicalize(project()).unwrap());
    let script = format!(
        "exec > {log_file} 2>&1 </dev/null; cd {}; set -eux\n{commands}",
        project.display()
    );
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program().parent().unwrap().display());
    let mut shell = bed.middle.command("bash");
    shell.env("PATH", path).args(["-c", &script]);
    let finished = Process::start(&mut shell).finish(LIMIT);
    let said = fs::read_to_string(log).unwrap_or_default();
    assert!(finished.status.success(), "{said}");
}
