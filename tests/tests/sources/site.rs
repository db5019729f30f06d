//! A policy repository of each kind (directory, etcd, LDAP) on the middle machine, and functions
//! that change it directly.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{Process, Testbed, now, pause, run, skip, until};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The kinds of repositories.
pub(crate) const KINDS: [Kind; 3] = [Kind::Directory, Kind::Etcd, Kind::Ldap];

/// The password of a server's only user.
pub(crate) const PASSWORD: &str = "hunter2-of-the-test";

/// Shortest time without a marker that is a pause. A repository reads its set after twice this time
/// without a change (`tidegate_repository::QUIET`).
const PAUSE: Duration = Duration::from_millis(100);

const ADMIN: &str = "cn=admin,ou=tidegate";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Directory,
    Etcd,
    Ldap,
}

impl Kind {
    /// Returns `true` if the programs for this kind are installed. Otherwise reports the test as
    /// skipped, which fails on the build server.
    pub(crate) fn is_here(self) -> bool {
        let (programs, packages): (&[&str], _) = match self {
            Self::Directory => (&[], ""),
            Self::Etcd => (&["/usr/bin/etcd", "/usr/bin/etcdctl"], "etcd-server etcd-client"),
            Self::Ldap => (&["/usr/sbin/slapd", "/usr/bin/ldapmodify"], "slapd ldap-utils"),
        };
        let here = programs.iter().all(|program| Path::new(program).exists());
        if !here {
            let reason = format!("not installed: {packages}");
            assert!(std::env::var_os("CI_REFUSES_SKIPS").is_none(), "{reason}");
            skip(&reason);
        }
        here
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Etcd => "etcd",
            Self::Ldap => "ldap",
        }
    }
}

/// A repository, with its server if it has one.
pub(crate) struct Site<'a> {
    pub(crate) bed: &'a Testbed,
    pub(crate) kind: Kind,
    server: Option<Process>,
    /// Further environment variables of the server.
    variables: Vec<(&'static str, PathBuf)>,
    /// Number of the last commit marker. A marker is written after all policies, and completes the
    /// set.
    marker: u32,
}

/// Gives the middle machine a loopback interface and an empty `/var/lib`.
pub(crate) fn prepare(bed: &Testbed) {
    bed.middle.run("ip link set lo up");
    bed.middle.run("mount -t tmpfs none /var/lib");
    bed.middle.run("mkdir -p /run/slapd");
}

impl<'a> Site<'a> {
    /// A running repository that holds no set yet.
    pub(crate) fn start(bed: &'a Testbed, kind: Kind) -> Self {
        Self::start_with(bed, kind, &[])
    }

