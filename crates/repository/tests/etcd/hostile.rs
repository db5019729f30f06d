//! Tests etcd servers that are slow, silent, wrong or endless. Time and memory for their answers
//! must stay within limits. A *marker*, the key that is written last, commits each set of policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_core::Bytes;
use tidegate_repository::{FaultKind, open};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::real::{Etcd, call};
use crate::testing::{fault, held, next, next_snapshot, policy, source, spec};

/// A proxy in front of a server on loopback. It cuts each of its first `cuts` connections after
/// `up` bytes to the server or `down` bytes to the client, whichever comes first.
async fn proxy(port: u16, up: usize, down: usize, cuts: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for number in 0.. {
            let (client, _) = listener.accept().await.unwrap();
            let (up, down) = if number < cuts { (up, down) } else { (usize::MAX, usize::MAX) };
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::select! {
                    () = copy(&mut from_client, &mut to_server, up) => {}
                    () = copy(&mut from_server, &mut to_client, down) => {}
                }
            });
        }
    });
    url
}

/// A proxy that cuts every connection.
pub(crate) async fn cutting_proxy(port: u16, up: usize, down: usize) -> String {
    proxy(port, up, down, usize::MAX).await
}

/// A proxy that deletes a key before it forwards the first connection.
pub(crate) async fn deleting_proxy(port: u16, key: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        call(port, "/v3/kv/deleterange", "", json!({ "key": STANDARD.encode(key) })).await;
        let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    url
}

async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut limit: usize,
) {
    let mut buffer = [0; 4096];
    while limit > 0 {
        let room = limit.min(buffer.len());
        let Ok(count) = from.read(&mut buffer[..room]).await else { return };
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        limit -= count;
    }
}

/// The answers of a fake server.
enum Reply {
    /// A whole answer with this status and body.
    Whole(u16, String),
    /// An endless answer: the header and the first bytes, then the second bytes again and again,
    /// with this pause in between.
    Endless(Vec<u8>, Vec<u8>, Duration),
    /// The header of an endless answer and these bytes, then nothing more.
    Stalled(Vec<u8>),
    /// These bytes instead of HTTP, then the end of the connection.
    Raw(Vec<u8>),
    /// No answer at all.
    Silence,
}

/// A fake server. `reply` computes each answer from the path, the request, and the number of
/// earlier requests.
struct False {
    url: String,
    sent: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl False {
    async fn start(reply: impl Fn(&str, &Value, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sent, asked) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (counted, numbered, reply) = (Arc::clone(&sent), Arc::clone(&asked), Arc::new(reply));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (sent, asked, reply) =
                    (Arc::clone(&counted), Arc::clone(&numbered), Arc::clone(&reply));
                tokio::spawn(async move {
                    // The result is ignored: the client may close the connection at any time.
                    let _ = serve(stream, &*reply, &sent, &asked).await;
                });
            }
        });
        Self { url, sent, asked }
    }
}

async fn serve(
    stream: TcpStream,
    reply: &(impl Fn(&str, &Value, usize) -> Reply + Sync),
    sent: &AtomicUsize,
    asked: &AtomicUsize,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let length = head.to_lowercase();
        let length =
            length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).await?;
        let request =
            serde_json::Deserializer::from_slice(&body).into_iter().next().unwrap().unwrap();
        let path = head.split(' ').nth(1).unwrap();
        let endless = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
        match reply(path, &request, asked.fetch_add(1, Ordering::Relaxed)) {
            Reply::Whole(status, text) => {
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", text.len());
                stream.write_all((head + &text).as_bytes()).await?;
            }
            Reply::Endless(first, again, pause) => {
                stream.write_all(&[endless, first].concat()).await?;
                loop {
                    stream.write_all(&again).await?;
                    sent.fetch_add(again.len(), Ordering::Relaxed);
                    sleep(pause).await;
                }
            }
            Reply::Stalled(first) => {
                stream.write_all(&[endless, first].concat()).await?;
                std::future::pending::<()>().await;
            }
            Reply::Raw(bytes) => return stream.write_all(&bytes).await,
            Reply::Silence => std::future::pending().await,
        }
    }
}

