//! Tests users, passwords, tokens and certificates of etcd.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use serde_json::json;
use tidegate_config::source::SourceSpec;
use tidegate_repository::{FaultKind, open};

use crate::real::{Etcd, call};
use crate::testing::{fault, held, next, next_snapshot, policy, source, spec};

/// A file that only its owner may read.
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A folder that is removed when the value is dropped.
pub(crate) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A source that logs in as user `gateway` with this password.
pub(crate) fn with_password(url: &str, password: &str) -> (SourceSpec, Folder) {
    let port = url.rsplit(':').next().unwrap();
    let name = format!("tidegate-password-{}-{port}-{}", std::process::id(), password.len());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("password");
    write(&file, password);
    let mut spec = spec(&[url.to_owned()]);
    spec.access.user = Some("gateway".to_owned());
    spec.access.password_file = Some(file);
    (spec, Folder(folder))
}

/// Creates the users `root`, with all rights, and `gateway`, which may read `/t/` and write
/// `/t/status/`.
async fn with_users(server: &Etcd) {
    for (user, role) in [("root", "root"), ("gateway", "reader")] {
        server
            .call("/v3/auth/user/add", json!({ "name": user, "password": format!("{user}-pw") }))
            .await;
        server.call("/v3/auth/role/add", json!({ "name": role })).await;
        server.call("/v3/auth/user/grant", json!({ "user": user, "role": role })).await;
    }
    for (kind, from, end) in [("READ", "/t/", "/t0"), ("READWRITE", "/t/status/", "/t/status0")] {
        let range = json!({ "permType": kind, "key": STANDARD.encode(from), "range_end": STANDARD.encode(end) });
        server.call("/v3/auth/role/grant", json!({ "name": "reader", "perm": range })).await;
    }
    server.call("/v3/auth/enable", json!({})).await;
}

/// Catches: no new login after the server has restarted and forgotten the token; a fault whose text
/// shows the password.
#[tokio::test]
async fn users_have_their_own_permissions_and_expired_tokens_are_renewed() {
    let Some(server) = Etcd::start().await else { return };
    source(&server.url()).push(vec![policy("web", 1)]).await.unwrap();
    with_users(&server).await;

    let nobody = fault(source(&server.url()).pull().await, FaultKind::Refused);
    assert!(nobody.help.contains("`user`"), "{nobody}");
    let (wrong, _folder) = with_password(&server.url(), "hunter2");
    let wrong = fault(open(&wrong).unwrap().pull().await, FaultKind::Refused);
    assert!(!format!("{wrong:?} {wrong}").contains("hunter2"));

    let (spec, _folder) = with_password(&server.url(), "gateway-pw");
    let gateway = open(&spec).unwrap();
    let mut watch = gateway.clone().watch();
    let set = next(&mut watch).await.unwrap();
    assert_eq!(gateway.pull().await.unwrap(), set);
    let denied = fault(gateway.push(vec![policy("mail", 1)]).await, FaultKind::Refused);
    assert!(denied.message.contains("permission denied"), "{denied}");

    // Setting a password invalidates the user's tokens, even if the password is the same.
    let root = json!({ "name": "root", "password": "root-pw" });
    let token =
        server.call("/v3/auth/authenticate", root).await["token"].as_str().unwrap().to_owned();
    let same = json!({ "name": "gateway", "password": "gateway-pw" });
    call(server.port(), "/v3/auth/user/changepw", &token, same).await;
    assert_eq!(gateway.pull().await.unwrap(), set);
    let (mut root, _folder) = with_password(&server.url(), "root-pw");
    root.access.user = Some("root".to_owned());
    open(&root).unwrap().push(vec![policy("mail", 1)]).await.unwrap();
    while held(&next_snapshot(&mut watch).await)[0].name != "mail" {}
}

/// Catches: credentials files that are read only at the start; a watch that keeps the old password.
#[tokio::test]
async fn a_corrected_password_and_a_renewed_certificate_are_used_without_a_restart() {
    let Some(server) = Etcd::start().await else { return };
    source(&server.url()).push(vec![policy("web", 1)]).await.unwrap();
    with_users(&server).await;
    let (spec, _folder) = with_password(&server.url(), "hunter2");
    let gateway = open(&spec).unwrap();
    let mut watch = gateway.clone().watch();
    fault(next(&mut watch).await, FaultKind::Refused);
    write(&spec.access.password_file.clone().unwrap(), "gateway-pw\na comment\n");
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 1);

    let Some(server) = with_tls("127.0.0.1", 2090).await else { return };
    let gateway = open(&with_files(&server, Some("ca.pem"), Some("untrusted"))).unwrap();
    fault(gateway.pull().await, FaultKind::Refused);
    for end in ["pem", "key"] {
        let file = |name: &str| server.folder().join(format!("{name}.{end}"));
        fs::copy(file("gateway"), file("untrusted")).unwrap();
    }
    fault(gateway.pull().await, FaultKind::Uncommitted);
}