    /// As [`start`](Self::start), with more `variables` in the server's environment.
    pub(crate) fn start_with(
        bed: &'a Testbed,
        kind: Kind,
        variables: &[(&'static str, PathBuf)],
    ) -> Self {
        let mut site = Self { bed, kind, server: None, variables: variables.to_vec(), marker: 0 };
        match kind {
            Kind::Directory => fs::create_dir(bed.folder.join("site")).unwrap(),
            Kind::Etcd => {}
            Kind::Ldap => {
                fs::create_dir(bed.folder.join("slapd")).unwrap();
                site.configure_slapd();
            }
        }
        site.run();
        if kind == Kind::Ldap {
            site.ldap("ldapadd", "dn: ou=tidegate\nobjectClass: organizationalUnit\nobjectClass: tgRepository\nou: tidegate\n");
        }
        site
    }

    fn configure_slapd(&self) {
        let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/ldap");
        let includes: String = ["pcim", "pcels", "tidegate", "zos"]
            .iter()
            .map(|name| format!("include {}/{name}.schema\n", schema.display()))
            .collect();
        let folder = self.bed.folder.join("slapd");
        let configuration = format!(
            "include /etc/ldap/schema/core.schema\n{includes}modulepath /usr/lib/ldap\n\
             moduleload back_mdb\nmoduleload syncprov\nsizelimit unlimited\npidfile {0}/pid\n\
             database mdb\nsuffix \"ou=tidegate\"\nrootdn \"{ADMIN}\"\nrootpw {PASSWORD}\n\
             directory {0}\nmaxsize 268435456\ndbnosync\nindex objectClass eq\n\
             index entryCSN,entryUUID eq\noverlay syncprov\n",
            folder.display()
        );
        let _ = self.bed.file("slapd.conf", &configuration);
        self.password_file(PASSWORD);
    }

    /// A file with `password`, for the gateway.
    pub(crate) fn password_file(&self, password: &str) -> PathBuf {
        let file = self.bed.file(&format!("password-{}", password.len()), password);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    /// Starts the server. A directory has no server; instead, the directory gets its name back if
    /// `kill` has changed the name.
    pub(crate) fn run(&mut self) {
        let folder = &self.bed.folder;
        let mut command = match self.kind {
            Kind::Directory => {
                if folder.join("moved").exists() {
                    fs::rename(folder.join("moved"), folder.join("site")).unwrap();
                }
                return;
            }
            Kind::Etcd => {
                let mut command = self.bed.middle.command("etcd");
                command.args(["--data-dir", "/var/lib/etcd"]);
                command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]);
                command
            }
            Kind::Ldap => {
                let mut command = self.bed.middle.command("/usr/sbin/slapd");
                command.args(["-d", "0", "-h", "ldap://127.0.0.1:389", "-f"]);
                command.arg(folder.join("slapd.conf"));
                command
            }
        };
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let mut server = Process::start(command.envs(variables));
        until("the server", LIMIT, || {
            assert!(server.runs(), "{}", server.all_output());
            let answers = match self.kind {
                Kind::Etcd => "etcdctl --command-timeout=1s get /tidegate/commit",
                _ => "ldapsearch -x -H ldap://127.0.0.1 -s base -b ''",
            };
            let mut asked = self.bed.middle.command("sh");
            asked.env("ETCDCTL_API", "3").args(["-c", answers]);
            Process::start(&mut asked).finish(LIMIT).status.success().then_some(())
        });
        self.server = Some(server);
    }

    /// Kills the server. For a directory, moves the directory away.
    pub(crate) fn kill(&mut self) {
        self.server = None;
        if self.kind == Kind::Directory {
            fs::rename(self.bed.folder.join("site"), self.bed.folder.join("moved")).unwrap();
        }
    }

    /// The `[[source]]` table for this repository. The source is called `central`, and logs in with
    /// this password.
    pub(crate) fn source(&self, password: &str) -> String {
        let place = match self.kind {
            Kind::Directory => format!("path = \"{}\"", self.bed.folder.join("site").display()),
            Kind::Etcd => "url = \"http://127.0.0.1:2379\"".to_owned(),
            Kind::Ldap => format!(
                "url = \"ldap://127.0.0.1:389\"\nbase = \"ou=tidegate\"\nuser = \"{ADMIN}\"\npassword_file = \"{}\"",
                self.password_file(password).display()
            ),
        };
        format!("[[source]]\nname = \"central\"\nkind = \"{}\"\n{place}\n", self.kind.name())
    }

    /// The words by which messages identify the entry of the policy `stream`.
    pub(crate) const fn entry_name(&self) -> &'static str {
        match self.kind {
            Kind::Directory => "stream.toml",
            Kind::Etcd => "/tidegate/policy/stream",
            Kind::Ldap => "cn=stream,ou=tidegate",
        }
    }

    /// Writes the policy `stream` with this mean rate into the repository, without a marker.
    pub(crate) fn write(&self, mean: &str) {
        let fields = format!(
            "match = {{ dst_port = 9000 }}\naction = \"police-drop\"\nprofile = {{ mean = \"{mean}\" }}\n"
        );
        match self.kind {
            Kind::Directory => {
                let text = format!("[[policy]]\nname = \"stream\"\n{fields}");
                fs::write(self.bed.folder.join("site/stream.toml"), text).unwrap();
            }
            Kind::Etcd => self.put("/tidegate/policy/stream", &fields),
            Kind::Ldap => self.ldap(
                "ldapmodify",
                &format!("dn: cn=stream,ou=tidegate\nchangetype: modify\nreplace: tgProfileMean\ntgProfileMean: {mean}\n"),
            ),
        }
    }

