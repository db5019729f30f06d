//! The HTTP API on the control socket, and the optional metrics port on loopback.

use std::convert::Infallible;
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::{self, Bytes, HttpBody};
use axum::extract::{FromRequest, Path as InPath, RawQuery, Request, State};
use axum::http::{HeaderName, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::serve::Listener;
use axum::{Extension, Json, Router};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::metered::Metered;
use super::seats::{Charge, Connection, Limits, Seats};
use super::{Daemon, Refusal, aside, metrics, whole};
use crate::api::{ClassChange, NewClass, OfSource, Proposal, Question};
use crate::code::Code;
use crate::files;
use crate::output::{Failure, versioned};

/// The control socket, locked against other gateways.
pub(crate) struct Socket {
    listener: UnixListener,
    file: RemoveOnDrop,
    /// The lock of this gateway, held until the process ends.
    _lock: File,
}

impl Socket {
    /// Opens the socket at `path`. Replaces a socket that a dead process left, but no other kind of
    /// file. Must be called within the async runtime.
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
        // A user who may write to the socket may change policies. So only the gateway's user may.
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self { listener, file, _lock: lock })
    }
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// The servers on the control socket and the optional metrics port.
pub(crate) struct ControlServers {
    daemon: Arc<Daemon>,
    socket: Socket,
    metrics: Option<TcpListener>,
    /// The connections of the control socket, and those of the metrics port.
    pub(super) seats: [Arc<Seats>; 2],
}

impl ControlServers {
    /// A server with two limits: of the control socket, and of the metrics port.
    pub(crate) fn new(
        daemon: Arc<Daemon>,
        socket: Socket,
        metrics: Option<TcpListener>,
        limits: [Limits; 2],
    ) -> Self {
        Self { daemon, socket, metrics, seats: limits.map(Seats::new) }
    }

    /// Serves requests until this future is dropped.
    pub(crate) async fn serve(self) {
        let Self { daemon, socket, metrics, seats } = self;
        let pages = metrics_routes(daemon.clone());
        serve(socket, metrics, &seats, routes(daemon), pages).await;
    }
}

/// Serves `routes` and `pages` on the control socket, and `pages` also on the metrics port.
/// `control` limits the connections of the control socket, and `scrapers` those of the metrics
/// port.
pub(crate) async fn serve(
    socket: Socket,
    metrics: Option<TcpListener>,
    [control, scrapers]: &[Arc<Seats>; 2],
    routes: Router,
    pages: Router,
) {
    let Socket { listener, file: _file, _lock } = socket;
    let routes = routes.merge(pages.clone());
    let scraped = async {
        match metrics {
            Some(listener) => accept(listener, scrapers, pages).await,
            None => std::future::pending().await,
        }
    };
    tokio::join!(accept(listener, control, routes), scraped);
}

/// Serves the connections of `listener`. Each connection first waits for a free seat: one of the
/// descriptors reserved for connections.
pub(super) async fn accept(mut listener: impl Listener, seats: &Arc<Seats>, routes: Router) {
    loop {
        // One accepted connection waits here for a seat. The others wait in the kernel's backlog.
        let (stream, _) = listener.accept().await;
        let connection = Arc::new(seats.take().await);
        let routes = routes.clone();
        tokio::spawn(async move {
            let stream = Metered::new(stream, connection.clone());
            tokio::select! {
                () = converse(stream, &connection, routes) => {}
                () = connection.ended() => {}
            }
        });
    }
}

/// Answers the requests of one connection, one after another.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: &Arc<Connection>,
    routes: Router,
) {
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        connection.works();
        request.extensions_mut().insert(connection.clone());
        let answer = routes.call(request);
        async move {
            let answer = answer.await?;
            let shared = answer.extensions().get::<SharedAnswer>().is_some();
            let bytes = if shared { 0 } else { answer.body().size_hint().lower() };
            let charge = connection.answers(usize::try_from(bytes).unwrap_or(usize::MAX));
            let charge = Arc::new(charge);
            let charged = move |bytes| Bytes::from_owner(ChargedAnswer(bytes, charge.clone()));
            let body = |body: body::Body| body.map_frame(move |frame| frame.map_data(&charged));
            Ok::<_, Infallible>(answer.map(body))
        }
    });
    // The result is ignored: the client of a broken connection cannot receive an error.
    let http =
        http1::Builder::new().max_buf_size(BUFFER).serve_connection(TokioIo::new(stream), service);
    let _ = http.await;
}

/// Size of a connection's read buffer, for the header of a request or a part of its body.
const BUFFER: usize = 64 << 10;

