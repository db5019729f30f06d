//! Live tests of aggregate gateways at two sites. The gateways carry all TCP connections of a
//! client over one aggregate connection.

mod load;
mod weight;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate_e2e::{Host, Process, Sites, program, until, witnessed};

const LIMIT: Duration = Duration::from_secs(20);

const PORT: u16 = 7;

/// The content of file `number`. Each file has a different content.
fn content(number: u64, length: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| next()).take(length).collect()
}

/// Length of file `number`: 1 B to 60 kB, and a megabyte for one file in fifty.
fn length(number: u64) -> usize {
    let short = usize::try_from(number.wrapping_mul(7_919) % 60_000).unwrap_or(0) + 1;
    if number.is_multiple_of(50) { 1_000_000 } else { short }
}

/// The server's answer to a file: all bytes of the file, inverted.
fn answer(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    bytes
}

/// Serves files on `host`: reads each file up to the FIN, and sends the answer. Returns a channel
/// that delivers the addresses of the clients.
fn serve(host: &Host) -> mpsc::Receiver<IpAddr> {
    let (sender, asked) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    host.within(move || {
        let listener = TcpListener::bind(("::", PORT)).expect("a port of its own");
        let _ = ready.send(());
        for stream in listener.incoming().flatten() {
            let from = stream.peer_addr().map(|it| it.ip().to_canonical());
            let _ = from.map(|it| sender.send(it));
            thread::spawn(move || converse(stream));
        }
    });
    is_ready.recv_timeout(LIMIT).expect("the server listens");
    asked
}

fn converse(mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    stream.write_all(&answer(bytes))?;
    stream.shutdown(Shutdown::Write)
}

/// Sends file `number` to `server`, and checks the answer.
fn exchange(server: IpAddr, number: u64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(server, PORT), LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let file = content(number, length(number));
    let mut writer = stream.try_clone()?;
    let sent = file.clone();
    let writing = thread::spawn(move || {
        writer.write_all(&sent)?;
        writer.shutdown(Shutdown::Write)
    });
    let mut back = Vec::new();
    let read = stream.read_to_end(&mut back);
    writing.join().expect("it does not panic")?;
    read?;
    assert!(back == answer(file), "file {number} is not what was sent");
    Ok(())
}

/// Returns `true` if the error is a reset of the connection.
fn is_broken(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
    )
}