    /// Writes a policy for each of these ports into a directory, without a marker. Does nothing for
    /// other kinds of repositories.
    pub(crate) fn write_for_each(&self, ports: Range<u16>) {
        let policy = |port| {
            format!(
                "[[policy]]\nname = \"port{port}\"\nmatch = {{ dst_port = {port} }}\n\
                 action = \"shape\"\nprofile = {{ mean = \"1 Mbit/s\" }}\n"
            )
        };
        if self.kind == Kind::Directory {
            let text: String = ports.map(policy).collect();
            fs::write(self.bed.folder.join("site/ports.toml"), text).unwrap();
        }
    }

    /// Creates the policy `stream`.
    pub(crate) fn write_first(&self, mean: &str) {
        match self.kind {
            Kind::Ldap => self.ldap(
                "ldapadd",
                &format!(
                    "dn: cn=stream,ou=tidegate\nobjectClass: pcimRuleInstance\nobjectClass: tgPolicyAuxClass\n\
                     cn: stream\ntgMatchDestinationPort: 9000\ntgAction: police-drop\ntgProfileMean: {mean}\n"
                ),
            ),
            _ => self.write(mean),
        }
    }

    /// Writes the next marker.
    pub(crate) fn commit(&mut self) {
        self.marker += 1;
        match self.kind {
            Kind::Directory => {
                fs::write(self.bed.folder.join("site/COMMIT"), format!("{}\n", self.marker))
                    .unwrap();
            }
            Kind::Etcd => self.put("/tidegate/commit", &self.marker.to_string()),
            Kind::Ldap => self.ldap("ldapmodify", &marker(self.marker)),
        }
    }

    /// Writes markers for `time`, up to a thousand per second. Returns their number, and the maximum
    /// number of pauses of [`PAUSE`] between two markers: a server pauses while its disk is busy.
    pub(crate) fn flood(&mut self, time: Duration) -> (u32, u64) {
        let begin = self.marker;
        let start = now();
        let (mut written, mut pauses) = (start, 0);
        while start.elapsed() < time {
            let due = begin + u32::try_from(start.elapsed().as_millis()).unwrap();
            let batch = self.marker + 1..due + 1;
            match self.kind {
                Kind::Directory => {
                    for marker in batch {
                        fs::write(self.bed.folder.join("site/COMMIT"), format!("{marker}\n"))
                            .unwrap();
                    }
                }
                Kind::Etcd => self.put_all(batch),
                Kind::Ldap => {
                    let all: String = batch.map(|it| marker(it) + "\n").collect();
                    if !all.is_empty() {
                        self.ldap("ldapmodify", &all);
                    }
                }
            }
            self.marker = due;
            pause(Duration::from_millis(1));
            pauses += u64::try_from(written.elapsed().as_millis() / PAUSE.as_millis()).unwrap();
            written = now();
        }
        (self.marker - begin, pauses)
    }

    /// Writes these markers to etcd over one connection.
    fn put_all(&self, markers: Range<u32>) {
        use std::io::{Read, Write};
        let writes = self.bed.middle.within(move || {
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", 2379)).unwrap();
            for marker in markers {
                // The key is `/tidegate/commit` in base64, and the value is the number.
                let digits = format!("{marker:06}");
                let body = format!("{{\"key\":\"L3RpZGVnYXRlL2NvbW1pdA==\",\"value\":\"{}\"}}", base64(&digits));
                let length = body.len();
                let request = format!(
                    "POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
                );
                stream.write_all(request.as_bytes()).unwrap();
                let (mut answer, mut more) = (Vec::new(), [0; 2048]);
                while !answer.ends_with(b"}}") && !answer.ends_with(b"\r\n0\r\n\r\n") {
                    let count = stream.read(&mut more).unwrap();
                    assert!(count > 0, "etcd closes the connection");
                    answer.extend_from_slice(&more[..count]);
                }
                assert!(answer.starts_with(b"HTTP/1.1 200"), "etcd refuses a marker");
            }
        });
        writes.join().unwrap();
    }

