//! HTTP/1.1 over TCP or TLS, for requests to a server of the etcd cluster (a *member*). Each answer
//! has limits of time and size.
//!
//! Source: RFC 9112, HTTP/1.1.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::access::tls_fault;
use crate::{Fault, FaultKind};

/// A member of the etcd cluster.
pub(super) struct Endpoint {
    /// The URL without a path, for messages.
    pub(super) url: String,
    host: String,
    port: u16,
    /// `host:port` of the URL, for the Host header.
    authority: HeaderValue,
    /// The name that the server's certificate must have; `None` without `https`.
    tls: Option<ServerName<'static>>,
}

impl Endpoint {
    /// The member at `url`.
    ///
    /// # Errors
    ///
    /// If it is not `http://host:port` or `https://host:port`.
    pub(super) fn new(url: &str) -> Result<Self, Fault> {
        let wrong = |what: &str| {
            let message = format!("`url` {url:?} {what}");
            Fault::new(FaultKind::Unusable, message)
                .help("write it like \"https://etcd.example.net:2379\"")
        };
        if url.contains('@') {
            let wrong = "`url` holds a user or a password";
            return Err(Fault::new(FaultKind::Unusable, wrong)
                .help("write them into `user` and `password_file`"));
        }
        let uri: Uri = url.parse().map_err(|_| wrong("is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
        if uri.path() != "/" && !uri.path().is_empty() || uri.query().is_some() {
            return Err(wrong("has a path"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => {
                Some(ServerName::try_from(host.clone()).map_err(|_| wrong("has a wrong host"))?)
            }
            _ => return Err(wrong("begins neither with http:// nor https://")),
        };
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            host,
            port: authority.port_u16().unwrap_or(CLIENT_PORT),
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| wrong("has a wrong host"))?,
            tls,
        })
    }

    /// Returns `true` if the member's URL begins with `https`.
    pub(super) fn is_https(&self) -> bool {
        self.tls.is_some()
    }

    /// Opens a connection. For `https`, it uses the TLS configuration `config`.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or trusted.
    pub(super) async fn connect(
        &self,
        config: Option<&Arc<ClientConfig>>,
    ) -> Result<Connection, Fault> {
        let stream = self
            .within(CONNECT, "a connection", TcpStream::connect((&*self.host, self.port)))
            .await?;
        let stream = stream.map_err(|error| self.fault(&error))?;
        // The result is ignored: each request is one write, so Nagle's algorithm could only delay
        // it.
        let _ = stream.set_nodelay(true);
        let (Some(name), Some(config)) = (&self.tls, config) else {
            return self.over(stream).await;
        };
        let handshake = TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream);
        let stream = self.within(CONNECT, "TLS", handshake).await?;
        self.over(stream.map_err(|error| self.fault(&error))?).await
    }

    async fn over(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Connection, Fault> {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, driver) = handshake.map_err(|error| self.fault(&error))?;
        // The result is ignored: the current request gets the same error.
        let driver = tokio::spawn(async move {
            let _ = driver.await;
        });
        Ok(Connection { sender, driver })
    }

    /// The result of `answer`, or a fault if `answer` takes longer than `limit`. The fault names
    /// the `step` that took too long.
    async fn within<T>(
        &self,
        limit: Duration,
        step: &str,
        answer: impl Future<Output = T> + Send,
    ) -> Result<T, Fault> {
        timeout(limit, answer).await.map_err(|_| self.late(step, limit))
    }

    fn late(&self, step: &str, limit: Duration) -> Fault {
        let message = format!("{} takes longer than {} s for {step}", self.url, limit.as_secs());
        Fault::new(FaultKind::Unreachable, message)
    }

    /// Translates the error of a failed connection.
    fn fault(&self, error: &(dyn Error + Send + Sync + 'static)) -> Fault {
        if let Some(fault) = tls_fault(error, &self.url) {
            return fault;
        }
        let parse = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        let kind = if parse { FaultKind::Protocol } else { FaultKind::Unreachable };
        let mut text = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            text = format!("{text}: {cause}");
            next = cause.source();
        }
        Fault::new(kind, format!("{} fails: {text}", self.url))
    }
}

/// One connection to a member. It carries one request at a time.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A response whose body is not read yet.
pub(super) struct Response<'a> {
    pub(super) status: StatusCode,
    body: Incoming,
    endpoint: &'a Endpoint,
    /// Time at which the client gives up on the answer.
    deadline: Instant,
}

