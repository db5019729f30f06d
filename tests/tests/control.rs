//! Live test: the control socket of a running gateway stays usable for operators despite faults and
//! attacks.

use std::fs::{self, File};
use std::io::pipe;
use std::process::Stdio;
use std::time::Duration;

use tidegate_e2e::{Process, Testbed, now, on_each_backend, until};

on_each_backend! { witnessed_beside_others:
    a_gateway_keeps_running_although_its_log_cannot_be_written
    idle_connections_to_the_metrics_port_do_not_lock_out_operators
    an_applied_file_can_be_saved_for_the_next_start
}

const LIMIT: Duration = Duration::from_secs(20);

fn web(mean: &str) -> String {
    format!(
        "[[policy]]\nname = \"web\"\naction = \"shape\"\n\
         profile = {{ mean = \"{mean}\", burst = \"64 KiB\" }}\n"
    )
}

/// Catches: a log line printed by `eprintln!`, which panics if stderr is closed; a logger that
/// prints its own errors on stderr.
fn a_gateway_keeps_running_although_its_log_cannot_be_written(bed: &Testbed, backend: &str) {
    let (reader, closed) = pipe().expect("a pipe");
    drop(reader);
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    for errors in [Stdio::from(closed), Stdio::from(full)] {
        let mut gateway = bed.gateway_with(backend, &web("5 Mbit/s"), &[], errors);
        // A reload of a valid file and a reload of an invalid file both cause log lines.
        gateway.reload(backend, &web("6 Mbit/s"));
        let _ = bed.file("policies.toml", "broken");
        gateway.signal("HUP");
        let alarms = until("two alarms", LIMIT, || {
            let status = gateway.status();
            let alarms = status["alarms"].as_array()?.clone();
            (alarms.len() == 2).then_some(alarms)
        });
        let says =
            |words: &str| alarms.iter().any(|it| it.as_str().is_some_and(|it| it.contains(words)));
        assert!(says("was not taken over") && says("the log cannot be written"), "{alarms:?}");
        gateway.reload(backend, &web("7 Mbit/s"));
        assert!(gateway.runs(), "{}", gateway.all_output());
        gateway.stop();
    }
}

/// Number of connections that an unprivileged attacker opens.
const IDLE: usize = 1_100;

/// Catches: an unlimited number of connections, which would use up all descriptors.
fn idle_connections_to_the_metrics_port_do_not_lock_out_operators(bed: &Testbed, backend: &str) {
    let metrics = ["--metrics", "127.0.0.1:9123"];
    let mut gateway = bed.gateway_with(backend, &web("5 Mbit/s"), &metrics, Stdio::piped());
    bed.middle.run("ip link set lo up");
    // Sets the default limit of descriptors.
    let usual = format!("prlimit --pid {} --nofile=1024:1024", gateway.id());
    bed.middle.run(&usual);
    let open = format!(
        "ulimit -n 4096; for i in $(seq {IDLE}); do exec {{fd}}<>/dev/tcp/127.0.0.1/9123; done; \
         echo open; read wait"
    );
    let attack = Process::start(bed.middle.command("bash").args(["-c", &open]));
    until("idle connections", LIMIT, || {
        assert!(attack.all_output().lines().count() < 100, "{}", attack.all_output());
        attack.lines().contains(&"open".to_owned()).then_some(())
    });
    let ask = |_| {
        let start = now();
        let _ = gateway.status();
        start.elapsed()
    };
    let slowest = (0..5).map(ask).max();
    assert!(slowest < Some(Duration::from_secs(1)), "{slowest:?}, {}", gateway.all_output());
    gateway.reload(backend, &web("6 Mbit/s"));
    gateway.apply(backend, &web("7 Mbit/s"));
    drop(attack);
    gateway.stop();
}

/// Catches: a file that is applied but not saved; a save that writes another file than the policy
/// file.
fn an_applied_file_can_be_saved_for_the_next_start(bed: &Testbed, backend: &str) {
    let mut gateway = bed.gateway(backend, &web("5 Mbit/s"));
    let own = bed.folder.join("policies.toml");
    let read = |path: &std::path::Path| fs::read_to_string(path).expect("a file");
    let head = read(&own).replace(&web("5 Mbit/s"), "");
    let other = bed.file("other.toml", &(head + &web("6 Mbit/s")));
    let apply = |words: &[&str]| {
        let finished =
            Process::start(bed.tidegate(&["apply"]).arg(&other).args(words)).finish(LIMIT);
        assert!(finished.status.success(), "{finished:?}");
        finished.errors
    };
    let said = apply(&[]);
    let restart = format!("a restart of the gateway reads {}", own.display());
    assert!(said.contains(&restart), "{said}");
    gateway.signal("HUP");
    until("a word in the log", LIMIT, || {
        gateway.all_output().contains(&format!("a restart reads {}", own.display())).then_some(())
    });
    let text = Process::start(&mut bed.tidegate(&["status"])).finish(LIMIT).output;
    assert!(
        text.contains(&format!("SIGHUP reads this file, a restart {}", own.display())),
        "{text}"
    );
    assert_ne!(read(&own), read(&other));
    let said = apply(&["--save"]);
    assert!(said.contains("saved as") && read(&own) == read(&other), "{said}");
    assert_eq!(gateway.status()["file"], own.display().to_string().as_str());
    gateway.stop();
    gateway.start_again();
    assert_eq!(gateway.status()["file"], own.display().to_string().as_str());
}
