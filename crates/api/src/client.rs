//! The client of the control socket of a running gateway.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::code::Code;
use crate::files;
use crate::output::Failure;

/// Sends GET `path` to the gateway at `socket`. Returns its answer.
///
/// # Errors
///
/// If no gateway answers, or the gateway refuses the request.
pub fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> anyhow::Result<T> {
    call(socket, Method::GET, path, Vec::new())
}

/// Sends POST `path` with `body`. Returns the answer.
///
/// # Errors
///
/// If no gateway answers, or the gateway refuses the request.
pub fn post<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    body: &impl Serialize,
) -> anyhow::Result<T> {
    call(socket, Method::POST, path, serde_json::to_vec(body)?)
}

/// Sends PATCH `path` with `body`. Returns the answer.
///
/// # Errors
///
/// If no gateway answers, or the gateway refuses the request.
pub fn patch<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    body: &impl Serialize,
) -> anyhow::Result<T> {
    call(socket, Method::PATCH, path, serde_json::to_vec(body)?)
}

/// Sends DELETE `path`. Returns the answer.
///
/// # Errors
///
/// If no gateway answers, or the gateway refuses the request.
pub fn delete<T: DeserializeOwned>(socket: &Path, path: &str) -> anyhow::Result<T> {
    call(socket, Method::DELETE, path, Vec::new())
}

/// Maximum wait for an answer. A running gateway answers `status` within milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends the request of the future `asked`, and waits for its answer. The gateway may take longer
/// than [`PATIENCE`], for example for a large policy file, as long as it answers `status` requests
/// meanwhile.
async fn wait(
    socket: &Path,
    asked: impl Future<Output = anyhow::Result<Bytes>>,
) -> anyhow::Result<Bytes> {
    let mut asked = pin!(asked);
    loop {
        if let Ok(answer) = timeout(PATIENCE, &mut asked).await {
            return answer;
        }
        let state = exchange(socket, Method::GET, "/v1/status", Vec::new());
        timeout(PATIENCE, state).await.map_err(|_| silent(socket))??;
    }
}

fn call<T: DeserializeOwned>(
    socket: &Path,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> anyhow::Result<T> {
    if body.len() > files::MOST {
        let message = format!("the request has {} bytes, and {} fit", body.len(), files::MOST);
        return Err(Failure::input(Code::TooLarge, message).into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(wait(socket, exchange(socket, method, path, body)))?;
    let unexpected = |error: serde_json::Error| {
        Failure::new(Code::UnexpectedAnswer, format!("cannot use the answer: {error}"))
    };
    let answer: Value = serde_json::from_slice(&answer).map_err(unexpected)?;
    if let Some(error) = answer.get("error") {
        return Err(refusal(error).into());
    }
    Ok(serde_json::from_value(answer).map_err(unexpected)?)
}

/// The failure to report for a refusal of the gateway. `error` is the JSON object in its answer.
fn refusal(error: &Value) -> Failure {
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    let code = Code::named(&text("code")).unwrap_or(Code::UnexpectedAnswer);
    let help = text("help");
    let failure = match code {
        Code::NoGateway
        | Code::NotSaved
        | Code::Unconfirmed
        | Code::NothingToConfirm
        | Code::UnexpectedAnswer => Failure::new(code, text("message")),
        _ => Failure::input(code, text("message")),
    };
    if help.is_empty() { failure } else { Failure { help, ..failure } }
}

async fn exchange(
    socket: &Path,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> anyhow::Result<Bytes> {
    let stream = UnixStream::connect(socket).await.map_err(|error| unreachable(socket, &error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "tidegate")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let ended = |error: hyper::Error| {
        let message = format!("the gateway at {} broke off: {error}", socket.display());
        Failure::new(Code::NoGateway, message)
    };
    let response = sender.send_request(request).await.map_err(ended)?;
    Ok(response.into_body().collect().await.map_err(ended)?.to_bytes())
}

fn unreachable(socket: &Path, error: &io::Error) -> Failure {
    let message = format!("no gateway answers at {}: {error}", socket.display());
    let failure = Failure::new(Code::NoGateway, message);
    match error.kind() {
        ErrorKind::PermissionDenied => Failure {
            help: "only the user who runs the gateway may ask it: as a rule, root".into(),
            ..failure
        },
        _ => failure,
    }
}

/// The failure for a gateway that does not answer.
fn silent(socket: &Path) -> Failure {
    let message = format!(
        "the gateway at {} has not answered for {} s",
        socket.display(),
        PATIENCE.as_secs()
    );
    let help = "see whether its process is stopped, or the host overloaded; restart it if it hangs";
    Failure { help: help.to_owned(), ..Failure::new(Code::NoGateway, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a request above the limit that is sent all the same.
    #[test]
    fn a_request_beyond_64_mib_is_refused_in_plain_words_before_it_is_sent() {
        let body = vec![b' '; files::MOST + 1];
        let refused = call::<Value>(Path::new("nowhere"), Method::POST, "/v1/apply", body);
        let failure = refused.unwrap_err().downcast::<Failure>().unwrap();
        assert_eq!(failure.code, Code::TooLarge);
        assert!(failure.message.contains("67108865 bytes, and 67108864 fit"), "{failure}");
        assert!(failure.help.contains("network"), "{failure}");
    }
}