impl Connection {
    /// Posts `json` to `path` and waits for the header of the response.
    ///
    /// # Errors
    ///
    /// If the connection fails or the answer takes too long.
    pub(super) async fn post<'a>(
        &mut self,
        endpoint: &'a Endpoint,
        path: &'static str,
        json: Vec<u8>,
        token: Option<&str>,
    ) -> Result<Response<'a>, Fault> {
        let deadline = Instant::now() + WHOLE_ANSWER;
        let mut request = Request::post(path)
            .header(HOST, endpoint.authority.clone())
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(token).map_err(|_| {
                Fault::new(
                    FaultKind::Protocol,
                    format!("{} gave a token that HTTP cannot carry", endpoint.url),
                )
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(Bytes::from(json))).map_err(|error| {
            Fault::new(FaultKind::Unusable, format!("no request to {}: {error}", endpoint.url))
        })?;
        endpoint
            .within(CONNECT, "a request", self.sender.ready())
            .await?
            .map_err(|error| endpoint.fault(&error))?;
        let answer =
            endpoint.within(ANSWER, "an answer", self.sender.send_request(request)).await?;
        let (head, body) = answer.map_err(|error| endpoint.fault(&error))?.into_parts();
        Ok(Response { status: head.status, body, endpoint, deadline })
    }
}

impl Response<'_> {
    /// The whole body, if it has at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`Unread::TooLong`] if the body exceeds the limit, otherwise [`Unread::Failed`] if the
    /// connection fails or sends nothing for too long.
    pub(super) async fn read(mut self, limit: usize) -> Result<Vec<u8>, Unread> {
        let mut all = Vec::new();
        loop {
            let until = self.deadline.min(Instant::now() + SILENCE);
            let frame = timeout_at(until, self.body.frame()).await;
            let frame = frame.map_err(|_| Unread::Failed(self.slow()))?;
            let Some(frame) = frame else { return Ok(all) };
            let frame = frame.map_err(|error| Unread::Failed(self.endpoint.fault(&error)))?;
            if let Some(data) = frame.data_ref() {
                if data.len() > limit.saturating_sub(all.len()) {
                    return Err(Unread::TooLong);
                }
                all.extend_from_slice(data);
            }
        }
    }

    fn slow(&self) -> Fault {
        if Instant::now() < self.deadline {
            return self.endpoint.late("the rest of an answer", SILENCE);
        }
        self.endpoint.late("a whole answer", WHOLE_ANSWER)
    }

    /// The next piece of an endless body; `None` at its end. Waits without a time limit.
    ///
    /// # Errors
    ///
    /// If the connection fails.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| self.endpoint.fault(&error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// Why a body could not be read.
pub(super) enum Unread {
    /// The body exceeds the limit.
    TooLong,
    /// The connection failed.
    Failed(Fault),
}

/// Default port of etcd for clients. Source: IANA, service `etcd-client`.
const CLIENT_PORT: u16 = 2379;

/// Time limit of a TCP connection attempt, and of a TLS handshake. A lost SYN is retransmitted
/// twice within this time (after 1 s and 3 s, RFC 6298).
const CONNECT: Duration = Duration::from_secs(4);

/// Time limit of a response header. Chosen: five elections of a leader in etcd, each with the
/// default timeout of 1 s.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Time limit of a pause within a response body. Chosen: the same as for the header.
const SILENCE: Duration = ANSWER;

/// Time limit of a whole response. Chosen: 64 MiB, encoded in base64, take 60 s at 12 Mbit/s.
const WHOLE_ANSWER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_consists_of_scheme_host_and_port() {
        let member = Endpoint::new("http://[::1]:23/").unwrap();
        assert_eq!((&*member.host, member.port, &*member.url), ("::1", 23, "http://[::1]:23"));
        assert_eq!(Endpoint::new("http://etcd").unwrap().port, CLIENT_PORT);
        for wrong in
            ["etcd:2379", "ftp://etcd", "http://etcd/v2", "http://etcd?a=b", "unix:///a", ""]
        {
            let fault = Endpoint::new(wrong).err().unwrap();
            assert_eq!(fault.kind, FaultKind::Unusable, "{wrong}");
        }
        let fault = Endpoint::new("http://root:hunter2@etcd").err().unwrap();
        assert!(!fault.to_string().contains("hunter2"), "{fault}");
    }
}
