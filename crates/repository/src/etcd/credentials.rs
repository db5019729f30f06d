//! The passwords and certificates for the servers of an etcd cluster (*members*). If a member
//! refuses them and their files have changed, the files are read again.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use tidegate_config::source::Access;

use crate::access::{self, Secret};
use crate::{Fault, FaultKind};

/// User and password, and the token that a member returned for them. Every member accepts the
/// token.
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
    token: Mutex<Option<String>>,
}

impl Login {
    /// The token, if the client has logged in.
    pub(super) fn token(&self) -> Option<String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets or removes the token.
    pub(super) fn keep(&self, token: Option<String>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }
}

/// The contents of a repository's credentials files.
pub(super) struct Credentials {
    pub(super) login: Option<Login>,
    /// Present if a member has an `https` URL.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// Digest of the files' contents. It changes if a file changes.
    files: blake3::Hash,
}

impl Credentials {
    /// Reads the credentials files of `access`. Reads the files for TLS only if `https` is set.
    ///
    /// # Errors
    ///
    /// If a file cannot be used.
    pub(super) fn read(access: &Access, https: bool) -> Result<Self, Fault> {
        let files = digest(access);
        let login = access::credentials(access)?;
        let login = login.map(|(user, password)| Login { user, password, token: Mutex::new(None) });
        let tls = if https { Some(access::tls(access)?) } else { None };
        Ok(Self { login, tls, files })
    }

    /// Reads the files again. Returns `None` if they have not changed or cannot be used.
    pub(super) fn renewed(&self, access: &Access) -> Option<Self> {
        if digest(access) == self.files {
            return None;
        }
        let renewed = Self::read(access, self.tls.is_some());
        renewed.inspect_err(|fault| tracing::warn!(%fault, "changed credentials are not used")).ok()
    }
}

/// Returns `true` if a fault of this kind may vanish with other credentials.
pub(super) fn of_credentials(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Refused | FaultKind::Untrusted)
}

fn digest(access: &Access) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for path in [&access.password_file, &access.ca, &access.cert, &access.key].into_iter().flatten()
    {
        // An unreadable file counts as empty. Its digest thus changes when it becomes readable.
        let text = access::content(path);
        hasher.update(blake3::hash(&text).as_bytes());
    }
    hasher.finalize()
}
