//! Translates results of the server and errors of the connection into faults.

use std::io;

use ldap3::{LdapError, LdapResult};

use crate::{Fault, FaultKind, access};

/// The fault for an unsuccessful `result`. `operation` is the attempted operation, with its entry.
pub(super) fn of_result(result: &LdapResult, operation: &str) -> Fault {
    let said = if result.text.is_empty() { String::new() } else { format!(" ({})", result.text) };
    match result.rc {
        REFERRAL => referral(&result.refs.join(", "), operation),
        NO_SUCH_OBJECT => Fault::new(
            FaultKind::Uncommitted,
            format!("{operation}: the entry does not exist, or may not be read{said}"),
        ),
        INVALID_CREDENTIALS => {
            Fault::new(FaultKind::Refused, format!("{operation}: user or password is wrong{said}"))
        }
        AUTH_METHOD | STRONGER_AUTH | CONFIDENTIALITY | INAPPROPRIATE_AUTH
        | INSUFFICIENT_ACCESS => Fault::new(
            FaultKind::Refused,
            format!("{operation}: the server refuses it, code {}{said}", result.rc),
        ),
        SIZE_LIMIT | ADMIN_LIMIT => Fault::new(
            FaultKind::Refused,
            format!("{operation}: the server limits the number of entries{said}"),
        )
        .help("let this user read all entries, such as with `olcLimits` in slapd"),
        TIME_LIMIT | BUSY | UNAVAILABLE => Fault::new(
            FaultKind::Unreachable,
            format!("{operation}: the server is busy, code {}{said}", result.rc),
        ),
        UNDEFINED_TYPE | INVALID_SYNTAX | OBJECT_CLASS_VIOLATION => Fault::new(
            FaultKind::Unusable,
            format!("{operation}: the schema does not allow it, code {}{said}", result.rc),
        )
        .help("load tidegate.ldif of packaging/ldap into the server; upgrade.ldif if it has an earlier one"),
        NO_SUCH_ATTRIBUTE | NOT_ON_NON_LEAF | ALREADY_EXISTS => Fault::new(
            FaultKind::Unsteady,
            format!("{operation}: somebody else writes at the same time, code {}{said}", result.rc),
        )
        .help("push again; if it stays so, remove the entries below this one"),
        code => Fault::new(
            FaultKind::Protocol,
            format!("{operation}: the server answers with code {code}{said}"),
        ),
    }
}

/// The fault if the server refers the client to another server.
pub(super) fn referral(urls: &str, operation: &str) -> Fault {
    Fault::new(
        FaultKind::Unusable,
        format!("{operation}: the server refers to {urls}, which is not followed"),
    )
    .help("point `url` at the server that holds these entries")
}

/// The fault for an error of the client library.
pub(super) fn of_error(error: &LdapError, server: &str) -> Fault {
    match error {
        LdapError::Io { source } => of_io(source, server),
        LdapError::Timeout { .. } => silent(server),
        LdapError::EndOfStream | LdapError::ResultRecv { .. } | LdapError::OpSend { .. } => {
            closed(server)
        }
        error => Fault::new(FaultKind::Protocol, format!("{server}: {error}")),
    }
}

/// The fault for an error of the connection.
pub(super) fn of_io(error: &io::Error, server: &str) -> Fault {
    access::tls_fault(error, server)
        .unwrap_or_else(|| Fault::new(FaultKind::Unreachable, format!("{server}: {error}")))
}

/// The fault if the server has closed the connection.
pub(super) fn closed(server: &str) -> Fault {
    Fault::new(FaultKind::Unreachable, format!("{server} has closed the connection"))
}

/// The fault if the server does not answer in time.
pub(super) fn silent(server: &str) -> Fault {
    Fault::new(FaultKind::Unreachable, format!("{server} does not answer in time"))
}

/// The fault if the server sends more than `limit` bytes.
pub(super) fn too_large(limit: u64) -> Fault {
    Fault::new(FaultKind::TooLarge, format!("the server sends more than {limit} bytes"))
}

/// Result codes; RFC 4511, appendix A.1.
const TIME_LIMIT: u32 = 3;
const SIZE_LIMIT: u32 = 4;
const AUTH_METHOD: u32 = 7;
const STRONGER_AUTH: u32 = 8;
const REFERRAL: u32 = 10;
const ADMIN_LIMIT: u32 = 11;
/// The server does not support a control that the request needs.
pub(super) const UNAVAILABLE_EXTENSION: u32 = 12;
const CONFIDENTIALITY: u32 = 13;
const NO_SUCH_ATTRIBUTE: u32 = 16;
const UNDEFINED_TYPE: u32 = 17;
const INVALID_SYNTAX: u32 = 21;
/// The entry does not exist.
pub(super) const NO_SUCH_OBJECT: u32 = 32;
const INAPPROPRIATE_AUTH: u32 = 48;
const INVALID_CREDENTIALS: u32 = 49;
const INSUFFICIENT_ACCESS: u32 = 50;
const BUSY: u32 = 51;
const UNAVAILABLE: u32 = 52;
/// The server refuses to perform the operation.
pub(super) const UNWILLING: u32 = 53;
const OBJECT_CLASS_VIOLATION: u32 = 65;
const NOT_ON_NON_LEAF: u32 = 66;
/// The entry exists already.
pub(super) const ALREADY_EXISTS: u32 = 68;
