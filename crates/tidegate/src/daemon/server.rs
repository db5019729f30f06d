//! The HTTP API on the control socket, and the metrics on loopback if asked for.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Path as InPath, RawQuery, Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::json;
use tokio::net::{TcpListener, UnixListener};

use super::{Daemon, Refusal, metrics};
use crate::api::{ClassChange, NewClass, Proposal, Question};
use crate::code::Code;
use crate::output::{Failure, versioned};

/// The control socket, held by this process alone.
pub(crate) struct Socket {
    listener: UnixListener,
    file: RemoveOnDrop,
    /// Held as long as the process lives: who holds it runs the gateway.
    _lock: File,
}

impl Socket {
    /// Opens the socket at `path`; one that a dead process left there is replaced, but nothing else.
    ///
    /// Must run within the runtime.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            let message = format!("cannot open the control socket {}: {error}", path.display());
            Failure::new(Code::NoSocket, message)
        };
        let lock = File::create(lock_path(path)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("a gateway runs already, with {}", path.display());
                return Err(Failure::new(Code::AlreadyRuns, message));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let file = RemoveOnDrop(path.to_owned());
        // Who may write to it may change the policies: nobody but the user it runs as.
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self { listener, file, _lock: lock })
    }
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Answers on `socket`, and on `metrics` if given, until dropped.
pub(crate) async fn serve(
    daemon: Arc<Daemon>,
    socket: Socket,
    metrics: Option<TcpListener>,
) -> io::Result<()> {
    let Socket { listener, file: _file, _lock } = socket;
    let scraped = async {
        match metrics {
            Some(listener) => axum::serve(listener, metrics_routes(daemon.clone())).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = axum::serve(listener, routes(daemon.clone())).into_future() => ended,
        ended = scraped => ended,
    }
}

/// A listener for metrics.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let failed = |error| {
        let help = "choose another address with --metrics".to_owned();
        let message = format!("cannot listen on {address}: {error}");
        Failure { help, ..Failure::new(Code::NoSocket, message) }
    };
    TcpListener::bind(address).await.map_err(failed)
}

struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn routes(daemon: Arc<Daemon>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/flows", get(flows))
        .route("/v1/classes", get(classes).post(add_class))
        .route("/v1/classes/{name}", patch(change_class).delete(remove_class))
        .route("/v1/trunks", get(trunks))
        .route("/v1/plan", post(plan))
        .route("/v1/apply", post(apply))
        .route("/v1/confirm", post(confirm))
        .route("/v1/explain", post(explain))
        .route("/metrics", get(scrape))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(daemon)
}

/// What is at no path, or not with that method.
async fn unknown(method: Method, uri: Uri) -> Response {
    bad_request(StatusCode::NOT_FOUND, format!("there is no {method} {}", uri.path()))
}

fn bad_request(status: StatusCode, message: String) -> Response {
    let error = Failure::input(Code::BadRequest, message);
    (status, Json(versioned(&json!({ "error": error })))).into_response()
}

/// A body in JSON; what is wrong with it is said like everything else.
struct Body<T>(T);

impl<S: Sync, T> FromRequest<S> for Body<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(wrong) => Err(bad_request(wrong.status(), wrong.body_text())),
        }
    }
}

fn metrics_routes(daemon: Arc<Daemon>) -> Router {
    Router::new().route("/metrics", get(scrape)).with_state(daemon)
}

type Shared = State<Arc<Daemon>>;

async fn status(State(daemon): Shared) -> Response {
    answer(daemon.status().await.map_err(Refusal::from))
}

/// Flows listed unless `?most=N` says otherwise.
const FLOWS: usize = 100;

async fn flows(State(daemon): Shared, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let most = query.split('&').find_map(|pair| pair.strip_prefix("most=")?.parse().ok());
    answer(daemon.flows(most.unwrap_or(FLOWS)).await.map_err(Refusal::from))
}

async fn classes(State(daemon): Shared) -> Response {
    answer(daemon.classes().await.map_err(Refusal::from))
}

async fn trunks(State(daemon): Shared) -> Response {
    answer(daemon.trunks().await.map_err(Refusal::from))
}

async fn change_class(
    State(daemon): Shared,
    InPath(name): InPath<String>,
    Body(change): Body<ClassChange>,
) -> Response {
    answer(daemon.change_class(name, &change).await)
}

async fn add_class(State(daemon): Shared, Body(new): Body<NewClass>) -> Response {
    answer(daemon.add_class(new).await)
}

async fn remove_class(State(daemon): Shared, InPath(name): InPath<String>) -> Response {
    answer(daemon.remove_class(name).await)
}

async fn plan(State(daemon): Shared, Body(proposal): Body<Proposal>) -> Response {
    answer(daemon.plan(&proposal).await)
}

async fn apply(State(daemon): Shared, Body(proposal): Body<Proposal>) -> Response {
    answer(daemon.apply(&proposal).await)
}

async fn confirm(State(daemon): Shared) -> Response {
    answer(daemon.confirm().await)
}

async fn explain(State(daemon): Shared, Body(question): Body<Question>) -> Response {
    answer(daemon.explain(&question).await)
}

async fn scrape(State(daemon): Shared) -> Response {
    let seen = async {
        let (status, classes) = (daemon.status().await?, daemon.classes().await?);
        Ok::<_, Failure>((status, classes.classes, daemon.trunks().await?.trunks))
    };
    match seen.await {
        Ok((status, classes, trunks)) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
            (kind, metrics::page(&status, &classes, &trunks)).into_response()
        }
        Err(failure) => refuse(&failure.into()),
    }
}

fn answer<T: Serialize>(result: Result<T, Refusal>) -> Response {
    match result {
        Ok(data) => Json(versioned(&data)).into_response(),
        Err(refusal) => refuse(&refusal),
    }
}

fn refuse(refusal: &Refusal) -> Response {
    let (status, body) = match refusal {
        Refusal::Findings(found) => {
            let body = json!({ "error": Failure::from(found), "findings": found.data() });
            (StatusCode::UNPROCESSABLE_ENTITY, body)
        }
        Refusal::Failure(failure) => {
            let status = match failure.code {
                Code::NoGateway => StatusCode::SERVICE_UNAVAILABLE,
                Code::Unconfirmed
                | Code::NothingToConfirm
                | Code::NeedsRestart
                | Code::ClassHolds => StatusCode::CONFLICT,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            (status, json!({ "error": failure }))
        }
    };
    (status, Json(versioned(&body))).into_response()
}
