//! Credentials for the server of a policy repository: secrets from files of mode 0600, and the TLS
//! configuration.
//!
//! The TLS library is rustls, with the cryptography of ring. A certificate authority in the file
//! `ca` must have signed the server's certificate. Without `ca`, the authorities that this host
//! trusts are used.
//!
//! Source: RFC 8446, TLS 1.3; RFC 5280, certificates.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::OFlag;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tidegate_config::source::Access;

use crate::{Fault, FaultKind};

/// A password or a private key. `Debug` does not show it.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Secret(String);

impl Secret {
    /// The text itself, which may go only to the server.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl Secret {
    /// The first line of the secret. A password file holds the password in its first line.
    fn first_line(&self) -> Self {
        Self(self.0.lines().next().unwrap_or("").to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Returns the user and the password that `access` configures, or `None` if it configures neither.
///
/// # Errors
///
/// If only the user or only the password is given, or the password file cannot be used.
pub(crate) fn credentials(access: &Access) -> Result<Option<(String, Secret)>, Fault> {
    match (&access.user, &access.password_file) {
        (None, None) => Ok(None),
        (Some(user), Some(file)) => Ok(Some((user.clone(), secret(file)?.first_line()))),
        (Some(_), None) => Err(unusable("`user` is given without `password_file`")),
        (None, Some(_)) => Err(unusable("`password_file` is given without `user`")),
    }
}

/// Reads the secret from a file that only its owner may read. Removes the line break at the end.
///
/// # Errors
///
/// If the file cannot be read, others may read it, or it is empty.
pub(crate) fn secret(path: &Path) -> Result<Secret, Fault> {
    let file = open(path)?;
    let mode = file.metadata().map_err(|error| unreadable(path, &error))?.mode();
    if mode & OTHERS != 0 {
        let message = format!("others may read {}", path.display());
        return Err(unusable(message).help(format!("chmod 600 {}", path.display())));
    }
    let text = read(file, LONGEST_SECRET).map_err(|error| unreadable(path, &error))?;
    let text =
        String::from_utf8(text).map_err(|_| unusable(format!("{} is not text", path.display())))?;
    let text =
        text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() {
        return Err(unusable(format!("{} is empty", path.display())));
    }
    Ok(Secret(text.to_owned()))
}

/// Builds the TLS configuration that `access` describes.
///
/// # Errors
///
/// If a file cannot be used, or holds no certificate or key.
pub(crate) fn tls(access: &Access) -> Result<Arc<ClientConfig>, Fault> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(format!("TLS: {error}")))?
        .with_root_certificates(roots(access.ca.as_deref())?);
    let config = match (&access.cert, &access.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let pem = secret(key)?;
            let private = PrivateKeyDer::from_pem_slice(pem.expose().as_bytes())
                .map_err(|_| unusable(format!("{} holds no key in PEM", key.display())))?;
            builder.with_client_auth_cert(certificates(cert)?, private).map_err(|error| {
                unusable(format!("{} does not go with {}: {error}", key.display(), cert.display()))
            })?
        }
        (Some(_), None) => return Err(unusable("`cert` is given without `key`")),
        (None, Some(_)) => return Err(unusable("`key` is given without `cert`")),
    };
    Ok(Arc::new(config))
}

/// The authorities that may sign the server's certificate.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        // Certificates of the host that cannot be parsed are skipped, because the server may not
        // need them.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| unusable(format!("{} holds no authority: {error}", path.display())))?;
    }
    Ok(roots)
}

/// The certificates in a PEM file, which must contain at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let text = read(open(path)?, LONGEST_LIST).map_err(|error| unreadable(path, &error))?;
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    list.ok()
        .filter(|list| !list.is_empty())
        .ok_or_else(|| unusable(format!("{} holds no certificate in PEM", path.display())))
}

