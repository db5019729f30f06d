//! Compiles the sources of a policy file, and reports fields with which a source cannot work.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::Bytes;
use toml::Spanned;

use super::compile::usable_name;
use super::raw;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};
use crate::read::{Array, List};
use crate::source::{Access, SourceKind, SourceSpec};
use crate::values::{Period, number};

/// Default prefix of the keys of an etcd source.
const PREFIX: &str = "/tidegate/";

/// Range of poll intervals. The shortest one sends ten requests a second to a server.
const POLL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);

/// Default poll interval.
const USUAL_POLL: Duration = Duration::from_secs(1);

/// Range of size limits. The gateway keeps up to two sets of each source in memory.
const SIZE: RangeInclusive<u64> = 1_000..=1_000_000_000;

/// Default size limit of a source: about a million policies, as for a policy file.
const USUAL_SIZE: u64 = 64 << 20;

/// Default limit on the number of items of a source.
const USUAL_POLICIES: u32 = 100_000;

/// Compiles the sources in the file. Leaves out sources with errors.
pub(super) fn compile(
    written: Option<&Spanned<Array<raw::Source>>>,
    found: &mut Findings,
) -> Vec<SourceSpec> {
    let written = written.map_or(&[][..], |sources| &sources.get_ref().0);
    let mut sources: Vec<(&Spanned<raw::Source>, SourceSpec)> = Vec::new();
    for raw in written {
        let Some(source) = source(raw, found) else { continue };
        if let Some((earlier, _)) = sources.iter().find(|(_, it)| it.name == source.name) {
            let message = format!("two sources are named `{}`", source.name);
            let twice = Diagnostic::error(Code::DuplicateName, raw.span(), message);
            found.push(twice.other(earlier.span(), "the first one"));
        }
        sources.push((raw, source));
    }
    sources.into_iter().map(|(_, source)| source).collect()
}

fn source(raw: &Spanned<raw::Source>, found: &mut Findings) -> Option<SourceSpec> {
    let it = raw.get_ref();
    let name = it.name.get().and_then(|name| usable_name(name, "source", found));
    let kind = it.kind.get().map(|kind| *kind.get_ref());
    let place = kind.and_then(|kind| place(raw, kind, found));
    let access = access(it, found);
    let poll = poll(it.poll.as_ref(), found);
    let max_size = max_size(it.max_size.as_ref(), found);
    let max_policies = it.max_policies.as_ref();
    let max_policies = max_policies.map_or(Some(USUAL_POLICIES), |written| {
        number(written, "max_policies", 1..=1_000_000, found)
    });
    Some(SourceSpec {
        name: name?,
        kind: place?,
        access: access?,
        roles: texts(it.roles.as_ref()),
        apply: it.apply.as_ref().map(|it| *it.get_ref()).unwrap_or_default(),
        commit: it.commit.as_ref().map(|it| *it.get_ref()).unwrap_or_default(),
        poll: poll?,
        max_size: max_size?,
        max_policies: usize::try_from(max_policies?).ok()?,
    })
}

/// Fields that a source may lack.
const MAY_LACK: &[&str] = &["prefix", "user"];

/// The repository of a source. Reports missing fields, and fields that belong to other kinds of
/// sources.
fn place(
    raw: &Spanned<raw::Source>,
    kind: raw::WrittenKind,
    found: &mut Findings,
) -> Option<SourceKind> {
    let it = raw.get_ref();
    let (path, url, base) = (it.path.as_ref(), it.url.as_ref(), it.base.as_ref());
    let prefix = it.prefix.as_ref();
    let (is, wants): (&str, &[&str]) = match kind {
        raw::WrittenKind::Directory => ("directory", &["path"]),
        raw::WrittenKind::Etcd => ("etcd", &["url", "prefix", "user"]),
        raw::WrittenKind::Ldap => ("ldap", &["url", "base", "user"]),
    };
    let written = [
        ("path", path.map(Spanned::span)),
        ("url", url.map(Spanned::span)),
        ("base", base.map(Spanned::span)),
        ("prefix", prefix.map(Spanned::span)),
        ("user", it.user.as_ref().map(Spanned::span)),
    ];
    for (field, span) in written {
        match span {
            Some(span) if !wants.contains(&field) => {
                let message = format!("a source of kind \"{is}\" has no `{field}`");
                let help = format!("remove it; \"{is}\" has {}", wants.join(", "));
                found.push(Diagnostic::error(Code::BadSource, span, message).help(help));
            }
            None if wants.contains(&field) && !MAY_LACK.contains(&field) => {
                let message = format!("a source of kind \"{is}\" needs `{field}`");
                let help = format!("add {field} = {}", example(kind, field));
                found.push(Diagnostic::error(Code::BadSource, raw.span(), message).help(help));
            }
            _ => {}
        }
    }
    match kind {
        raw::WrittenKind::Directory => {
            Some(SourceKind::Directory { path: whole_path(path?, "path", found)? })
        }
        raw::WrittenKind::Etcd => {
            let prefix = prefix.map_or_else(|| PREFIX.to_owned(), |it| it.get_ref().clone());
            Some(SourceKind::Etcd {
                urls: urls(&raw.span(), url?, &["http://", "https://"], found)?,
                prefix,
            })
        }
        raw::WrittenKind::Ldap => {
            let urls = urls(&raw.span(), url?, &["ldap://", "ldaps://"], found)?;
            Some(SourceKind::Ldap { urls, base: base?.get_ref().clone() })
        }
    }
}

