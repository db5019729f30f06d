//! Tests slow and numerous client connections to the control socket. Time is virtual, so the speed
//! of this machine does not matter.

use std::io;

use axum::Json;
use axum::Router;
use axum::routing::{get, post};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::daemon::server::{Body, accept};

const GRACE: Duration = Duration::from_millis(20);
const IDLE: Duration = Duration::from_secs(10);

/// Size of a large answer in bytes: far more than the kernel buffers between two processes.
const LARGE: usize = 4 << 20;

/// A test server with the pages `/small` and `/large`, and `/taken`, which accepts a body.
struct Pages {
    folder: PathBuf,
    seats: Arc<Seats>,
    server: JoinHandle<()>,
}

impl Pages {
    fn start(limits: Limits) -> Self {
        let folder = folder();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let seats = Seats::new(limits);
        let routes = Router::new()
            .route("/small", get(async || "small"))
            .route("/large", get(async || "x".repeat(LARGE)))
            .route("/taken", post(async |Body(_): Body<Value>| Json(json!({}))));
        let of = seats.clone();
        let server = tokio::spawn(async move { accept(listener, &of, routes).await });
        Self { folder, seats, server }
    }

    /// Opens a connection and sends `request`.
    async fn sends(&self, request: &str) -> UnixStream {
        let stream = loop {
            match UnixStream::connect(self.folder.join("socket")).await {
                // The backlog of the listener is full, so the client tries again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep(Duration::from_millis(1)).await;
                }
                connected => break connected.unwrap(),
            }
        };
        let mut rest = request.as_bytes();
        while !rest.is_empty() {
            stream.writable().await.unwrap();
            match stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The gateway has closed the connection, perhaps after an answer.
                Err(_) => break,
            }
        }
        stream
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.server.abort();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn limits(connections: usize, bytes: usize) -> Limits {
    Limits { connections, bytes, grace: GRACE, idle: IDLE }
}

fn asks(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

/// Reads at most `most` bytes as soon as some arrive. Returns none if the connection is closed.
async fn some(stream: &UnixStream, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    loop {
        stream.readable().await.unwrap();
        match stream.try_read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => {
                bytes.truncate(read.unwrap_or(0));
                return bytes;
            }
        }
    }
}

/// Catches: a fixed time limit for an answer, which a slow but steady reader misses.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_its_whole_answer_and_one_that_stops_is_closed() {
    let pages = Pages::start(limits(8, 2 * LARGE));
    let begin = Instant::now();
    let stream = pages.sends(&asks("/large")).await;
    let mut read = 0;
    while read < LARGE {
        sleep(IDLE / 5).await;
        let more = some(&stream, 64 << 10).await.len();
        assert!(more > 0, "closed after {read} bytes and {:?}", begin.elapsed());
        read += more;
    }
    assert!(begin.elapsed() > 5 * IDLE, "{:?}", begin.elapsed());

    let stopped = pages.sends(&asks("/large")).await;
    sleep(IDLE / 2).await;
    assert_eq!(pages.seats.used().0, 2, "the reader, which is idle now, and the other");
    sleep(2 * IDLE).await;
    assert_eq!(pages.seats.used(), (0, 0));
    drop(stopped);
}

/// Catches: memory still counted for an answer that the client has received completely.
#[tokio::test(start_paused = true)]
async fn an_answer_counts_as_used_memory_only_until_it_is_sent() {
    let pages = Pages::start(limits(8, 2 * LARGE));
    let stream = pages.sends(&asks("/large")).await;
    let mut read = some(&stream, 1_000).await.len();
    assert_eq!(pages.seats.used(), (1, LARGE));
    while read < LARGE {
        read += some(&stream, LARGE).await.len();
    }
    sleep(GRACE).await;
    assert_eq!(pages.seats.used(), (1, 0));
    // Another connection sends two requests at once, whose answers are small.
    drop(stream);
    let stream = pages.sends(&(asks("/small") + &asks("/small"))).await;
    sleep(GRACE).await;
    let answers = String::from_utf8(some(&stream, 10_000).await).unwrap();
    assert_eq!(answers.matches("content-length: 5").count(), 2, "{answers}");
    assert_eq!(pages.seats.used(), (1, 0));
}

/// Catches: a connection that is closed while it waits for memory that other requests hold.
#[tokio::test(start_paused = true)]
async fn each_of_three_large_bodies_is_accepted_or_refused() {
    let most = 1 << 20;
    let pages = Arc::new(Pages::start(limits(8, most)));
    let body = format!("{:?}", "x".repeat(most * 3 / 5));
    let posts = [0; 3].map(|_| {
        let head = format!(
            "POST /taken HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let (pages, request) = (pages.clone(), head + &body);
        tokio::spawn(async move {
            let stream = pages.sends(&request).await;
            String::from_utf8(some(&stream, 10_000).await).unwrap()
        })
    });
    let mut taken = 0;
    for post in posts {
        let answer = timeout(IDLE, post).await.unwrap().unwrap();
        let ok = answer.starts_with("HTTP/1.1 200");
        assert!(ok || answer.contains(Code::Busy.name()), "reset: {answer:?}");
        taken += u32::from(ok);
    }
    assert!(taken > 0);
}

/// Two requests wait for each other's memory. The first is refused, and the second continues.
///
/// Catches: two requests that are both closed; two requests that wait for each other for ever.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_memory_is_not_closed_for_another_that_waits_too() {
    let seats = Seats::new(limits(8, 10));
    let [first, second] = [Arc::new(seats.take().await), Arc::new(seats.take().await)];
    first.hold(4).await.unwrap();
    second.hold(4).await.unwrap();
    let refused = tokio::spawn({
        let first = first.clone();
        async move {
            let held = first.hold(4).await;
            drop(first.answers(0));
            held.is_err()
        }
    });
    // The client of this request sends more every 10 ms, so it is not idle.
    for _ in 0..5 {
        sleep(GRACE / 2).await;
        second.moves();
    }
    let held = timeout(GRACE / 2, second.hold(4)).await;
    assert!(matches!(held, Ok(Ok(()))), "{held:?}");
    assert!(timeout(GRACE / 2, refused).await.unwrap().unwrap());
    assert!(timeout(2 * GRACE, first.ended()).await.is_err(), "closed though it only waited");
}

/// 1,100 silent connections to a process that may open 1,024 descriptors, the usual limit.
///
/// Catches: a seat that stays taken until its client closes the connection; a grace so long that
/// many connections block a new one.
#[tokio::test(start_paused = true)]
async fn a_request_is_answered_within_a_second_beside_1100_silent_connections() {
    for limits in [Limits::control(1_024), Limits::metrics(1_024)] {
        for start in ["", "GET /small HTTP/1.1\r\n"] {
            let pages = Pages::start(limits);
            let mut silent = Vec::new();
            for _ in 0..1_100 {
                silent.push(pages.sends(start).await);
            }
            let begin = Instant::now();
            let stream = pages.sends(&asks("/small")).await;
            let answer = timeout(IDLE, some(&stream, 1_000)).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{limits:?}");
            assert!(begin.elapsed() <= Duration::from_secs(1), "{:?}", begin.elapsed());
            assert!(pages.seats.used().0 <= limits.connections, "{:?}", pages.seats);
        }
    }
}
