//! Tests the limits of the control socket: idle connections, half-sent requests and long requests
//! must never lock out other clients.

use std::net::TcpStream;

use super::*;

/// Limits with an idle timeout of an hour. A connection thus loses its seat (its descriptor) or its
/// memory only if another client needs them.
fn limits(connections: usize, bytes: usize) -> Limits {
    let grace = Duration::from_millis(1);
    Limits { connections, bytes, grace, idle: Duration::from_secs(3_600) }
}

/// The header of an `apply` request whose body has `length` bytes.
fn head(length: usize) -> String {
    format!(
        "POST /v1/apply HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    )
}

/// Connections that have each sent the bytes `start` and then nothing more.
///
/// A blocking thread opens them, because the server runs in this thread.
async fn silent(fixture: &Fixture, count: usize, start: Vec<u8>) -> Vec<UnixStream> {
    let socket = fixture.socket();
    let open = move || {
        let open = |_| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            // The result is ignored: the server may have closed the connection already.
            let _ = stream.write_all(&start);
            stream
        };
        (0..count).map(open).collect()
    };
    tokio::task::spawn_blocking(open).await.unwrap()
}

/// Catches: a listener without a limit of connections; a new client that must wait until idle
/// connections time out; a seat that is never freed.
#[tokio::test]
async fn idle_connections_are_capped_and_lock_out_no_client() {
    let fixture = Fixture::limited(&web("5 Mbit/s"), limits(8, 1 << 20));
    for start in ["", "GET /v1/status HTTP/1.1\r\n", "POST /v1/apply HT"] {
        let open = silent(&fixture, 100, start.as_bytes().to_vec()).await;
        let status: Status = fixture.get("/v1/status").await;
        assert_eq!(status.generation, 1, "{start:?}");
        assert!(fixture.seats.used().0 <= 8, "{:?}", fixture.seats);
        drop(open);
    }
    fixture.apply(&web("6 Mbit/s"), None).await.unwrap();
    while fixture.seats.used() != (0, 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Catches: bodies whose memory is not counted; a half-sent body that keeps its memory; a request
/// refused although memory could be freed.
#[tokio::test]
async fn half_sent_bodies_stay_within_the_memory_limit_and_lock_out_no_client() {
    let most = 1 << 20;
    let fixture = Fixture::limited(&web("5 Mbit/s"), limits(64, most));
    let start = head(2 << 20) + &"x".repeat(100_000);
    let open = silent(&fixture, 50, start.into_bytes()).await;
    let comment = format!("# {}\n{}", "x".repeat(900_000), web("6 Mbit/s"));
    fixture.apply(&comment, None).await.unwrap();
    assert!(fixture.seats.used().1 <= most, "{:?}", fixture.seats);
    drop(open);
}

/// Catches: no idle timeout during the header of a request, during its body, or after the answer.
#[tokio::test]
async fn a_connection_that_stays_silent_is_closed() {
    let idle = Duration::from_millis(50);
    let fixture = Fixture::limited(NOTHING, Limits { idle, ..limits(8, 1 << 20) });
    let answered = "GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n".to_owned();
    for request in [String::new(), "POST /v1/ap".to_owned(), head(100) + "{", answered] {
        // `exchange` returns when the gateway closes the connection.
        let answer = exchange(fixture.socket(), request.clone()).await;
        assert_eq!(answer.is_empty(), !request.starts_with("GET"), "{request}: {answer}");
    }
}

/// Catches: the HTTP library's default limit of 2 MB for bodies; a body parsed in the thread that
/// serves other requests.
#[tokio::test]
async fn a_request_of_60_mb_is_accepted_while_others_are_answered() {
    let fixture = Fixture::new(&web("5 Mbit/s")).await;
    // The bulk is in a field that the daemon ignores. Parsing a policy file of this size would take
    // 20 s in a debug build.
    let text = serde_json::to_string(&web("6 Mbit/s")).unwrap();
    let end = "\"}";
    let start = format!(r#"{{"file": "new.toml", "text": {text}, "more": ""#);
    let more = 60_000_000;
    let mut request = head(start.len() + more + end.len()) + &start;
    request.reserve(more + end.len());
    request.push_str(&"x".repeat(more));
    request += end;
    let socket = fixture.socket();
    let apply = tokio::task::spawn_blocking(move || {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        answer
    });
    loop {
        let answered = apply.is_finished();
        if fixture.get::<Status>("/v1/status").await.generation != 1 {
            break;
        }
        assert!(!answered, "{:?}", apply.await);
    }
    assert_eq!(apply.await.unwrap(), *b"HTTP/1.1 200");
}

/// Catches: a status or a rollback that waits until a long request is done; an unlimited queue of
/// long requests.
#[tokio::test]
async fn a_long_request_does_not_delay_the_status_the_metrics_or_a_rollback() {
    let fixture = Fixture::new(NOTHING).await;
    let permit = fixture.daemon.long_permit().await.unwrap();
    let waiting: Vec<_> = (1..LONG)
        .map(|_| {
            let (daemon, text) = (fixture.daemon.clone(), NOTHING.to_owned());
            let proposal = Proposal {
                file: "new.toml".to_owned(),
                text,
                included: Vec::new(),
                confirm_ms: None,
                save: false,
            };
            tokio::spawn(async move { daemon.plan(proposal).await.is_ok() })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(code(fixture.apply(NOTHING, None).await), Code::Busy);
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!(status.generation, 1);
    let classes: Classes = fixture.get("/v1/classes").await;
    assert!(classes.classes.is_empty());
    drop(permit);
    for plan in waiting {
        assert!(plan.await.unwrap());
    }

    fixture.apply(&web("5 Mbit/s"), Some(100)).await.unwrap();
    let permit = fixture.daemon.long_permit().await.unwrap();
    fixture.until(|status| status.unconfirmed_ms.is_none()).await;
    drop(permit);
    assert_eq!(fixture.plan(NOTHING).await, [""; 0]);
}

/// Catches: a reload that is refused because many long requests wait.
#[tokio::test]
async fn a_reload_waits_for_other_long_requests_and_raises_no_alarm() {
    let fixture = Fixture::new(NOTHING).await;
    let permit = fixture.daemon.long_permit().await.unwrap();
    let daemon = &fixture.daemon;
    let waiting = (1..LONG).map(|_| {
        let (daemon, text) = (daemon.clone(), NOTHING.to_owned());
        let proposal = Proposal {
            file: "new.toml".to_owned(),
            text,
            included: Vec::new(),
            confirm_ms: None,
            save: false,
        };
        tokio::spawn(async move { daemon.plan(proposal).await.is_ok() })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::task::yield_now().await;
    assert!(daemon.long.available_permits() == 0, "there is a place");
    fs::write(fixture.file(), web("5 Mbit/s")).unwrap();
    let reload = tokio::spawn({
        let daemon = daemon.clone();
        async move { daemon.reload().await }
    });
    // A reload that does not wait would end as soon as it has read the file.
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!reload.is_finished(), "{:?}", daemon.state.lock().await.alarm);
    }
    drop(permit);
    for plan in waiting {
        assert!(plan.await.unwrap());
    }
    reload.await.unwrap();
    let status: Status = fixture.get("/v1/status").await;
    assert_eq!((status.generation, status.alarms), (2, Vec::new()));
}

/// Catches: a page built for each scraper; a page that is never built again.
#[tokio::test]
async fn scrapers_share_a_page_and_idle_scrapers_lock_out_no_client() {
    let folder = folder();
    let fixture = Fixture::with(NOTHING, folder.clone(), Opened::default);
    let port = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = port.local_addr().unwrap();
    let socket = Socket::open(&folder.join("second")).unwrap();
    let server =
        ControlServers::new(fixture.daemon.clone(), socket, Some(port), [limits(8, 1 << 20); 2]);
    let seats = server.seats[1].clone();
    let server = tokio::spawn(server.serve());
    let scrape = move || {
        let _idle: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
        let scrape = || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                .unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
            page
        };
        [scrape(), scrape()]
    };
    let pages = tokio::task::spawn_blocking(scrape).await.unwrap();
    for page in pages {
        assert!(page.contains("tidegate_"), "{page}");
    }
    assert!(seats.used().0 <= 8, "{seats:?}");
    server.abort();
}

/// Catches: several reports at the same time, each of hundreds of megabytes.
#[tokio::test]
async fn reports_of_classes_and_flows_are_made_one_at_a_time_while_the_status_is_answered() {
    let fixture = Fixture::new(NOTHING).await;
    let permit = fixture.daemon.listing.lock().await;
    let ask = |path| {
        let socket = fixture.socket();
        tokio::task::spawn_blocking(move || client::get::<Value>(&socket, path).unwrap())
    };
    let waiting = ["/v1/classes", "/v1/classes", "/v1/flows?most=9"].map(ask);
    for _ in 0..5 {
        let status: Status = fixture.get("/v1/status").await;
        assert_eq!(status.generation, 1);
    }
    assert!(waiting.iter().all(|it| !it.is_finished()), "{waiting:?}");
    drop(permit);
    for report in waiting {
        report.await.unwrap();
    }
}

/// Catches: an `apply` that stops when its client disconnects. The daemon would then not know the
/// running policies, and could not roll them back.
#[tokio::test]
async fn an_apply_completes_although_its_client_disconnects() {
    let fixture = Fixture::new(NOTHING).await;
    let policies = (0..1_000).map(|number| {
        let host = format!("10.0.{}.{}", number / 256, number % 256);
        format!(
            "[[policy]]\nname = \"p{number}\"\naction = \"pass\"\nmatch = {{ src = \"{host}\" }}\n"
        )
    });
    let text = NOTHING.to_owned() + &policies.collect::<String>();
    let proposal = Proposal {
        file: "new.toml".to_owned(),
        text,
        included: Vec::new(),
        confirm_ms: Some(500),
        save: false,
    };
    let body = serde_json::to_string(&proposal).unwrap();
    let mut client = UnixStream::connect(fixture.socket()).unwrap();
    client.write_all((head(body.len()) + &body).as_bytes()).unwrap();
    let plane = || fixture.daemon.plane.ask(|live| live.machine.generation());
    // The daemon records the generation when its task is next polled, which happens in this thread.
    let mut polls = 0;
    while plane().await.unwrap() == 1 {
        polls += 1;
        assert!(polls < 100_000, "the policies do not come into force");
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.daemon.state.lock().await.generation, 1, "the client disconnects too late");
    drop(client);
    let status = fixture.until(|status| status.generation == 3).await;
    assert!(status.alarms[0].contains("generation 2 was not confirmed"), "{:?}", status.alarms);
    assert_eq!(plane().await.unwrap(), 3);
}

/// Catches: a maximum number of connections (seats) that does not depend on the limit of
/// descriptors, or that uses up all descriptors.
#[test]
fn connections_leave_most_descriptors_to_the_gateway() {
    for descriptors in [64, 256, 1_024, 524_288] {
        let all =
            Limits::control(descriptors).connections + Limits::metrics(descriptors).connections;
        assert!(all <= descriptors / 4 && all <= 192, "{all} of {descriptors}");
    }
    assert!(Limits::descriptors() > 0);
}