    /// Writes `value` under `key` in etcd directly, without the gateway's own writer.
    pub(crate) fn put(&self, key: &str, value: &str) {
        let mut command = self.bed.middle.command("etcdctl");
        run(command.env("ETCDCTL_API", "3").args(["put", key, value]), LIMIT);
    }

    /// Runs a command of `etcdctl`.
    pub(crate) fn etcdctl(&self, words: &[&str]) -> String {
        let mut command = self.bed.middle.command("etcdctl");
        run(command.env("ETCDCTL_API", "3").args(words), LIMIT)
    }

    /// Runs `ldapadd`, `ldapmodify` or `ldapsearch` as the administrator.
    fn ldap(&self, program: &str, ldif: &str) {
        let mut command = self.bed.middle.command(Path::new("/usr/bin").join(program));
        command.args(["-x", "-H", "ldap://127.0.0.1", "-D", ADMIN, "-w", PASSWORD]);
        let mut process = Process::start(&mut command);
        process.feed(ldif);
        let finished = process.finish(LIMIT);
        assert!(finished.status.success(), "{ldif}{finished:?}");
    }

    /// The entries below `base`.
    pub(crate) fn search(&self, base: &str) -> String {
        let mut command = self.bed.middle.command("ldapsearch");
        command.args(["-x", "-LLL", "-o", "ldif-wrap=no", "-H", "ldap://127.0.0.1", "-b", base]);
        Process::start(&mut command).finish(LIMIT).output
    }
}

/// The LDIF text that writes a marker.
fn marker(number: u32) -> String {
    format!("dn: ou=tidegate\nchangetype: modify\nreplace: tgGeneration\ntgGeneration: {number}\n")
}

/// Six digits in base64.
fn base64(digits: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters = |three: &[u8]| {
        let bits = three.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
        [18, 12, 6, 0]
            .map(|shift| char::from(LETTERS[usize::try_from(bits >> shift & 63).unwrap()]))
    };
    digits.as_bytes().chunks(3).flat_map(letters).collect()
}

/// The gateway's output for `subcommand` of `tidegate`, in JSON.
pub(crate) fn ask(bed: &Testbed, subcommand: &str) -> Value {
    let finished = Process::start(&mut bed.tidegate(&[subcommand, "--json"])).finish(LIMIT);
    serde_json::from_str(&finished.output).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

/// Waits until the source `name` is in the state `state`. Returns the source.
pub(crate) fn in_state(bed: &Testbed, name: &str, state: &str) -> Value {
    let mut last = Value::Null;
    let start = now();
    loop {
        let sources = ask(bed, "source");
        // A gateway that is still starting does not answer.
        let mut all = sources["sources"].as_array().into_iter().flatten();
        if let Some(found) = all.find(|it| it["name"] == name) {
            last = found.clone();
        }
        if last["state"] == state {
            return last;
        }
        assert!(start.elapsed() < LIMIT, "never {state}: {last}");
        pause(Duration::from_millis(20));
    }
}

/// The policy that applies to a packet to port `port` of the WAN host.
pub(crate) fn policy_of(bed: &Testbed, protocol: &str, port: &str) -> Value {
    let (from, to) = (bed.lan.v4.to_string(), bed.wan.v4.to_string());
    let words = ["explain", "--json", "--src", &from, "--dst", &to, "--protocol", protocol];
    let text = run(bed.tidegate(&words).args(["--dst-port", port, "--direction", "up"]), LIMIT);
    serde_json::from_str::<Value>(&text).unwrap()["policy"].take()
}
