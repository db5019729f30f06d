//! Tests that the commands on the manual's page about etcd work: from an empty server to a policy
//! in force.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;
use tidegate_config::source::SourceKind;
use tidegate_repository::{FaultKind, NodeReport, open};

use crate::access::with_password;
use crate::real::Etcd;
use crate::testing::{fault, held, spec};

/// Runs commands from the page against `server`.
fn run(server: &Etcd, commands: &str) {
    let shell = Command::new("bash")
        .args(["-euc", commands])
        .env("ETCDCTL_ENDPOINTS", server.url())
        .env("ETCDCTL_API", "3")
        .stdout(Stdio::null())
        .status();
    assert!(shell.unwrap().success(), "{commands}");
}

/// The first two blocks of commands under `heading`.
fn blocks<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, section) = page.split_once(&format!("\n### {heading}\n")).unwrap();
    let blocks = section.split("```").skip(1).step_by(2).take(2);
    blocks.map(|block| block.strip_prefix("sh").unwrap_or(block)).collect()
}

#[tokio::test]
async fn the_commands_of_the_page_work() {
    let Some(server) = Etcd::start().await else { return };
    if Command::new("etcdctl").arg("version").stdout(Stdio::null()).status().is_err() {
        assert!(std::env::var_os("CI_REFUSES_SKIPS").is_none(), "etcdctl is missing");
        return eprintln!("skipped: etcdctl is missing (Debian package etcd-client)");
    }
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(project.join("docs/operate/repositories.md")).unwrap();
    let first = blocks(&page, "From nothing to a policy in force");
    let [commands, gateway] = first[..] else { panic!("two blocks are expected") };
    run(&server, &commands.replace("apt-get", "true apt-get"));

    let file = gateway.split("END").nth(1).unwrap().trim_start_matches('\'');
    let file: toml::Table = toml::from_str(file).unwrap();
    assert_eq!(file["source"][0]["url"].as_str(), Some("http://127.0.0.1:2379"));
    let default = SourceKind::Etcd { urls: vec![server.url()], prefix: "/tidegate/".to_owned() };
    let mut open_to_all = spec(&[server.url()]);
    open_to_all.kind = default.clone();
    let set = held(&open(&open_to_all).unwrap().pull().await.unwrap());
    assert_eq!((set.len(), &*set[0].name), (1, "web"));
    assert_eq!(set[0].fields["profile"]["mean"].as_str(), Some("10 Mbit/s"));

    let roles = blocks(&page, "TLS and users")[0];
    run(&server, &roles.replace("user add gw1", "user add gw1:gateway-pw"));
    server.call("/v3/auth/user/add", json!({ "name": "root", "password": "root-pw" })).await;
    server.call("/v3/auth/role/add", json!({ "name": "root" })).await;
    server.call("/v3/auth/user/grant", json!({ "user": "root", "role": "root" })).await;
    server.call("/v3/auth/enable", json!({})).await;
    let (mut spec, _folder) = with_password(&server.url(), "gateway-pw");
    spec.kind = default;
    spec.access.user = Some("gw1".to_owned());
    let gateway = open(&spec).unwrap();
    assert_eq!(held(&gateway.pull().await.unwrap()), set);
    let report: NodeReport = serde_json::from_value(json!({
        "node": "gw1", "generation": 1, "since_s": 0, "flows_on_it": 1.0, "policies": {}
    }))
    .unwrap();
    gateway.report(&report).await.unwrap();
    fault(gateway.push(Vec::new()).await, FaultKind::Refused);
}
