//! Calls of etcd's JSON gateway, with login tokens and error handling. A *member* is a server of
//! the etcd cluster.
//!
//! Source: etcd 3.4, `Documentation/dev-guide/api_grpc_gateway.md`; gRPC, `doc/statuscodes.md` (the
//! error codes).

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::credentials::{Credentials, Login};
use super::http::{Connection, Endpoint, Response, Unread};
use super::json::{AuthenticateRequest, Authenticated, ErrorBody};
use crate::{Fault, FaultKind};

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// etcd has no history at the requested revision: it was compacted, or the revision is still to
    /// come.
    NoHistory,
    /// The answer exceeds the limit that the caller gave.
    TooLong,
    /// The answer exceeds the limit of the server's own gateway.
    TooLongForServer,
    /// Anything else.
    Fault(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A connection to one member.
pub(super) struct Client<'a> {
    endpoint: &'a Endpoint,
    credentials: Arc<Credentials>,
    connection: Connection,
}

impl<'a> Client<'a> {
    /// Connects to a member.
    ///
    /// # Errors
    ///
    /// If it cannot be reached or trusted.
    pub(super) async fn connect(
        endpoint: &'a Endpoint,
        credentials: Arc<Credentials>,
    ) -> Result<Self, Fault> {
        let connection = endpoint.connect(credentials.tls.as_ref()).await?;
        Ok(Self { endpoint, credentials, connection })
    }

