//! `[[source]]`: a repository of policies outside the policy file.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::Bytes;

/// A source of policies, with every default filled in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceSpec {
    /// Its name, in reports, alarms and commands.
    pub name: String,
    /// The location of its policies.
    pub kind: SourceKind,
    /// Authentication of the gateway and of the server.
    pub access: Access,
    /// The roles of this gateway. A policy with roles applies if the gateway has one of its roles.
    /// Policies without roles always apply.
    pub roles: Vec<String>,
    /// The use of a new commit.
    pub apply: Apply,
    /// The definition of a commit.
    pub commit: Commit,
    /// Interval between two polls of a source that cannot be watched.
    pub poll: Duration,
    /// Largest total size of the set, in bytes.
    pub max_size: Bytes,
    /// Largest number of policies, classes and trunks together.
    pub max_policies: usize,
}

/// The location of the policies of a source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SourceKind {
    /// Files whose names end in `.toml`, in one directory of this host.
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// Keys of an etcd v3 cluster.
    Etcd {
        /// URLs of the members, such as `https://10.0.0.2:2379`, tried in this order.
        urls: Vec<String>,
        /// Common prefix of the keys, such as `/tidegate/`.
        prefix: String,
    },
    /// Entries of an LDAP directory.
    Ldap {
        /// URLs of the servers, such as `ldaps://ldap.example.net`, tried in this order.
        urls: Vec<String>,
        /// The DN of the root entry.
        base: String,
    },
}

/// Authentication of the gateway and of the server of a source.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// User or bind DN.
    pub user: Option<String>,
    /// File of mode 0600 with the password.
    pub password_file: Option<PathBuf>,
    /// File with the certificates of the authorities that sign the server's certificate.
    pub ca: Option<PathBuf>,
    /// File with the certificate of the gateway.
    pub cert: Option<PathBuf>,
    /// File of mode 0600 with the key of that certificate.
    pub key: Option<PathBuf>,
}

/// The use of a new commit of a source.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Apply {
    /// It is put in force.
    #[default]
    Auto,
    /// It is put in force, and rolled back unless it is confirmed.
    Confirm,
    /// It waits for `tidegate apply --source`.
    Manual,
}

/// The definition of a commit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Commit {
    /// The change of a marker, written last.
    #[default]
    Marker,
    /// Every change that is followed by a quiet period.
    EachChange,
}
