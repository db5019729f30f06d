//! A session with an LDAP server: a connection on which the gateway has logged in.
//!
//! `ldaps://` uses TLS from the first byte. `ldap://` with a `ca` changes to TLS by the request
//! StartTLS, before any other request. A user logs in with a password. Without a user, the client's
//! certificate logs in (SASL EXTERNAL). Referrals to other servers are never followed.
//!
//! Source: RFC 4511, sections 4.2 and 4.14; RFC 4513; RFC 4422, appendix A (EXTERNAL).

use std::collections::HashSet;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ldap3::controls::RawControl;
use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapResult, Mod, Scope, SearchEntry, StdStream,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tidegate_config::source::Access;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use super::entry::Entry;
use super::fault;
use super::relay::{self, Gauge};
use crate::access::{self, Secret};
use crate::{Fault, FaultKind};

/// Addresses of the servers of a source, and the credentials for them.
pub(super) struct Servers {
    urls: Vec<Url>,
    tls: Option<Arc<ClientConfig>>,
    start_tls: bool,
    login: BindMethod,
    max_size: u64,
}

enum BindMethod {
    None,
    Password(String, Secret),
    External,
}

impl Servers {
    /// Reads the files that `access` names.
    pub(super) fn new(urls: &[String], access: &Access, max_size: u64) -> Result<Self, Fault> {
        let urls = urls.iter().map(|url| parse(url)).collect::<Result<Vec<_>, _>>()?;
        let secure = access.ca.is_some() || access.cert.is_some() || urls.iter().any(is_tls);
        let tls = if secure { Some(access::tls(access)?) } else { None };
        let login = match access::credentials(access)? {
            Some((user, password)) => BindMethod::Password(user, password),
            None if access.cert.is_some() => BindMethod::External,
            None => BindMethod::None,
        };
        if let (BindMethod::Password(..), None) = (&login, &tls) {
            for url in urls.iter().filter(|url| !is_local(url)) {
                tracing::warn!(%url, "the password crosses the network unprotected; use ldaps:// or `ca`");
            }
        }
        Ok(Self { urls, tls, start_tls: secure, login, max_size })
    }

