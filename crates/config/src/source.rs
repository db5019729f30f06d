//! `[[source]]`: a repository of policies outside of the policy file.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::Bytes;

/// A source of policies, with all defaults filled in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceSpec {
    /// Its name, in reports, alarms and commands.
    pub name: String,
    /// The repository that contains its policies.
    pub kind: SourceKind,
    /// How the gateway and the server authenticate each other.
    pub access: Access,
    /// The roles of this gateway. A policy, class or trunk with roles applies only if it names one
    /// of these. Items without roles always apply.
    pub roles: Vec<String>,
    /// Reaction to a new commit.
    pub apply: Apply,
    /// Changes that count as a commit.
    pub commit: Commit,
    /// Interval between two reads of a source that cannot be watched.
    pub poll: Duration,
    /// Largest total size of the source's documents, in bytes.
    pub max_size: Bytes,
    /// Largest number of policies, classes and trunks together.
    pub max_policies: usize,
}

/// A repository of policies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SourceKind {
    /// Files whose names end in `.toml`, in one directory of this host.
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// Keys of an etcd v3 cluster.
    Etcd {
        /// URLs of the members, in order of preference: `https://10.0.0.2:2379`.
        urls: Vec<String>,
        /// Common prefix of the keys: `/tidegate/` by default.
        prefix: String,
    },
    /// Entries of an LDAP directory.
    Ldap {
        /// URLs of the servers, in order of preference: `ldaps://ldap.example.net`.
        urls: Vec<String>,
        /// The DN of the root entry.
        base: String,
    },
}

/// How the gateway and the server of a source authenticate each other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Access {
    /// User name, or bind DN of LDAP.
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

/// Reaction to a new commit of a source.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Apply {
    /// The commit is put in force.
    #[default]
    Auto,
    /// The commit is put in force, and rolled back unless an operator confirms it.
    Confirm,
    /// The commit waits for `tidegate apply --source`.
    Manual,
}

/// Changes of a source that count as a commit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Commit {
    /// A change of the marker, which an author writes last.
    #[default]
    Marker,
    /// Any change that is followed by a quiet period without further changes.
    EachChange,
}