/// Exchanges the files with the numbers `from..to`, several at a time, with the two `servers` in
/// alternation. All files must arrive intact.
fn exchange_all(client: &Host, servers: [IpAddr; 2], from: u64, to: u64) {
    const AT_ONCE: u64 = 8;
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|worker| {
            client.within(move || {
                for (number, server) in (from..to).zip(servers.into_iter().cycle()) {
                    if number % AT_ONCE == worker {
                        let done = exchange(server, number);
                        done.unwrap_or_else(|error| panic!("file {number}: {error}"));
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|it| it.join().expect("all files arrive"));
}

fn total(from: u64, to: u64) -> u64 {
    (from..to).map(|number| u64::try_from(length(number)).unwrap_or(0)).sum()
}

/// Number of lines in the output of `command` on `host` that contain `words`.
fn lines(host: &Host, command: &str, words: &str) -> usize {
    host.run(command).lines().filter(|line| line.contains(words)).count()
}

fn stop(gateway: Process) {
    gateway.signal("TERM");
    let ended = gateway.finish(LIMIT);
    assert!(ended.status.success(), "{ended:?}");
}

/// Catches: bytes that are lost or reach another stream; connections that bypass the gateway;
/// firewall rules that stay after the end, or that are installed twice.
#[test]
fn files_arrive_intact_even_after_a_gateway_was_killed_and_restarted() {
    witnessed(|bed| {
        let sites = Sites::new(bed);
        let asked = serve(&sites.server);
        let servers = [sites.server.v4, sites.server.v6];
        let a = sites.start(0, "");
        let mut b = sites.start(1, "");
        sites.connected();
        exchange_all(&sites.client, servers, 0, 200);
        let of_sites = [sites.status(0), sites.status(1)];
        assert_eq!(of_sites[0]["connections"]["taken"], 200);
        assert_eq!(of_sites[1]["connections"]["opened"], 200);
        assert_eq!(of_sites[0]["sent_bytes"], total(0, 200));
        assert_eq!(of_sites[0]["received_bytes"], total(0, 200));
        // The servers see the addresses of the gateways instead of the client's, over IPv4 and
        // IPv6.
        assert!(asked.try_iter().all(|it| it != sites.client.v4 && it != sites.client.v6));

        // When the peer is killed, an open connection is reset, and the client notices it.
        let server = servers[0];
        let broken = sites.client.within(move || {
            let mut open = TcpStream::connect((server, PORT))?;
            open.write_all(b"half a file")?;
            open.set_read_timeout(Some(LIMIT))?;
            open.read(&mut [0])
        });
        until("the connection", LIMIT, || {
            (sites.status(1)["connections"]["now"] == 1).then_some(())
        });
        b.signal("KILL");
        b.end();
        // The killed gateway has left its firewall rules. The next gateway replaces them.
        assert_eq!(lines(&sites.gateways[1], "nft list tables", "tidegate_aggregate"), 1);
        let b = sites.start(1, "");
        let error = broken.join().expect("no panic").expect_err("it cannot be answered");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        sites.connected();
        exchange_all(&sites.client, servers, 200, 300);
        assert_eq!(sites.status(1)["connections"]["opened"], 100);
        assert_eq!(sites.status(0)["connections"]["lost_after_close"], 0);
        for family in ["-4", "-6"] {
            assert_eq!(lines(&sites.gateways[1], &format!("ip {family} rule"), "29799"), 1);
        }
        stop(a);
        stop(b);
        for gateway in &sites.gateways {
            assert_eq!(lines(gateway, "nft list tables", "tidegate"), 0);
            assert_eq!(
                lines(gateway, "ip rule", "29799") + lines(gateway, "ip -6 rule", "29799"),
                0
            );
        }
    });
}

/// Catches: servers that see the gateway's address although the file asks for the client's; no
/// route for replies; a rate adjuster that is never called, or whose weight has no effect on the
/// aggregate connection.
#[test]
fn servers_can_see_client_addresses_and_an_unused_weight_falls() {
    witnessed(|bed| {
        let sites = Sites::new(bed);
        let asked = serve(&sites.server);
        let more =
            "source = \"client\"\nweight = { kind = \"measured\", every = \"20 ms\", samples = 3 }";
        let gateways = [0, 1].map(|at| sites.start(at, more));
        sites.connected();
        exchange_all(&sites.client, [sites.server.v4, sites.server.v6], 1, 21);
        let seen: Vec<_> = asked.try_iter().collect();
        assert_eq!(seen.len(), 20);
        assert!(seen.iter().all(|it| *it == sites.client.v4 || *it == sites.client.v6), "{seen:?}");
        assert_eq!(sites.status(1)["connections"]["opened"], 20);
        until("less weight", LIMIT, || {
            let weight = &sites.status(1)["weight"];
            let is_less = weight["thousandths"].as_u64() < Some(10_000);
            (is_less && weight["decisions"]["decreased"].as_u64() >= Some(1)).then_some(())
        });
        gateways.into_iter().for_each(stop);
    });
}

/// Checks that `tidegate doctor` finds no fault on a gateway's host. The check installs nothing.
fn doctor(sites: &Sites<'_>) {
    let mut command = sites.gateways[0].command(program());
    let said =
        Process::start(command.args(["doctor", "--json"]).arg(sites.file(0, ""))).finish(LIMIT);
    let all: serde_json::Value = serde_json::from_str(&said.output).expect("findings");
    let findings = all["findings"].as_array().expect("a list");
    assert!(findings.len() >= 6 && findings.iter().all(|it| it["health"] != "bad"), "{all}");
    assert_eq!(lines(&sites.gateways[0], "nft list tables", "tidegate"), 0);
}

/// Catches: a gateway with the setting "pass" that still carries connections; a gateway with
/// "refuse" that lets them pass; no limit on the number of connections.
#[test]
fn while_the_peer_is_down_connections_pass_or_are_refused() {
    witnessed(|bed| {
        let sites = Sites::new(bed);
        let asked = serve(&sites.server);
        let server = sites.server.v4;
        let once = || sites.client.within(move || exchange(server, 1)).join().expect("no panic");
        doctor(&sites);
        let a = sites.start(0, "on_peer_down = \"pass\"");
        once().expect("it passes");
        assert_eq!(asked.recv_timeout(LIMIT), Ok(sites.client.v4));
        let b = sites.start(1, "");
        sites.connected();
        once().expect("it is carried");
        assert_eq!(asked.recv_timeout(LIMIT).map(|it| it == sites.client.v4), Ok(false));
        stop(b);
        until("the loss", LIMIT, || (sites.status(0)["peer"]["is_up"] == false).then_some(()));
        // The gateway installs or removes its firewall rules when the state of the peer changes.
        until("no rule", LIMIT, || {
            (lines(&sites.gateways[0], "nft list ruleset", "tproxy") == 0).then_some(())
        });
        once().expect("it passes again");
        assert_eq!(sites.status(0)["connections"]["taken"], 1);
        stop(a);

        let a = sites.start(0, "on_peer_down = \"refuse\"\nmax_connections = 3");
        let error = once().expect_err("it is reset");
        assert!(is_broken(&error), "{error}");
        assert_eq!(sites.status(0)["connections"]["refused"]["peer-down"], 1);
        let b = sites.start(1, "");
        sites.connected();
        let six = sites.client.within(move || {
            let open = || TcpStream::connect((server, PORT)).expect("the kernel accepts it");
            let all: Vec<_> = (0..6).map(|_| open()).collect();
            let limit = Duration::from_millis(300);
            let is_reset = |mut it: &TcpStream| {
                it.set_read_timeout(Some(limit)).expect("a socket");
                it.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
            };
            all.iter().filter(|it| is_reset(it)).count()
        });
        assert_eq!(six.join().expect("no panic"), 3);
        assert_eq!(sites.status(0)["connections"]["refused"]["full"], 3);
        stop(a);
        stop(b);
    });
}
