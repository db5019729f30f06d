//! Live test of `tidegate flows`, whose output names the limit of each flow. The test covers each
//! kind of limit.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate_e2e::{Fetch, Gateway, Process, Server, Testbed, on_each_backend, program, until};

on_each_backend! { witnessed_beside_others:
    the_list_of_flows_names_the_limit_of_each_flow
}

const LIMIT: Duration = Duration::from_secs(30);

/// Policies for four kinds of limit: a class, a profile, ACK control, and a receiver that stalls.
const SHARED: &str = r#"
rate = { down = "40 Mbit/s" }

[[class]]
name = "office"
ceiling = { down = "4 Mbit/s" }

[[policy]]
name = "office"
match = { src_port = 7000 }
action = "pass"
class = "office"

[[policy]]
name = "web"
match = { src_port = 7001 }
action = "shape"
profile = { mean = "4 Mbit/s", burst = "64 KiB" }

[[policy]]
name = "calm"
match = { src_port = 7002 }
action = "shape"
profile = { mean = "4 Mbit/s", burst = "64 KiB" }
ack_control = "postack"

[[policy]]
name = "room"
match = { src_port = 7003 }
action = "shape"
profile = { mean = "20 Mbit/s", burst = "64 KiB" }

[[policy]]
name = "pings"
match = { dst_port = 7003, protocol = "udp" }
action = "shape"
profile = { mean = "20 Mbit/s", burst = "64 KiB" }
"#;

/// A rate of the link, without policies.
const LINK: &str = "rate = { down = \"4 Mbit/s\" }\n";

/// Catches: packets waiting in a class or at the link that are not reported; held ACKs that are not
/// reported.
fn the_list_of_flows_names_the_limit_of_each_flow(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, SHARED);
    let servers = [7000, 7001, 7002, 7003].map(|port| Server::start(&bed.wan, port, "cubic"));
    let fetch = |server: &Server, from: IpAddr| server.fetch(from, &bed.lan, &["--time", "60 s"]);
    let [v4, v6] = [bed.wan.v4, bed.wan.v6];
    let fetches = [v4, v6, v4].into_iter().zip(&servers);
    let fetches: Vec<Fetch> = fetches.map(|(from, server)| fetch(server, from)).collect();

    says(&gateway, "down", ":7000", &["class office: ", " bytes wait"]);
    says(&gateway, "down", ":7001", &["policy web (mean 4 Mbit/s", " bytes wait"]);
    says(&gateway, "down", ":7002", &["of its ACKs are held"]);
    says(&gateway, "up", ":7002", &["policy calm, which holds "]);

    let server = SocketAddr::new(v4, 7003).to_string();
    let traffic =
        |words: &[&str]| Process::start(bed.lan.command(program()).args(["traffic"]).args(words));
    let mut reader = traffic(&["fetch", &server, "--time", "60 s"]);
    says(&gateway, "down", ":7003", &["policy room"]);
    reader.signal("STOP");
    says(&gateway, "down", ":7003", &["its receiver: the window is full"]);
    reader.end();

    let mut ping = traffic(&["ping", &server, "--time", "60 s"]);
    says(&gateway, "up", ":7003", &["its sender, or a queue elsewhere", "pings has room"]);
    ping.end();
    says(&gateway, "up", ":7003", &["its sender, which sends nothing"]);

    gateway.apply(backend, LINK);
    says(&gateway, "down", ":7001", &["the access link: ", " bytes wait"]);
    drop(fetches);
}

/// Waits until the output for the flow in `direction` with the WAN port `port` contains all of
/// `words`.
fn says(gateway: &Gateway<'_>, direction: &str, port: &str, words: &[&str]) {
    let far = if direction == "down" { "src" } else { "dst" };
    until(&format!("{words:?} of {port}, {direction}"), LIMIT, || {
        let flows = gateway.ask("flows");
        let flows = flows["flows"].as_array()?;
        let is_it = |flow: &&serde_json::Value| {
            let limit = flow["limit"].as_str().unwrap_or_default();
            flow["direction"] == direction
                && flow[far].as_str().is_some_and(|it| it.ends_with(port))
                && words.iter().all(|word| limit.contains(word))
        };
        flows.iter().any(|flow| is_it(&flow)).then_some(())
    });
}