#[tokio::test]
async fn a_user_for_a_server_without_users_is_refused() {
    let Some(server) = Etcd::start().await else { return };
    let (spec, _folder) = with_password(&server.url(), "gateway-pw");
    let refused = fault(open(&spec).unwrap().pull().await, FaultKind::Refused);
    assert!(refused.help.contains("remove `user`"), "{refused}");
}

#[tokio::test]
async fn a_password_that_others_may_read_is_not_used() {
    let (spec, _folder) = with_password("http://127.0.0.1:1", "hunter2");
    let file = spec.access.password_file.clone().unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let fault = open(&spec).err().unwrap();
    assert_eq!(fault.kind, FaultKind::Unusable);
    assert_eq!(fault.help, format!("chmod 600 {}", file.display()));
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes `<name>.pem` and `<name>.key`: a certificate for `host`, valid until `year`, signed by
/// `authority`.
fn certificate(folder: &Path, name: &str, authority: &Authority, host: &str, year: i32) {
    let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(year, 1, 1);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
    write(&folder.join(format!("{name}.key")), &key.serialize_pem());
}

/// A TLS server that requires certificates of its clients. Its own certificate is for `host` and
/// valid until `year`.
async fn with_tls(host: &'static str, year: i32) -> Option<Etcd> {
    let server = Etcd::start_with("https", |folder| {
        let (ours, theirs) = (authority("ours"), authority("theirs"));
        fs::write(folder.join("ca.pem"), ours.pem()).unwrap();
        fs::write(folder.join("other.pem"), theirs.pem()).unwrap();
        certificate(folder, "server", &ours, host, year);
        certificate(folder, "gateway", &ours, "gw1", 2090);
        certificate(folder, "untrusted", &theirs, "gw1", 2090);
        let file = |name: &str| folder.join(name).display().to_string();
        let files = [
            ("cert-file", "server.pem"),
            ("key-file", "server.key"),
            ("trusted-ca-file", "ca.pem"),
        ];
        let mut arguments = vec!["--client-cert-auth".to_owned()];
        arguments.extend(files.map(|(name, value)| format!("--{name}={}", file(value))));
        arguments
    });
    server.await
}

fn with_files(server: &Etcd, ca: Option<&str>, client: Option<&str>) -> SourceSpec {
    let mut spec = spec(&[server.url()]);
    spec.access.ca = ca.map(|name| server.folder().join(name));
    spec.access.cert = client.map(|name| server.folder().join(format!("{name}.pem")));
    spec.access.key = client.map(|name| server.folder().join(format!("{name}.key")));
    spec
}

/// Catches: a server certificate that is not verified; a client certificate that is not sent;
/// different causes reported as the same kind of fault.
#[tokio::test]
async fn certificates_of_both_sides_are_verified() {
    let Some(server) = with_tls("127.0.0.1", 2090).await else { return };
    let good = open(&with_files(&server, Some("ca.pem"), Some("gateway"))).unwrap();
    good.push(vec![policy("web", 1)]).await.unwrap();
    let mut watch = good.clone().watch();
    assert_eq!(held(&next(&mut watch).await.unwrap()).len(), 1);
    good.push(Vec::new()).await.unwrap();
    assert!(next(&mut watch).await.unwrap().parts.is_empty());

    for ca in [Some("other.pem"), None] {
        let other = open(&with_files(&server, ca, Some("gateway"))).unwrap();
        fault(other.pull().await, FaultKind::Untrusted);
    }
    for client in [None, Some("untrusted")] {
        let refused = open(&with_files(&server, Some("ca.pem"), client)).unwrap();
        let refused = fault(refused.pull().await, FaultKind::Refused);
        assert!(refused.help.contains("`cert`"), "{refused}");
    }
    let plain = source(&server.url().replace("https", "http"));
    fault(plain.pull().await, FaultKind::Unreachable);
}

#[tokio::test]
async fn a_certificate_that_has_expired_or_is_for_another_host_is_not_trusted() {
    for (host, year, says) in [("127.0.0.1", 2020, "expired"), ("etcd.example.net", 2090, "name")] {
        let Some(server) = with_tls(host, year).await else { return };
        let source = open(&with_files(&server, Some("ca.pem"), Some("gateway"))).unwrap();
        let untrusted = fault(source.pull().await, FaultKind::Untrusted);
        assert!(untrusted.message.contains(says), "{untrusted}");
        assert!(untrusted.help.contains("dates"), "{untrusted}");
    }
}