/// The answer of a store at revision `revision`. It holds only the marker, which was last changed
/// at revision `marker`.
fn only_marker(request: &Value, revision: u64, marker: u64) -> Reply {
    let bytes = |field: &str| STANDARD.decode(request[field].as_str().unwrap()).unwrap();
    let (from, end) = (bytes("key"), bytes("range_end"));
    let marker_key = b"/t/commit".to_vec();
    let has = from <= marker_key && (end.is_empty() || marker_key < end);
    let key = json!({ "key": STANDARD.encode("/t/commit"), "value": "", "mod_revision": marker.to_string() });
    let kvs = if has { vec![key] } else { Vec::new() };
    let answer = json!({ "header": { "revision": revision.to_string() }, "kvs": kvs });
    Reply::Whole(200, answer.to_string())
}

fn whole(status: u16, text: &str) -> Reply {
    Reply::Whole(status, text.to_owned())
}

fn line(result: Value) -> Vec<u8> {
    format!("{}\n", json!({ "result": result })).into_bytes()
}

/// The server may send somewhat more than `max_size`, because of base64 (4/3) and the buffers of
/// sockets.
///
/// Catches: a size limit that is checked only after the whole answer.
#[tokio::test]
async fn an_endless_answer_is_cut_off_at_max_size() {
    let server = False::start(|_, request, _| match request["range_end"].as_str() {
        Some("") => only_marker(request, 9, 5),
        _ => Reply::Endless(b"{\"kvs\":[".to_vec(), vec![b' '; 65536], Duration::ZERO),
    })
    .await;
    let mut spec = spec(&[server.url]);
    spec.max_size = Bytes(4 << 20);
    fault(open(&spec).unwrap().pull().await, FaultKind::TooLarge);
    let sent = server.sent.load(Ordering::Relaxed);
    assert!((4 << 20..20 << 20).contains(&sent), "{sent} B");
}

/// Time is virtual.
///
/// Catches: a connection that is used again although a part of the last answer is unread. The same
/// set is then read a second time.
#[tokio::test(start_paused = true)]
async fn a_set_beyond_max_size_is_read_once_for_each_commit() {
    let reads = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&reads);
    let server = False::start(move |path, request, _| match request["range_end"].as_str() {
        _ if path == "/v3/watch" => Reply::Stalled(line(json!({ "created": true }))),
        Some("") => only_marker(request, 9, 5),
        _ => {
            counted.fetch_add(1, Ordering::Relaxed);
            Reply::Endless(b"{\"kvs\":[".to_vec(), vec![b' '; 65536], Duration::ZERO)
        }
    })
    .await;
    let mut spec = spec(&[server.url]);
    spec.max_size = Bytes(1 << 20);
    let mut watch = open(&spec).unwrap().watch();
    fault(next(&mut watch).await, FaultKind::TooLarge);
    assert!(timeout(Duration::from_secs(60), watch.recv()).await.is_err());
    assert_eq!(reads.load(Ordering::Relaxed), 1);
}

/// Time is virtual.
///
/// Catches: a watch that waits until no further marker follows, and so never reads the set.
#[tokio::test(start_paused = true)]
async fn a_set_is_read_after_a_second_even_if_markers_never_pause() {
    let server = False::start(|path, request, n| match path {
        "/v3/watch" => {
            let marker = line(json!({ "events": [{ "kv": { "mod_revision": "15" } }] }));
            Reply::Endless(line(json!({ "created": true })), marker, Duration::from_millis(100))
        }
        _ => only_marker(request, 20, if n < 5 { 5 } else { 15 }),
    })
    .await;
    let mut watch = source(&server.url).watch();
    let began = Instant::now();
    assert!(next(&mut watch).await.unwrap().revision.starts_with("5-"));
    assert!(next(&mut watch).await.unwrap().revision.starts_with("15-"));
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
}