/// Marks an answer that several connections share. The memory of such an answer counts for none of
/// these connections.
#[derive(Clone, Copy)]
struct SharedAnswer;

/// The bytes of an answer. They count as used memory until they are sent.
struct ChargedAnswer(Bytes, #[expect(dead_code, reason = "held, and not used")] Arc<Charge>);

impl AsRef<[u8]> for ChargedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Opens the listener for metrics.
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
        .route("/v1/sources", get(sources))
        .route("/v1/sources/{name}/plan", post(plan_source))
        .route("/v1/sources/{name}/apply", post(apply_source))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(daemon)
}

/// The answer to a request with an unknown path or method.
pub(crate) async fn unknown(method: Method, uri: Uri) -> Response {
    bad_request(StatusCode::NOT_FOUND, format!("there is no {method} {}", uri.path()))
}

fn bad_request(status: StatusCode, message: String) -> Response {
    let error = Failure::input(Code::BadRequest, message);
    (status, Json(versioned(&json!({ "error": error })))).into_response()
}

/// A JSON body of at most [`files::MOST`] bytes. Its errors have the same form as all other errors.
pub(super) struct Body<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned + Send + 'static> FromRequest<S> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        if !kind.is_some_and(|it| it.starts_with("application/json")) {
            let message = "the body is not of the type application/json".to_owned();
            return Err(bad_request(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let bytes = collect(request).await?;
        let parsed = aside(move || Json::from_bytes(&bytes)).await;
        match parsed.map_err(|failure| refuse(&failure.into()))? {
            Ok(Json(body)) => Ok(Self(body)),
            Err(wrong) => Err(bad_request(wrong.status(), plain(&wrong.body_text()))),
        }
    }
}

/// The error in a JSON body, without the words that the parser puts around it.
fn plain(text: &str) -> String {
    let text = text.split_once("into the target type: ").map_or(text, |(_, error)| error);
    text.rsplit_once(" at line ").map_or(text, |(error, _)| error).to_owned()
}

/// Reads the whole body of `request` into memory.
async fn collect(request: Request) -> Result<Vec<u8>, Response> {
    let (parts, mut body) = request.into_parts();
    let connection = parts.extensions.get::<Arc<Connection>>();
    if usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX) > files::MOST {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    connection.inspect(|it| it.waits());
    loop {
        let Some(frame) = body.frame().await else { break };
        let broke_off = |error| bad_request(StatusCode::BAD_REQUEST, format!("{error}"));
        let Ok(data) = frame.map_err(broke_off)?.into_data() else { continue };
        if bytes.len() + data.len() > files::MOST {
            return Err(too_large());
        }
        if let Some(connection) = connection
            && connection.hold(data.len()).await.is_err()
        {
            let message = "requests in progress hold the memory that this one needs";
            return Err(refuse(&Failure::new(Code::Busy, message).into()));
        }
        bytes.extend_from_slice(&data);
    }
    connection.inspect(|it| it.works());
    Ok(bytes)
}

/// The answer to a request above the size limit.
fn too_large() -> Response {
    let message = format!("the request is larger than {} bytes", files::MOST);
    refuse(&Failure::input(Code::TooLarge, message).into())
}

fn metrics_routes(daemon: Arc<Daemon>) -> Router {
    let pages = Arc::new(Pages { daemon, newest: Mutex::default() });
    Router::new().route("/metrics", get(scrape)).with_state(pages)
}

type DaemonState = State<Arc<Daemon>>;

async fn status(State(daemon): DaemonState) -> Response {
    report(&daemon.looking, daemon.status()).await
}

/// Number of listed flows if the request has no `?most=N`.
const FLOWS: usize = 100;

async fn flows(State(daemon): DaemonState, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let most = query.split('&').find_map(|pair| pair.strip_prefix("most=")?.parse().ok());
    report(&daemon.listing, daemon.flows(most.unwrap_or(FLOWS))).await
}

async fn classes(State(daemon): DaemonState) -> Response {
    report(&daemon.listing, daemon.classes()).await
}

async fn trunks(State(daemon): DaemonState) -> Response {
    answer(daemon.trunks().await.map_err(Refusal::from))
}

async fn change_class(
    State(daemon): DaemonState,
    InPath(name): InPath<String>,
    Body(change): Body<ClassChange>,
) -> Response {
    answer(whole(async move { daemon.change_class(name, &change).await }).await)
}

async fn add_class(State(daemon): DaemonState, Body(new): Body<NewClass>) -> Response {
    answer(whole(async move { daemon.add_class(new).await }).await)
}

