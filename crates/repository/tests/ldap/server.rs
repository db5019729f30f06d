//! An LDAP server of its own for each test: Debian's `slapd` on a free port of the loopback address.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_config::source::{Access, Apply, Commit, SourceKind, SourceSpec};
use tidegate_core::Bytes;
use tidegate_repository::{PolicyRepository, open};

/// The root entry of the tests.
pub(crate) const BASE: &str = "ou=tidegate,dc=test";
/// The user that may do everything.
pub(crate) const ADMIN: &str = "cn=admin,dc=test";
const PASSWORD: &str = "secret-of-the-test";

/// A running server. It ends with the value.
pub(crate) struct Server {
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// A server with the schema of `packaging/ldap`; none if this machine has no `slapd`.
    pub(crate) fn start() -> Option<Self> {
        Self::with("overlay syncprov\n")
    }

    /// The same with other lines in the section of the database.
    pub(crate) fn with(lines: &str) -> Option<Self> {
        let Some(program) = program() else {
            missing();
            return None;
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("tidegate-ldap-{}-{number}", std::process::id()));
        fs::create_dir_all(folder.join("data")).unwrap();
        let schema = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/ldap");
        let includes: String = ["pcim", "pcels", "tidegate", "zos"]
            .iter()
            .map(|name| format!("include {}/{name}.schema\n", schema.display()))
            .collect();
        let tls = if folder_has_certificates(&folder, lines) {
            let path = folder.display();
            format!(
                "TLSCACertificateFile {path}/ca.pem\nTLSCertificateFile {path}/server.pem\nTLSCertificateKeyFile {path}/server.key\nTLSVerifyClient try\n"
            )
        } else {
            String::new()
        };
        let path = folder.display();
        let configuration = format!(
            "include /etc/ldap/schema/core.schema\n{includes}modulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             moduleload syncprov\npidfile {path}/pid\n{tls}\
             authz-regexp \"cn=gateway\" \"{ADMIN}\"\n\
             sizelimit unlimited\ndatabase mdb\nsuffix \"dc=test\"\nrootdn \"{ADMIN}\"\nrootpw {PASSWORD}\n\
             directory {path}/data\nmaxsize 268435456\ndbnosync\nindex objectClass eq\nindex entryCSN,entryUUID eq\n{lines}"
        );
        fs::write(folder.join("slapd.conf"), configuration).unwrap();
        fs::write(folder.join("password"), PASSWORD).unwrap();
        fs::set_permissions(folder.join("password"), fs::Permissions::from_mode(0o600)).unwrap();
        let port = free_port();
        let mut server = Self { folder, port, child: None };
        server.run(&program);
        let root =
            "dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\ndc: test\no: test\n";
        server.change("ldapadd", root);
        Some(server)
    }

    fn run(&mut self, program: &Path) {
        let urls = format!("ldap://127.0.0.1:{} ldaps://127.0.0.1:{}", self.port, self.port + 1);
        let child = Command::new(program)
            .args(["-d", "0", "-h", &urls, "-f"])
            .arg(self.folder.join("slapd.conf"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        self.child = Some(child);
        for _ in 0..400 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            pause(Duration::from_millis(25));
        }
        panic!("slapd does not start: {}", fs::read_to_string(self.folder.join("log")).unwrap());
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again after [`kill`](Self::kill).
    pub(crate) fn restart(&mut self) {
        self.run(&program().unwrap());
    }

    /// Stops or continues the server process.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Runs `ldapadd` or `ldapmodify` as the administrator, with `ldif` as its input.
    pub(crate) fn change(&self, program: &str, ldif: &str) {
        let mut child = Command::new(program)
            .args(["-x", "-H", &self.url(), "-D", ADMIN, "-y"])
            .arg(self.folder.join("password"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(ldif.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{ldif}");
    }

    /// What `ldapsearch` finds at the entry `dn`.
    pub(crate) fn read(&self, dn: &str, attribute: &str) -> String {
        let output = Command::new("ldapsearch")
            .args(["-x", "-LLL", "-o", "ldif-wrap=no", "-H", &self.url(), "-D", ADMIN, "-y"])
            .arg(self.folder.join("password"))
            .args(["-s", "base", "-b", dn, "(objectClass=*)", attribute])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.port)
    }

    /// Its URL for TLS.
    pub(crate) fn tls_url(&self) -> String {
        format!("ldaps://127.0.0.1:{}", self.port + 1)
    }

    /// A file in its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The source for this server.
    pub(crate) fn spec(&self) -> SourceSpec {
        spec(&self.url(), Some(self.file("password")))
    }

    /// The repository of this server.
    pub(crate) fn repository(&self) -> Arc<dyn PolicyRepository> {
        open(&self.spec()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A source at `url`, as the administrator if there is a password.
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

/// Whether the lines ask for TLS; the certificates are then made.
fn folder_has_certificates(folder: &Path, lines: &str) -> bool {
    let wanted = lines.contains("# tls");
    if wanted {
        crate::certificates::make(folder, lines.contains("# expired"));
    }
    wanted
}

fn program() -> Option<PathBuf> {
    let tools = ["/usr/bin/ldapadd", "/usr/bin/ldapmodify", "/usr/bin/ldapsearch"];
    if !tools.iter().all(|tool| Path::new(tool).exists()) {
        return None;
    }
    ["/usr/sbin/slapd", "/usr/libexec/slapd"].iter().map(PathBuf::from).find(|path| path.exists())
}

/// Says that a test is skipped. The build server refuses that.
fn missing() {
    let refused = std::env::var_os("CI_REFUSES_SKIPS").is_some();
    assert!(!refused, "slapd or ldapmodify is missing; .ci/setup installs them");
    // Shown even where the output of passing tests is not. Nothing is left to do where there is nobody to tell.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: no slapd or ldapmodify here (Debian packages slapd, ldap-utils)"
    );
}

/// A port that is free, and the next one too.
fn free_port() -> u16 {
    loop {
        let Ok(first) = TcpListener::bind("127.0.0.1:0") else { continue };
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// Waits outside of a runtime.
fn pause(time: Duration) {
    let (_keep, silent) = std::sync::mpsc::channel::<()>();
    let _ = silent.recv_timeout(time);
}
