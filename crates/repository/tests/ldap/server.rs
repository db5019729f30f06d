//! An LDAP server for one test: Debian's `slapd` on a free port of the loopback address.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_config::source::{Access, Apply, Commit, SourceKind, SourceSpec};
use tidegate_core::Bytes;
use tidegate_repository::{PolicyRepository, open};

/// The name of the repository's root entry.
pub(crate) const BASE: &str = "ou=tidegate,dc=test";
/// The user with all permissions.
pub(crate) const ADMIN: &str = "cn=admin,dc=test";
const PASSWORD: &str = "secret-of-the-test";

/// A running server. Dropping the value ends it.
pub(crate) struct Server {
    // This field is dropped before `folder`, because the server must not write into a folder that
    // is being removed.
    slapd: Option<Slapd>,
    folder: Folder,
    port: u16,
}

impl Server {
    /// A server with the schema of `packaging/ldap`. `None` if this machine has no `slapd`.
    pub(crate) fn start() -> Option<Self> {
        Self::with("overlay syncprov\n")
    }

    /// As [`start`](Self::start), with other `lines` in the configuration of the database.
    pub(crate) fn with(lines: &str) -> Option<Self> {
        Self::at(free_port(), lines)
    }

    /// As [`with`](Self::with), on `port`, or on a free port if another program listens there.
    pub(crate) fn at(port: u16, lines: &str) -> Option<Self> {
        let program = slapd()?;
        let folder = Folder::new();
        fs::create_dir(folder.0.join("data")).unwrap();
        let schema = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/ldap");
        let includes: String = ["pcim", "pcels", "tidegate", "zos"]
            .iter()
            .map(|name| format!("include {}/{name}.schema\n", schema.display()))
            .collect();
        let tls = if folder_has_certificates(&folder.0, lines) {
            let path = folder.0.display();
            format!(
                "TLSCACertificateFile {path}/ca.pem\nTLSCertificateFile {path}/server.pem\nTLSCertificateKeyFile {path}/server.key\nTLSVerifyClient try\n"
            )
        } else {
            String::new()
        };
        let path = folder.0.display();
        let configuration = format!(
            "include /etc/ldap/schema/core.schema\n{includes}modulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             moduleload syncprov\npidfile {path}/pid\n{tls}\
             authz-regexp \"cn=gateway\" \"{ADMIN}\"\n\
             sizelimit unlimited\ndatabase mdb\nsuffix \"dc=test\"\nrootdn \"{ADMIN}\"\nrootpw {PASSWORD}\n\
             directory {path}/data\nmaxsize 268435456\ndbnosync\nindex objectClass eq\nindex entryCSN,entryUUID eq\n{lines}"
        );
        fs::write(folder.0.join("slapd.conf"), configuration).unwrap();
        fs::write(folder.0.join("password"), PASSWORD).unwrap();
        fs::set_permissions(folder.0.join("password"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut server = Self { folder, port, slapd: None };
        let mut attempts = 0..ATTEMPTS;
        while !server.run(&program) {
            attempts.next().expect("slapd does not start");
            server.port = free_port();
        }
        let root =
            "dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\ndc: test\no: test\n";
        server.change("ldapadd", root);
        Some(server)
    }

    /// Starts the process. `false` if it ended, as another program has taken a port.
    fn run(&mut self, program: &Path) -> bool {
        let urls = format!("ldap://127.0.0.1:{} ldaps://127.0.0.1:{}", self.port, self.port + 1);
        let configuration = self.file("slapd.conf").display().to_string();
        self.slapd = Slapd::run(program, &["-f", &configuration, "-h", &urls], self.port);
        self.slapd.is_some()
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.slapd = None;
    }

    /// Starts the server again after [`kill`](Self::kill).
    pub(crate) fn restart(&mut self) {
        assert!(self.run(&slapd().unwrap()), "slapd does not start again");
    }

    /// Stops (suspends) the server process with all its threads.
    pub(crate) fn stop(&self) {
        let pid = self.send_signal("-STOP");
        let stopped = |task: std::io::Result<fs::DirEntry>| {
            let state = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        };
        while !fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(stopped) {
            pause(Duration::from_millis(5));
        }
    }

    /// Continues the stopped process.
    pub(crate) fn go_on(&self) {
        self.send_signal("-CONT");
    }

    fn send_signal(&self, signal: &str) -> String {
        let pid = self.slapd.as_ref().unwrap().0.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        pid
    }

    /// Runs `ldapadd` or `ldapmodify` as the administrator, with `ldif` as input.
    pub(crate) fn change(&self, program: &str, ldif: &str) {
        let mut child = Command::new(program)
            .args(["-x", "-H", &self.url(), "-D", ADMIN, "-y"])
            .arg(self.file("password"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(ldif.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{ldif}");
    }

    /// The output of `ldapsearch` for the attribute of the entry `dn`.
    pub(crate) fn read(&self, dn: &str, attribute: &str) -> String {
        let output = Command::new("ldapsearch")
            .args(["-x", "-LLL", "-o", "ldif-wrap=no", "-H", &self.url(), "-D", ADMIN, "-y"])
            .arg(self.file("password"))
            .args(["-s", "base", "-b", dn, "(objectClass=*)", attribute])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.port)
    }

    /// The server's URL with TLS.
    pub(crate) fn tls_url(&self) -> String {
        format!("ldaps://127.0.0.1:{}", self.port + 1)
    }

    /// A file in the server's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    /// A source that points to this server.
    pub(crate) fn spec(&self) -> SourceSpec {
        spec(&self.url(), Some(self.file("password")))
    }

    /// The repository of this server.
    pub(crate) fn repository(&self) -> Arc<dyn PolicyRepository> {
        open(&self.spec()).unwrap()
    }
}

/// A process of `slapd`. Dropping the value ends it.
pub(crate) struct Slapd(Child);

impl Slapd {
    /// Starts `program` and waits until it listens on `port`. `None` if it ends before.
    pub(crate) fn run(program: &Path, arguments: &[&str], port: u16) -> Option<Self> {
        let child = Command::new(program)
            .args(["-d", "0"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut slapd = Self(child);
        for _ in 0..400 {
            if slapd.listens(port) {
                return Some(slapd);
            }
            if slapd.0.try_wait().unwrap().is_some() {
                return None;
            }
            pause(Duration::from_millis(25));
        }
        panic!("slapd does not listen: {arguments:?}");
    }

    /// Returns `true` if this process listens on `port`. A successful connection would not tell:
    /// another program may listen there, and a connection to a free port may be one to itself.
    fn listens(&self, port: u16) -> bool {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        // The columns: number, local address, remote address, state (0A: listens), …, inode.
        let socket = table.lines().map(|line| line.split_whitespace().collect()).find_map(
            |columns: Vec<&str>| {
                let local = format!("0100007F:{port:04X}");
                (columns[1] == local && columns[3] == "0A")
                    .then(|| format!("socket:[{}]", columns[9]))
            },
        );
        let files = fs::read_dir(format!("/proc/{}/fd", self.0.id())).into_iter().flatten();
        let mut links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        socket.is_some_and(|socket| links.any(|link| link == Path::new(&socket)))
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder of a test. Dropping the value removes it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new empty folder.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("tidegate-ldap-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A source at `url`. With a password, it logs in as the administrator.
pub(crate) fn spec(url: &str, password_file: Option<PathBuf>) -> SourceSpec {
    let user = password_file.as_ref().map(|_| ADMIN.to_owned());
    SourceSpec {
        name: "directory".to_owned(),
        kind: SourceKind::Ldap { urls: vec![url.to_owned()], base: BASE.to_owned() },
        access: Access { user, password_file, ..Access::default() },
        roles: Vec::new(),
        apply: Apply::Auto,
        commit: Commit::Marker,
        poll: Duration::from_millis(300),
        max_size: Bytes(64 << 20),
        max_policies: 100_000,
    }
}

/// Returns `true` if the configuration `lines` request TLS. Creates the certificates in that case.
fn folder_has_certificates(folder: &Path, lines: &str) -> bool {
    let wanted = lines.contains("# tls");
    if wanted {
        crate::certificates::make(folder, lines.contains("# expired"));
    }
    wanted
}

/// The path of slapd. If slapd is missing, prints that the test is skipped; on the build server,
/// fails instead.
pub(crate) fn slapd() -> Option<PathBuf> {
    let tools =
        ["ldapadd", "ldapmodify", "ldapsearch"].map(|tool| Path::new("/usr/bin").join(tool));
    let slapd = PathBuf::from("/usr/sbin/slapd");
    if slapd.exists() && tools.iter().all(|tool| tool.exists()) {
        return Some(slapd);
    }
    let refused = std::env::var_os("CI_REFUSES_SKIPS").is_some();
    assert!(!refused, "slapd or ldapmodify is missing; .ci/setup installs them");
    // The message goes to stderr directly, so it is shown even if the test passes. An error of the
    // write is ignored.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: no slapd or ldapmodify here (Debian packages slapd, ldap-utils)"
    );
    None
}

/// Number of further attempts to start a server. Another program may take a free port first.
const ATTEMPTS: usize = 10;

/// A free port. The next higher port is free too.
pub(crate) fn free_port() -> u16 {
    loop {
        let Ok(first) = TcpListener::bind("127.0.0.1:0") else { continue };
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// Waits in a test that has no async runtime.
fn pause(time: Duration) {
    let (_keep, silent) = std::sync::mpsc::channel::<()>();
    let _ = silent.recv_timeout(time);
}