async fn remove_class(State(daemon): DaemonState, InPath(name): InPath<String>) -> Response {
    answer(whole(async move { daemon.remove_class(name).await }).await)
}

async fn plan(State(daemon): DaemonState, Body(proposal): Body<Proposal>) -> Response {
    answer(daemon.plan(proposal).await)
}

async fn apply(State(daemon): DaemonState, Body(proposal): Body<Proposal>) -> Response {
    if proposal.save {
        // The request is processed to its end even if the client disconnects, so the file is
        // written completely.
        return answer(whole(async move { daemon.apply(proposal).await }).await);
    }
    answer(daemon.apply(proposal).await)
}

async fn confirm(State(daemon): DaemonState) -> Response {
    answer(daemon.confirm().await)
}

async fn explain(State(daemon): DaemonState, Body(question): Body<Question>) -> Response {
    answer(daemon.explain(question).await)
}

async fn sources(State(daemon): DaemonState) -> Response {
    answer(Ok(daemon.sources().await))
}

async fn plan_source(State(daemon): DaemonState, InPath(name): InPath<String>) -> Response {
    answer(daemon.plan_source(&name).await)
}

async fn apply_source(
    State(daemon): DaemonState,
    InPath(name): InPath<String>,
    Body(how): Body<OfSource>,
) -> Response {
    answer(whole(async move { daemon.apply_source(&name, how.confirm_ms).await }).await)
}

/// Builds the metrics page from current values.
async fn page(daemon: &Daemon) -> Result<String, Failure> {
    let (status, classes) = (daemon.status().await?, daemon.classes().await?.classes);
    let (trunks, sources) = (daemon.trunks().await?.trunks, daemon.sources().await.sources);
    aside(move || metrics::page(&status, &classes, &trunks, &sources)).await
}

pub(crate) const PAGE: [(HeaderName, &str); 1] =
    [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];

/// The metrics page. All scrapers share it, and it is built at most once a second.
struct Pages {
    daemon: Arc<Daemon>,
    newest: Mutex<Option<Made>>,
}

struct Made {
    at: Instant,
    page: Arc<String>,
    /// The previous page, while it is still being sent.
    before: Weak<String>,
}

/// Minimum time between two builds of the page. Prometheus scrapes about every 15 s.
const PAGE_AGE: Duration = Duration::from_secs(1);

impl Pages {
    /// The newest page if it is less than a second old, otherwise a new page. No page is built
    /// while the previous page is still being sent, so at most two are in memory.
    async fn page(&self) -> Result<Arc<String>, Failure> {
        let mut newest = self.newest.lock().await;
        let mut before = Weak::new();
        if let Some(made) = &*newest {
            if made.at.elapsed() < PAGE_AGE || made.before.strong_count() > 0 {
                return Ok(made.page.clone());
            }
            before = Arc::downgrade(&made.page);
        }
        let page = Arc::new(page(&self.daemon).await?);
        *newest = Some(Made { at: Instant::now(), page: page.clone(), before });
        Ok(page)
    }
}

/// A page as the bytes of an answer.
struct Sent(Arc<String>);

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

async fn scrape(State(pages): State<Arc<Pages>>) -> Response {
    match pages.page().await {
        Ok(page) => (Extension(SharedAnswer), PAGE, Bytes::from_owner(Sent(page))).into_response(),
        Err(failure) => refuse(&failure.into()),
    }
}

/// Answers with a report that may need hundreds of megabytes. The lock `one_at_a_time` admits one
/// report at a time, which limits the memory. Another thread writes the JSON, so other requests are
/// not delayed.
async fn report<T: Serialize + Send + 'static>(
    one_at_a_time: &Mutex<()>,
    made: impl Future<Output = Result<T, Failure>>,
) -> Response {
    let _alone = one_at_a_time.lock().await;
    let written = match made.await {
        Ok(data) => aside(move || answer(Ok(data))).await,
        Err(failure) => Err(failure),
    };
    written.unwrap_or_else(|failure| refuse(&failure.into()))
}

pub(crate) fn answer<T: Serialize>(result: Result<T, Refusal>) -> Response {
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
                Code::NoGateway | Code::Busy => StatusCode::SERVICE_UNAVAILABLE,
                Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                Code::Unconfirmed
                | Code::NothingToConfirm
                | Code::NeedsRestart
                | Code::NotSaved
                | Code::ClassHolds => StatusCode::CONFLICT,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            (status, json!({ "error": failure }))
        }
    };
    (status, Json(versioned(&body))).into_response()
}