/// Opens a regular file, and refuses other kinds. Reading a pipe without a writer, for example,
/// would block every task of the thread.
fn open(path: &Path) -> Result<fs::File, Fault> {
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = file.map_err(|error| unreadable(path, &error))?;
    match file.metadata().map_err(|error| unreadable(path, &error))?.is_file() {
        true => Ok(file),
        false => Err(unusable(format!("{} is not a regular file", path.display()))),
    }
}

/// Reads at most `limit` bytes of `file`.
fn read(file: fs::File, limit: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(limit).read_to_end(&mut text)?;
    Ok(text)
}

/// The content of a credentials file, or an empty text if it cannot be read.
pub(crate) fn content(path: &Path) -> Vec<u8> {
    open(path).ok().and_then(|file| read(file, LONGEST_LIST).ok()).unwrap_or_default()
}

/// Returns the fault that describes a failed TLS handshake, or `None` if `error` does not come from
/// TLS.
pub(crate) fn tls_fault(error: &(dyn Error + 'static), server: &str) -> Option<Fault> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(of_tls(tls, server));
        }
        // The `source` of an I/O error skips the error that it wraps. So the wrapped error is
        // checked first.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inside {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}

fn of_tls(error: &rustls::Error, server: &str) -> Fault {
    match error {
        rustls::Error::InvalidCertificate(reason) => {
            let message = format!("the certificate of {server} is not accepted: {reason}");
            Fault::new(FaultKind::Untrusted, message)
        }
        rustls::Error::AlertReceived(alert) => {
            let message = format!("{server} refuses the TLS connection: {alert:?}");
            Fault::new(FaultKind::Refused, message)
                .help("look at `cert` and `key`, and at the authorities that the server accepts")
        }
        _ => Fault::new(FaultKind::Protocol, format!("TLS with {server} fails: {error}")),
    }
}

fn unusable(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Unusable, message)
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    unusable(format!("{} cannot be read: {error}", path.display()))
}

/// Permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Maximum size of a secret, in bytes. An RSA key of 16,384 bits takes 13 kB in PEM.
const LONGEST_SECRET: u64 = 64 * 1024;

/// Maximum size of a list of certificates, in bytes. Debian's list of authorities takes 220 kB.
const LONGEST_LIST: u64 = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Catches: a secret accepted although its group may read it; the line break kept in the
    /// password; a message that shows the secret.
    #[test]
    fn a_secret_is_read_only_from_a_file_of_its_owner() {
        let folder = std::env::temp_dir().join(format!("tidegate-secret-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("password");
        fs::write(&file, "hunter2\n").unwrap();
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let fault = secret(&file).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Unusable);
            assert!(fault.to_string().contains("chmod 600"), "{fault}");
            assert!(!format!("{fault:?}").contains("hunter2"));
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let secret = secret(&file).unwrap();
        assert_eq!(secret.expose(), "hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Catches: a read that blocks on a pipe, or that never ends on a device.
    #[test]
    fn only_regular_files_are_read_as_credentials() {
        let folder = std::env::temp_dir().join(format!("tidegate-pipe-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        for path in [&*pipe, Path::new("/dev/zero"), &*folder] {
            let (send, answer) = std::sync::mpsc::channel();
            let path = path.to_owned();
            std::thread::spawn(move || {
                let access = Access { ca: Some(path.clone()), ..Access::default() };
                let faults = [secret(&path).err(), tls(&access).err()];
                let empty = content(&path).is_empty();
                let _ = send.send((faults, empty));
            });
            let (faults, empty) =
                answer.recv_timeout(std::time::Duration::from_secs(5)).expect("it is waited for");
            assert!(faults.iter().all(Option::is_some) && empty, "{faults:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_user_without_a_password_or_a_certificate_without_a_key_is_refused() {
        let user = Access { user: Some("a".to_owned()), ..Access::default() };
        assert!(credentials(&user).unwrap_err().message.contains("without `password_file`"));
        let cert = Access { cert: Some("/none".into()), ..Access::default() };
        assert!(tls(&cert).unwrap_err().message.contains("without `key`"));
    }
}
