//! Live tests under load: two aggregate gateways carry many TCP connections over one aggregate
//! connection. They take minutes: `cargo test -p tidegate-e2e --test aggregate -- --ignored`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tidegate_e2e::{Process, Sites, now, pause, until, witnessed};

use super::{LIMIT, PORT, answer, content, exchange, is_broken, serve, stop};

/// Peak memory of a process in kB.
fn peak_memory(process: &Process) -> u64 {
    field(process, "VmHWM:")
}

fn field(process: &Process, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let row = text.lines().find_map(|line| line.strip_prefix(name)).expect("a row of that name");
    row.split_whitespace().next().and_then(|kb| kb.parse().ok()).expect("a number")
}

/// Processor time of a process, in hundredths of a second.
fn processor_time(process: &Process) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("it runs");
    let after = text.rsplit_once(") ").expect("its name").1;
    let ticks = |at: usize| after.split(' ').nth(at).and_then(|it| it.parse::<u64>().ok());
    ticks(11).expect("user time") + ticks(12).expect("system time")
}

/// Raises the limit of open descriptors of this process to its maximum.
fn raise_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("up to the hard limit");
}

#[test]
#[ignore = "takes a minute"]
fn ten_thousand_files_arrive_intact_while_a_gateway_is_killed_and_restarted() {
    const FILES: u64 = 10_000;
    const AT_ONCE: u64 = 16;
    witnessed(|bed| {
        let sites = Sites::new(bed);
        let _asked = serve(&sites.server);
        let servers = [sites.server.v4, sites.server.v6];
        let a = sites.start(0, "on_peer_down = \"refuse\"");
        let mut b = sites.start(1, "");
        sites.connected();
        let (done, again) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|worker| {
                let (done, again) = (done.clone(), again.clone());
                sites.client.within(move || {
                    for number in (worker..FILES).step_by(16) {
                        let server = servers[usize::from(number % 3 == 0)];
                        while let Err(error) = exchange(server, number) {
                            // Only the killed gateway may break a connection, and only by a reset.
                            assert!(is_broken(&error), "file {number}: {error}");
                            again.fetch_add(1, Ordering::Relaxed);
                            pause(Duration::from_millis(50));
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let start = now();
        until("a third", LIMIT * 10, || (done.load(Ordering::Relaxed) > FILES / 3).then_some(()));
        b.signal("KILL");
        b.end();
        let killed = now();
        let b = sites.start(1, "");
        sites.connected();
        let back = killed.elapsed();
        workers.into_iter().for_each(|it| it.join().expect("all files arrive"));
        let again = again.load(Ordering::Relaxed);
        println!(
            "{FILES} files in {:?}, {again} attempts broken by the kill, peer back after {back:?}",
            start.elapsed()
        );
        println!("memory of the gateways: {} and {} kB", peak_memory(&a), peak_memory(&b));
        assert_eq!(done.load(Ordering::Relaxed), FILES);
        assert!(again > 0, "nothing was under way");
        stop(a);
        stop(b);
    });
}

/// Opens connections and sends a byte on each. Prints how many were reset, and how many are open at
/// the end. The byte is needed because of SYN cookies: the client would otherwise not notice that
/// the gateway's kernel had no room for its connection.
const FLOOD: &str = r#"
import resource, select, socket, sys, time
count, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
poll, socks, reset, last = select.epoll(), {}, 0, time.monotonic()
def look(timeout):
    global reset, last
    for number, event in poll.poll(timeout):
        if event & (select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP):
            poll.unregister(number)
            socks.pop(number).close()
            reset, last = reset + 1, time.monotonic()
        else:
            poll.modify(number, select.EPOLLRDHUP)
            try:
                socks[number].send(b"x")
            except OSError:
                pass
for _ in range(count):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((host, port))
    socks[sock.fileno()] = sock
    events = select.EPOLLOUT | select.EPOLLRDHUP
    poll.register(sock.fileno(), events)
    look(0)
end = time.monotonic() + 180
while time.monotonic() < min(end, last + 20):
    look(0.1)
print(reset, len(socks), flush=True)
sys.stdin.read()
"#;

#[test]
#[ignore = "takes a minute"]
fn of_a_hundred_thousand_connections_most_are_reset_and_the_first_thousand_complete() {
    const FIRST: u64 = 1_000;
    const MOST: u64 = 2_000;
    const CLIENTS: u16 = 6;
    const EACH: u64 = 16_700;
    raise_limit();
    witnessed(|bed| {
        let sites = Sites::new(bed);
        let _asked = serve(&sites.server);
        for client in 0..CLIENTS {
            sites.server.within(move || {
                let listener = TcpListener::bind(("::", 1_000 + client)).expect("a port");
                let held: Vec<_> = listener.incoming().flatten().collect();
                drop(held);
            });
        }
        let limit = format!("max_connections = {MOST}");
        let (a, b) = (sites.start(0, &limit), sites.start(1, &limit));
        sites.connected();
        let server = sites.server.v4;
        let opened = sites.client.within(move || {
            let open = |number| {
                let mut stream = TcpStream::connect((server, PORT)).expect("a seat");
                let file = content(number, 20_000);
                stream.write_all(&file[..10_000]).expect("half of it");
                (stream, file)
            };
            (0..FIRST).map(open).collect::<Vec<_>>()
        });
        let opened = opened.join().expect("all are open");
        until("a thousand", LIMIT, || {
            (sites.status(1)["connections"]["now"] == FIRST).then_some(())
        });
        let before = [peak_memory(&a), peak_memory(&b)];
        let floods: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let mut command = sites.client.command("python3");
                command.args(["-c", FLOOD, &EACH.to_string(), &server.to_string()]);
                Process::start(command.arg((1_000 + client).to_string()))
            })
            .collect();
        let said: Vec<(u64, u64)> = floods
            .iter()
            .map(|flood| {
                let line = until("a flood", LIMIT * 10, || flood.lines().pop());
                let (reset, open) = line.split_once(' ').expect("two numbers");
                (reset.parse().expect("a number"), open.parse().expect("a number"))
            })
            .collect();
        let reset: u64 = said.iter().map(|it| it.0).sum();
        let open: u64 = said.iter().map(|it| it.1).sum();
        let status = sites.status(0);
        println!("{reset} reset, {open} open; {}", status["connections"]);
        println!("kB before {before:?}, at most {} and {}", peak_memory(&a), peak_memory(&b));
        // The client's kernel may not know yet that some connections were reset.
        assert!((MOST - FIRST..MOST).contains(&open), "{open}");
        assert_eq!(reset + open, EACH * u64::from(CLIENTS));
        assert_eq!(status["connections"]["now"], MOST);
        for (mut stream, file) in opened {
            stream.write_all(&file[10_000..]).expect("the other half");
            stream.shutdown(Shutdown::Write).expect("an end");
            let mut back = Vec::new();
            stream.read_to_end(&mut back).expect("an answer");
            assert!(back == answer(file));
        }
        assert!(peak_memory(&a).max(peak_memory(&b)) < 400_000, "kB");
        drop(floods);
        stop(a);
        stop(b);
    });
}

/// Starts two servers: one counts the bytes that it reads, the other returns them. Returns the
/// count.
fn sink_and_echo(sites: &Sites<'_>) -> Arc<AtomicU64> {
    let received = Arc::new(AtomicU64::new(0));
    let counted = received.clone();
    for (port, echoes) in [(SINK, false), (ECHO, true)] {
        let counted = counted.clone();
        let (ready, is_ready) = mpsc::channel();
        sites.server.within(move || {
            let listener = TcpListener::bind(("::", port)).expect("a port");
            let _ = ready.send(());
            for stream in listener.incoming().flatten() {
                let counted = counted.clone();
                thread::spawn(move || take(stream, echoes, &counted));
            }
        });
        is_ready.recv_timeout(LIMIT).expect("a server");
    }
    received
}

const SINK: u16 = 2_000;
const ECHO: u16 = 2_001;

fn take(mut stream: TcpStream, echoes: bool, counted: &AtomicU64) {
    let _ = stream.set_nodelay(true);
    let mut buffer = vec![0; 256 << 10];
    while let Ok(bytes) = stream.read(&mut buffer) {
        if bytes == 0 || echoes && stream.write_all(&buffer[..bytes]).is_err() {
            return;
        }
        counted.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }
}

/// Sends `block` to the counting server once. With `every`, repeats it at this interval until the
/// server closes the connection.
fn send(sites: &Sites<'_>, block: usize, every: Option<Duration>) {
    let to = SocketAddr::new(sites.server.v4, SINK);
    sites.client.within(move || {
        let mut stream = TcpStream::connect(to).expect("a server");
        let block = vec![1; block];
        while stream.write_all(&block).is_ok() {
            every.inspect(|it| pause(*it));
        }
    });
}

/// The median time in which a kilobyte travels to the server and back.
fn round_trip(sites: &Sites<'_>) -> Duration {
    let to = SocketAddr::new(sites.server.v4, ECHO);
    let times = sites.client.within(move || {
        let mut stream = TcpStream::connect(to).expect("a server");
        stream.set_nodelay(true).expect("a socket");
        let mut buffer = [0; 1_000];
        let mut times = Vec::new();
        for _ in 0..1_000 {
            let start = now();
            stream.write_all(&buffer).expect("it is sent");
            stream.read_exact(&mut buffer).expect("it comes back");
            times.push(start.elapsed());
            pause(Duration::from_millis(1));
        }
        times.sort();
        times[times.len() / 2]
    });
    times.join().expect("no panic")
}

/// Prints the memory, the processor time and the added delay of a gateway. Asserts nothing, because
/// the figures depend on the machine.
#[test]
#[ignore = "takes a minute, and prints figures of this machine: run it with TIDEGATE_BIN=$PWD/target/dist/tidegate"]
fn figures_of_docs_understand_costs() {
    const IDLE: u64 = 10_000;
    raise_limit();
    witnessed(|bed| {
        let sites = Sites::new(bed);
        let received = sink_and_echo(&sites);
        send(&sites, 62_500, Some(Duration::from_millis(10)));
        let routed = round_trip(&sites);
        let limit = "max_connections = 12000";
        let gateways = [0, 1].map(|at| sites.start(at, limit));
        sites.connected();
        // Connections that began before the gateways still bypass them. The new connection is
        // carried, at 50 Mbit/s.
        send(&sites, 62_500, Some(Duration::from_millis(10)));
        let carried = round_trip(&sites);
        println!("round trip, median: {routed:?} routed, {carried:?} carried");

        let memory = gateways.each_ref().map(|it| field(it, "VmRSS:"));
        let mut flood = sites.client.command("python3");
        flood.args(["-c", FLOOD, &IDLE.to_string(), &sites.server.v4.to_string()]);
        let flood = Process::start(flood.arg(SINK.to_string()));
        let said = until("idle connections", LIMIT * 10, || flood.lines().pop());
        let open = sites.status(1)["connections"]["now"].clone();
        let each = [0, 1].map(|at| (field(&gateways[at], "VmRSS:") - memory[at]) * 1_024 / IDLE);
        println!(
            "idle connections: {said} (reset, open), {open} at the peer; bytes each: {each:?}"
        );
        let with_many = round_trip(&sites);
        println!("round trip, median, beside them: {with_many:?}");
        drop(flood);

        for _ in 0..8 {
            send(&sites, 256 << 10, None);
        }
        pause(Duration::from_secs(2));
        let (start, before) = (now(), received.load(Ordering::Relaxed));
        let spent = gateways.each_ref().map(processor_time);
        pause(Duration::from_secs(8));
        let bits = (received.load(Ordering::Relaxed) - before) * 8;
        let millis = u64::try_from(start.elapsed().as_millis()).expect("seconds");
        let spent = [0, 1].map(|at| (processor_time(&gateways[at]) - spent[at]) * 1_000 / millis);
        println!("eight connections: {} Mbit/s, with {spent:?} % of a core", bits / millis / 1_000);
        println!("{}", sites.status(0));
        gateways.into_iter().for_each(stop);
    });
}