/// Catches: a size limit that applies only to the bytes of the answer, which are more than the
/// bytes of the keys and values in it.
#[tokio::test]
async fn max_size_limits_the_keys_and_values_in_an_answer() {
    let value = STANDARD.encode(vec![b'#'; 1 << 20]);
    let server = False::start(move |_, request, _| {
        if request["range_end"] == "" {
            return only_marker(request, 9, 5);
        }
        let entry = |n: usize| {
            let key = STANDARD.encode(format!("/t/policy/{n:02}"));
            format!("{{\"key\":\"{key}\",\"value\":\"{value}\",\"mod_revision\":\"3\"}}")
        };
        let entries: Vec<_> = (0..64).map(entry).collect();
        Reply::Whole(
            200,
            format!("{{\"header\":{{\"revision\":\"9\"}},\"kvs\":[{}]}}", entries.join(",")),
        )
    })
    .await;
    let mut spec = spec(&[server.url]);
    spec.max_size = Bytes(63 << 20);
    fault(open(&spec).unwrap().pull().await, FaultKind::TooLarge);
}

/// Catches: a reader that requests pages without end; a reader that accepts keys in a wrong order.
#[tokio::test]
async fn an_endless_number_of_pages_is_cut_off() {
    for same in [true, false] {
        let server = False::start(move |_, request, n| {
            let key = match (request["range_end"].as_str(), same) {
                (Some(""), _) => return only_marker(request, 9, 5),
                (_, true) => "/t/policy/a".to_owned(),
                (_, false) => format!("/t/policy/{n:09}"),
            };
            let kvs = [json!({ "key": STANDARD.encode(key), "mod_revision": "3" })];
            let answer = json!({ "header": { "revision": "9" }, "kvs": kvs, "more": true });
            Reply::Whole(200, answer.to_string())
        })
        .await;
        let mut spec = spec(&[server.url]);
        spec.max_policies = 50;
        let kind = if same { FaultKind::Protocol } else { FaultKind::TooLarge };
        fault(open(&spec).unwrap().pull().await, kind);
        assert!(server.asked.load(Ordering::Relaxed) < 60);
    }
}