/// An example value for a missing field.
const fn example(kind: raw::WrittenKind, field: &str) -> &'static str {
    match (kind, field.as_bytes()) {
        (_, b"path") => "\"/etc/tidegate/policies.d\"",
        (raw::WrittenKind::Etcd, _) => "\"https://etcd.example.net:2379\"",
        (_, b"base") => "\"ou=tidegate,dc=example,dc=net\"",
        _ => "\"ldaps://ldap.example.net\"",
    }
}

fn urls(
    source: &Span,
    written: &Spanned<List<String>>,
    schemes: &[&str],
    found: &mut Findings,
) -> Option<Vec<String>> {
    let mut right = true;
    for url in &written.get_ref().0 {
        let text = url.get_ref();
        let host = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
        // A URL with `@` may contain a password, so the message must not show it.
        let span = if text.contains('@') { source.clone() } else { url.span() };
        let problem = match host {
            None => format!("begin it with {}", schemes.join(" or ")),
            Some(host) if host.contains('@') => {
                "write `user` and `password_file` in place of a user in `url`".to_owned()
            }
            Some(host) if host.is_empty() || host.contains(char::is_whitespace) => {
                "write the host, and a port if it is not the usual one".to_owned()
            }
            Some(_) => continue,
        };
        right = false;
        let message = "this URL does not fit the kind of source";
        found.push(Diagnostic::error(Code::BadSource, span, message).help(problem));
    }
    right.then(|| texts(Some(written)))
}

fn access(raw: &raw::Source, found: &mut Findings) -> Option<Access> {
    pair(raw.user.as_ref(), "user", raw.password_file.as_ref(), "password_file", found);
    pair(raw.cert.as_ref(), "cert", raw.key.as_ref(), "key", found);
    let mut file = |written: Option<&Spanned<String>>, name| match written {
        None => Some(None),
        Some(written) => whole_path(written, name, found).map(Some),
    };
    let password_file = file(raw.password_file.as_ref(), "password_file");
    let ca = file(raw.ca.as_ref(), "ca");
    let (cert, key) = (file(raw.cert.as_ref(), "cert"), file(raw.key.as_ref(), "key"));
    let user = raw.user.as_ref().map(|user| user.get_ref().clone());
    Some(Access { user, password_file: password_file?, ca: ca?, cert: cert?, key: key? })
}

/// Reports the first field of a pair if the file has only the second.
fn pair(
    one: Option<&Spanned<String>>,
    its_name: &str,
    other: Option<&Spanned<String>>,
    other_name: &str,
    found: &mut Findings,
) {
    let (there, name, missing) = match (one, other) {
        (Some(there), None) => (there, its_name, other_name),
        (None, Some(there)) => (there, other_name, its_name),
        _ => return,
    };
    let message = format!("`{name}` needs `{missing}` beside it");
    let help = format!("add `{missing}`, or remove `{name}`");
    found.push(Diagnostic::error(Code::BadSource, there.span(), message).help(help));
}

fn whole_path(written: &Spanned<String>, name: &str, found: &mut Findings) -> Option<PathBuf> {
    if written.get_ref().starts_with('/') {
        return Some(PathBuf::from(written.get_ref()));
    }
    let message = format!("`{name}` is not an absolute path");
    let help = "begin the path with /: the gateway may have another working directory";
    found.push(Diagnostic::error(Code::BadSource, written.span(), message).help(help));
    None
}

fn poll(written: Option<&Spanned<Period>>, found: &mut Findings) -> Option<Duration> {
    let Some(written) = written else { return Some(USUAL_POLL) };
    let Period(span) = *written.get_ref();
    if POLL.contains(&span) {
        return Some(span);
    }
    let message = "this is out of range for `poll`";
    let help = "it goes from 100 ms to 1 h";
    found.push(Diagnostic::error(Code::OutOfRange, written.span(), message).help(help));
    None
}

fn max_size(written: Option<&Spanned<Bytes>>, found: &mut Findings) -> Option<Bytes> {
    let Some(written) = written else { return Some(Bytes(USUAL_SIZE)) };
    if SIZE.contains(&written.get_ref().0) {
        return Some(*written.get_ref());
    }
    let message = "this is out of range for `max_size`";
    let help = "it goes from 1 kB to 1 GB";
    found.push(Diagnostic::error(Code::OutOfRange, written.span(), message).help(help));
    None
}

/// The strings of a list; no strings if there is no list.
pub(super) fn texts(list: Option<&Spanned<List<String>>>) -> Vec<String> {
    list.iter().flat_map(|list| &list.get_ref().0).map(|text| text.get_ref().clone()).collect()
}