    /// Posts `request` to `path`. The answer may have at most `limit` bytes.
    ///
    /// If the server does not accept the token, the client logs in again, once.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub(super) async fn call<A: DeserializeOwned>(
        &mut self,
        path: &'static str,
        request: &(impl Serialize + Sync),
        limit: usize,
    ) -> Result<A, Failure> {
        let response = self.open(path, self.json(&[request])?).await?;
        let body = body(response, limit).await?;
        self.parse(path, &body)
    }

    /// Posts `requests` to `path` in one body, and returns the stream of answers.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub(super) async fn stream(
        &mut self,
        path: &'static str,
        requests: &[&(impl Serialize + Sync)],
    ) -> Result<Response<'a>, Failure> {
        let json = self.json(requests)?;
        self.open(path, json).await
    }

    fn json(&self, requests: &[&(impl Serialize + Sync)]) -> Result<Vec<u8>, Fault> {
        let mut json = Vec::new();
        for request in requests {
            serde_json::to_writer(&mut json, request).map_err(|error| {
                Fault::new(
                    FaultKind::Unusable,
                    format!("no request to {}: {error}", self.endpoint.url),
                )
            })?;
        }
        Ok(json)
    }

    /// The response to `json`, with status 200. If the server does not accept the token, the client
    /// logs in again, once.
    async fn open(&mut self, path: &'static str, json: Vec<u8>) -> Result<Response<'a>, Failure> {
        let credentials = Arc::clone(&self.credentials);
        let token = match &credentials.login {
            Some(login) => Some(match login.token() {
                Some(token) => token,
                None => self.authenticate(login).await?,
            }),
            None => None,
        };
        let response =
            self.connection.post(self.endpoint, path, json.clone(), token.as_deref()).await?;
        if response.status.is_success() {
            return Ok(response);
        }
        let error = self.error(path, response).await?;
        let Some(login) = credentials.login.as_ref().filter(|_| outdated(&error)) else {
            return Err(self.failure(&error));
        };
        login.keep(None);
        let token = self.authenticate(login).await?;
        let response = self.connection.post(self.endpoint, path, json, Some(&token)).await?;
        if response.status.is_success() {
            return Ok(response);
        }
        let error = self.error(path, response).await?;
        Err(self.failure(&error))
    }

    async fn authenticate(&mut self, login: &Login) -> Result<String, Failure> {
        let request = AuthenticateRequest { name: &login.user, password: login.password.expose() };
        let json = self.json(&[&request])?;
        let response = self.connection.post(self.endpoint, AUTHENTICATE, json, None).await?;
        if !response.status.is_success() {
            let error = self.error(AUTHENTICATE, response).await?;
            return Err(self.failure(&error));
        }
        let body = body(response, SMALL).await?;
        let answer: Authenticated = self.parse(AUTHENTICATE, &body)?;
        login.keep(Some(answer.token.clone()));
        Ok(answer.token)
    }

    fn parse<A: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<A, Failure> {
        serde_json::from_slice(body).map_err(|error| {
            // The error is not quoted, because its text may contain a part of the body, such as a
            // token.
            let place = format!("line {}, column {}", error.line(), error.column());
            let message = format!("{}{path} answers with wrong JSON ({place})", self.endpoint.url);
            Failure::Fault(Fault::new(FaultKind::Protocol, message))
        })
    }

    /// Reads the error in a response.
    async fn error(&self, path: &str, response: Response<'a>) -> Result<ErrorBody, Failure> {
        let status = response.status;
        let body = match body(response, SMALL).await {
            Err(Failure::TooLong) => Vec::new(),
            body => body?,
        };
        serde_json::from_slice(&body).map_err(|_| {
            let message =
                format!("{}{path} answers {status} without an error of etcd", self.endpoint.url);
            Failure::Fault(Fault::new(FaultKind::Protocol, message))
        })
    }

    /// Translates an error of etcd.
    pub(super) fn failure(&self, error: &ErrorBody) -> Failure {
        let has = |part: &str| error.message.contains(part);
        match error.code {
            OUT_OF_RANGE => return Failure::NoHistory,
            RESOURCE_EXHAUSTED if has("larger than max") => return Failure::TooLongForServer,
            _ => {}
        }
        let kind = match error.code {
            UNAUTHENTICATED | PERMISSION_DENIED => FaultKind::Refused,
            FAILED_PRECONDITION if has("authentication is not enabled") => FaultKind::Refused,
            INVALID_ARGUMENT if has("authentication failed") || has("user name is empty") => {
                FaultKind::Refused
            }
            INVALID_ARGUMENT if has("too large") => FaultKind::TooLarge,
            RESOURCE_EXHAUSTED if has("space") => FaultKind::Unusable,
            DEADLINE_EXCEEDED | RESOURCE_EXHAUSTED | UNAVAILABLE => FaultKind::Unreachable,
            _ => FaultKind::Protocol,
        };
        let fault = Fault::new(
            kind,
            format!("{} answers \"{}\"", self.endpoint.url, self.clean(&error.message)),
        );
        Failure::Fault(if has("authentication is not enabled") {
            fault.help("remove `user` and `password_file`, or enable authentication in etcd")
        } else if has("user name is empty") {
            fault.help("set `user` and `password_file`: this server wants them even with a client certificate")
        } else if has("request is too large") {
            fault.help("make the policy smaller, or raise --max-request-bytes of the server")
        } else if has("space") {
            fault.help(
                "compact and defragment the server's database, or raise --quota-backend-bytes",
            )
        } else {
            fault
        })
    }

    /// Makes a server's text fit for messages: short, printable, and without the password and the
    /// token.
    fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(login) = &self.credentials.login {
            let token = login.token();
            for secret in [Some(login.password.expose()), token.as_deref()].into_iter().flatten() {
                text = text.replace(secret, "***");
            }
        }
        text.chars().filter(|c| !c.is_control()).take(LONGEST_MESSAGE).collect()
    }

    /// The fault of a server that violates the protocol. `violation` follows the URL in the message.
    pub(super) fn protocol(&self, violation: &str) -> Fault {
        Fault::new(FaultKind::Protocol, format!("{} {violation}", self.endpoint.url))
    }

    /// The fault of a member that does not answer requests. `reason` follows the URL in the message.
    pub(super) fn unreachable(&self, reason: &str) -> Fault {
        Fault::new(FaultKind::Unreachable, format!("{} {reason}", self.endpoint.url))
    }
}

async fn body(response: Response<'_>, limit: usize) -> Result<Vec<u8>, Failure> {
    response.read(limit).await.map_err(|unread| match unread {
        Unread::TooLong => Failure::TooLong,
        Unread::Failed(fault) => Failure::Fault(fault),
    })
}

/// Returns `true` if the request may succeed with a new token.
fn outdated(error: &ErrorBody) -> bool {
    error.code == UNAUTHENTICATED || error.message.contains("revision of auth store is old")
}

/// URL path of a login, which exchanges a password for a token.
const AUTHENTICATE: &str = "/v3/auth/authenticate";

/// Maximum size of an answer without keys and values (headers, tokens, errors), in bytes. A token
/// (JWT) has up to 8 KiB in practice.
pub(super) const SMALL: usize = 64 * 1024;

/// Number of characters of a server's message that are shown. Chosen: three lines of a terminal.
const LONGEST_MESSAGE: usize = 240;

// Source: gRPC, doc/statuscodes.md.
const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const FAILED_PRECONDITION: u32 = 9;
const OUT_OF_RANGE: u32 = 11;
const UNAVAILABLE: u32 = 14;
const UNAUTHENTICATED: u32 = 16;