#[tokio::test]
async fn answers_of_other_servers_are_protocol_faults() {
    let answers: [fn() -> Reply; 8] = [
        || Reply::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        || whole(200, "<html>It works!</html>"),
        || whole(404, "Not Found"),
        || whole(200, r#"{"header":{"revision":"9"},"kvs":5}"#),
        || whole(200, r#"{"header":{"revision":"-1"}}"#),
        || whole(200, r#"{"header":{"revision":"9"},"kvs":[{"key":"not base64!"}]}"#),
        || whole(302, ""),
        || whole(500, r#"{"code":13,"message":"panic"}"#),
    ];
    for answer in answers {
        let server = False::start(move |_, _, _| answer()).await;
        fault(source(&server.url).pull().await, FaultKind::Protocol);
    }
}

/// Time is virtual.
///
/// Catches: a missing time limit for the header, for a pause, or for the whole answer.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_or_slow_is_unreachable() {
    let answers: [(fn() -> Reply, u64); 3] = [
        (|| Reply::Silence, 6),
        (|| Reply::Stalled(b"{".to_vec()), 6),
        (|| Reply::Endless(b"{".to_vec(), b" ".to_vec(), Duration::from_secs(1)), 61),
    ];
    for (answer, limit) in answers {
        let server = False::start(move |_, _, _| answer()).await;
        let began = Instant::now();
        fault(source(&server.url).pull().await, FaultKind::Unreachable);
        assert!(began.elapsed() <= Duration::from_secs(limit), "{:?}", began.elapsed());
    }
}

/// Catches: a message that contains the server's text, with the password in it.
#[tokio::test]
async fn a_password_in_the_text_of_a_server_is_not_shown() {
    let server = False::start(|path, request, _| {
        let text = if path.ends_with("authenticate") {
            request["password"].to_string()
        } else {
            String::new()
        };
        Reply::Whole(401, json!({ "code": 16, "message": format!("wrong:\n{text}") }).to_string())
    })
    .await;
    let (spec, _folder) = crate::access::with_password(&server.url, "hunter2");
    let refused = fault(open(&spec).unwrap().pull().await, FaultKind::Refused);
    assert!(!format!("{refused:?} {refused}").contains("hunter2"), "{refused}");
    assert!(refused.message.contains("***"), "{refused}");
}

/// Catches: an unchanged set that is reported again after the connection was cut; no new attempt
/// after the cut.
#[tokio::test]
async fn a_connection_cut_during_a_transfer_is_opened_again() {
    let Some(server) = Etcd::start().await else { return };
    let set: Vec<_> = (100..400).map(|n| policy(&format!("p{n}"), n)).collect();
    source(&server.url()).push(set.clone()).await.unwrap();
    let cut = proxy(server.port(), usize::MAX, 9000, 2).await;
    let mut watch = source(&cut).watch();
    fault(next(&mut watch).await, FaultKind::Unreachable);
    assert_eq!(held(&next(&mut watch).await.unwrap()), set);
}

/// The server has compacted its history, and the watch is to begin before the oldest revision that
/// is left.
///
/// Catches: a cancelled watch that counts as a silent watch; an alarm about it; no new watch after
/// one that ended without a reason.
#[tokio::test(start_paused = true)]
async fn after_a_compacted_or_closed_watch_the_set_is_read_again() {
    let cancelled = line(json!({ "canceled": true, "compact_revision": "12" }));
    for end in [cancelled, Vec::new()] {
        let server = False::start(move |path, request, n| {
            let created = line(json!({ "created": true }));
            match path {
                "/v3/watch" if n < 10 => Reply::Raw(
                    [
                        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec(),
                        created,
                        end.clone(),
                    ]
                    .concat(),
                ),
                "/v3/watch" => Reply::Stalled(created),
                _ => only_marker(request, 20, if n < 8 { 5 } else { 15 }),
            }
        })
        .await;
        let mut watch = source(&server.url).watch();
        assert!(next_snapshot(&mut watch).await.revision.starts_with("5-"));
        assert!(next_snapshot(&mut watch).await.revision.starts_with("15-"));
    }
}

/// Catches: a watch that reports nothing and is kept, although the store has a newer revision; a
/// loss of data that is not noticed, although the store's revision went back.
#[tokio::test(start_paused = true)]
async fn a_stalled_watch_is_noticed_by_the_revisions_of_the_server() {
    for (store, marker) in [(30, 25), (8, 4)] {
        let server = False::start(move |path, request, n| match path {
            "/v3/watch" => Reply::Stalled(line(json!({ "created": true }))),
            _ if n < 8 => only_marker(request, 20, 5),
            _ => only_marker(request, store, marker),
        })
        .await;
        let mut watch = source(&server.url).watch();
        assert!(next(&mut watch).await.unwrap().revision.starts_with("5-"));
        let began = Instant::now();
        let new = next(&mut watch).await.unwrap();
        assert!(new.revision.starts_with(&format!("{marker}-")), "{}", new.revision);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
}

/// Catches: a line of unlimited length that is stored.
#[tokio::test]
async fn a_watch_with_an_endless_line_is_closed() {
    let server = False::start(|path, request, _| match path {
        "/v3/watch" => {
            Reply::Endless(line(json!({ "created": true })), vec![b' '; 65536], Duration::ZERO)
        }
        _ => only_marker(request, 20, 5),
    })
    .await;
    let _watch = source(&server.url).watch();
    while server.asked.load(Ordering::Relaxed) < 8 {
        sleep(Duration::from_millis(20)).await;
    }
    let (sent, asked) = (server.sent.load(Ordering::Relaxed), server.asked.load(Ordering::Relaxed));
    assert!(sent < asked * (24 << 20), "{sent} B in {asked} requests");
}