    /// Opens a session with the first server that can be reached.
    pub(super) async fn connect(&self) -> Result<Session, Fault> {
        let mut last = Fault::new(FaultKind::Unusable, "the source has no `url`");
        for url in &self.urls {
            match self.open(url).await {
                Ok(session) => return Ok(session),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    async fn open(&self, url: &Url) -> Result<Session, Fault> {
        let name = url.as_str().trim_end_matches('/').to_owned();
        let host = url.host_str().unwrap_or("localhost").trim_matches(['[', ']']).to_owned();
        let default = if is_tls(url) { TLS_PORT } else { PORT };
        let port = url.port().unwrap_or(default);
        let stream = within(CONNECT, &name, async {
            TcpStream::connect((host.as_str(), port))
                .await
                .map_err(|error| fault::of_io(&error, &name))
        });
        let mut stream = stream.await?;
        let gauge = Gauge::new(self.max_size);
        let client = if is_tls(url) || self.start_tls {
            if !is_tls(url) {
                within(ANSWER, &name, start_tls(&mut stream, &name)).await?;
            }
            let secure = within(CONNECT, &name, self.secure(stream, &host, &name)).await?;
            relay::start(Box::pin(secure), name.clone(), gauge.clone())
        } else {
            relay::start(Box::pin(stream), name.clone(), gauge.clone())
        };
        let client = client.map_err(|error| fault::of_io(&error, &name))?;
        let settings = LdapConnSettings::new().set_std_stream(StdStream::Unix(client));
        let (connection, ldap) = LdapConnAsync::with_settings(settings, "ldapi:///")
            .await
            .map_err(|error| fault::of_error(&error, &name))?;
        tokio::spawn(async move {
            if let Err(error) = connection.drive().await {
                tracing::debug!(%error, "LDAP connection");
            }
        });
        let mut session = Session { ldap, name, gauge, context: None };
        session.log_in(&self.login).await?;
        Ok(session)
    }

    async fn secure(
        &self,
        stream: TcpStream,
        host: &str,
        name: &str,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Fault> {
        let invalid =
            || Fault::new(FaultKind::Unusable, format!("{name}: `{host}` is no name of a server"));
        let server = ServerName::try_from(host.to_owned()).map_err(|_| invalid())?;
        let config = self.tls.clone().ok_or_else(invalid)?;
        let connected = TlsConnector::from(config).connect(server, stream).await;
        connected.map_err(|error| fault::of_io(&error, name))
    }
}

/// Requests TLS on a plain connection.
async fn start_tls(stream: &mut TcpStream, name: &str) -> Result<(), Fault> {
    let io = |error: std::io::Error| fault::of_io(&error, name);
    stream.write_all(&START_TLS).await.map_err(io)?;
    let mut answer = vec![0; START_TLS_ANSWER];
    let mut filled = 0;
    // The response consists of the tag SEQUENCE, its length, the message number 1, and the result
    // code as the first element.
    while filled < 2 || filled < 2 + usize::from(answer[1] & SHORT_LENGTH) {
        let count = stream.read(&mut answer[filled..]).await.map_err(io)?;
        if count == 0 {
            return Err(fault::closed(name));
        }
        filled += count;
    }
    let refused = || {
        Fault::new(FaultKind::Untrusted, format!("{name} does not change to TLS"))
            .help("use an ldaps:// URL, or set up certificates on the server")
    };
    match answer.get(..10) {
        Some([0x30, _, 0x02, 0x01, 0x01, 0x78, _, 0x0a, 0x01, 0x00]) => Ok(()),
        _ => Err(refused()),
    }
}

fn parse(text: &str) -> Result<Url, Fault> {
    let wrong = |why: &str| Fault::new(FaultKind::Unusable, format!("`url` {text} {why}"));
    if text.contains('@') {
        let message = "`url` holds a user or a password";
        return Err(Fault::new(FaultKind::Unusable, message)
            .help("write them into `user` and `password_file`"));
    }
    let url = Url::parse(text).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
    if !["ldap", "ldaps"].contains(&url.scheme()) {
        return Err(wrong("does not begin with ldap:// or ldaps://"));
    }
    Ok(url)
}

/// Returns `true` if the URL names this host.
fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or("localhost").trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_tls(url: &Url) -> bool {
    url.scheme() == "ldaps"
}

/// Runs `work`, at most for `limit`.
pub(super) async fn within<T>(
    limit: Duration,
    server: &str,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(fault::silent(server)))
}

/// An open connection.
pub(super) struct Session {
    ldap: Ldap,
    /// The URL of the server.
    pub(super) name: String,
    gauge: Gauge,
    /// The entry that has the `contextCSN` of the database, once the entry was found.
    pub(super) context: Option<String>,
}

impl Session {
    async fn log_in(&mut self, login: &BindMethod) -> Result<(), Fault> {
        self.ldap.with_timeout(ANSWER);
        let result = match login {
            BindMethod::None => return Ok(()),
            BindMethod::Password(user, password) => {
                self.ldap.simple_bind(user, password.expose()).await
            }
            BindMethod::External => self.ldap.sasl_external_bind().await,
        };
        self.check(result, "login").map(drop)
    }

    /// The client, for one operation with the usual time limit.
    pub(super) fn ldap(&mut self) -> &mut Ldap {
        self.ldap.with_timeout(ANSWER)
    }

    /// The client, for an operation without a time limit.
    pub(super) fn ldap_without_limit(&mut self) -> &mut Ldap {
        &mut self.ldap
    }

    /// Resets the server's allowance of bytes.
    pub(super) fn refill(&self) {
        self.gauge.refill();
    }

    /// The fault for `error`. If the relay has closed the connection, returns the relay's reason
    /// instead.
    pub(super) fn fault(&self, error: &ldap3::LdapError) -> Fault {
        self.gauge.end().unwrap_or_else(|| fault::of_error(error, &self.name))
    }

    /// The result if it is a success, otherwise the fault of `operation`.
    pub(super) fn check(
        &self,
        result: ldap3::result::Result<LdapResult>,
        operation: &str,
    ) -> Result<LdapResult, Fault> {
        let result = result.map_err(|error| self.fault(&error))?;
        if result.rc == 0 {
            Ok(result)
        } else {
            Err(fault::of_result(&result, &format!("{}: {operation}", self.name)))
        }
    }

    /// Reads the entry `dn` with `attributes`; `None` if it does not exist.
    pub(super) async fn entry(
        &mut self,
        dn: &str,
        attributes: &[&str],
    ) -> Result<Option<Entry>, Fault> {
        let stream =
            self.ldap().streaming_search(dn, Scope::Base, ANYTHING, attributes.to_vec()).await;
        let mut stream = stream.map_err(|error| self.fault(&error))?;
        let mut found = None;
        while let Some(message) = stream.next().await.map_err(|error| self.fault(&error))? {
            if message.is_ref() || message.is_intermediate() {
                continue;
            }
            // More than one entry is refused. Otherwise a server could send an endless number of
            // entries, and the library would store them all.
            if found.replace(Entry::from(SearchEntry::construct(message))).is_some() {
                return Err(Fault::new(
                    FaultKind::Protocol,
                    format!("{}: several entries named {dn}", self.name),
                ));
            }
        }
        let result = stream.finish().await;
        if result.rc == fault::NO_SUCH_OBJECT {
            return Ok(None);
        }
        self.check(Ok(result), dn)?;
        Ok(found)
    }

    /// Subtracts the memory of one entry from the server's allowance of bytes.
    pub(super) fn take_entry(&self) -> Result<(), Fault> {
        self.gauge.take_entry()
    }

    /// Adds `entry`. If `keep` is set, an entry that already exists is left unchanged.
    pub(super) async fn add(&mut self, entry: &Entry, keep: bool) -> Result<(), Fault> {
        let attributes =
            entry.attributes.iter().map(|(name, values)| (name.clone().into_bytes(), set(values)));
        let result = self.ldap().add(&entry.dn, attributes.collect()).await;
        if keep && result.as_ref().is_ok_and(|result| result.rc == fault::ALREADY_EXISTS) {
            return Ok(());
        }
        self.written(result, &format!("add {}", entry.dn))
    }

    /// Changes the entry `dn`.
    pub(super) async fn modify(
        &mut self,
        dn: &str,
        changes: Vec<Mod<Vec<u8>>>,
    ) -> Result<(), Fault> {
        let result = self.ldap().modify(dn, changes).await;
        self.written(result, &format!("change {dn}"))
    }

    /// Checks the result of a write. If another program has removed the entry or its parent
    /// meanwhile, the fault says that the set is being changed.
    fn written(
        &self,
        result: ldap3::result::Result<LdapResult>,
        operation: &str,
    ) -> Result<(), Fault> {
        let removed = result.as_ref().is_ok_and(|result| result.rc == fault::NO_SUCH_OBJECT);
        let written = self.check(result, operation).map(drop);
        written.map_err(|fault| match removed {
            true => Fault::new(FaultKind::Unsteady, fault.message).help("push again"),
            false => fault,
        })
    }

    /// Removes the entry `dn`.
    pub(super) async fn delete(&mut self, dn: &str) -> Result<(), Fault> {
        let result = self.ldap().delete(dn).await;
        if result.as_ref().is_ok_and(|result| result.rc == fault::NO_SUCH_OBJECT) {
            return Ok(());
        }
        self.check(result, &format!("remove {dn}")).map(drop)
    }

    /// Ends the session.
    pub(super) async fn close(mut self) {
        // The result is ignored: the connection is closed even if the server does not get the
        // message.
        let _ = tokio::time::timeout(ANSWER, self.ldap.unbind()).await;
    }
}

/// Converts `values` to the type that the client library requires.
pub(super) fn set(values: &[Vec<u8>]) -> HashSet<Vec<u8>> {
    values.iter().cloned().collect()
}

/// Controls of a request.
pub(super) fn controls(list: impl IntoIterator<Item = RawControl>) -> Vec<RawControl> {
    list.into_iter().collect()
}

/// A search filter that matches every entry; RFC 4512, section 2.4.
pub(super) const ANYTHING: &str = "(objectClass=*)";

/// Time limit for a connection attempt, and for the TLS handshake. A lost SYN is sent again after 1
/// s; RFC 6298, section 2.
const CONNECT: Duration = Duration::from_secs(3);
/// Time limit for an answer, and between two entries of an answer. A server that reads 10,000
/// entries from a disk sends the first entry in less than a second.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Default ports; RFC 4516, section 2, and IANA for `ldaps`.
const PORT: u16 = 389;
const TLS_PORT: u16 = 636;

/// The StartTLS request, as message 1: an extended request with OID 1.3.6.1.4.1.1466.20037.
///
/// Source: RFC 4511, sections 4.12 and 4.14.1.
const START_TLS: [u8; 31] = *b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";
/// Maximum size of the answer to StartTLS, in bytes. The server sends nothing after it before TLS
/// begins.
const START_TLS_ANSWER: usize = 512;
/// The length in a BER length byte below 128; X.690, section 8.1.3.4.
const SHORT_LENGTH: u8 = 0x7f;

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a password accepted in a URL, which alarms and logs would show.
    #[test]
    fn a_url_has_no_password() {
        for url in ["ldap://cn=gw:hunter2@host", "ldap:// cn:hunter2@host", "http://a:hunter2@host"]
        {
            let fault = parse(url).unwrap_err();
            assert!(fault.message.contains("password"), "{fault}");
            assert!(!fault.to_string().contains("hunter2"), "{fault}");
        }
        parse("ldaps://host:636").unwrap();
    }
}
