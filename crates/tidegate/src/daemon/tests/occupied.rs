//! Tests that large status reports and changes of the policies do not delay the data plane, which
//! forwards the packets.

use std::sync::Mutex;
use std::sync::mpsc::Sender;

use super::*;

/// A policy file with many policies and a class, on a link with a rate.
fn many_policies() -> String {
    let policies = (0..1_000).map(|number| {
        format!(
            "[[policy]]\nname = \"host{number}\"\naction = \"pass\"\nmatch = {{ src = \"10.0.{}.{}\" }}\n",
            number / 250,
            number % 250
        )
    });
    let gateway = NOTHING.to_owned() + "rate = { up = \"10 Mbit/s\", down = \"10 Mbit/s\" }\n";
    policies.fold(gateway, |all, policy| all + &policy) + "[[class]]\nname = \"staff\"\n"
}

/// Catches: a report that starts over without end while classes keep changing.
#[tokio::test]
async fn a_status_is_complete_although_classes_never_stop_changing() {
    let fixture = Fixture::new(&many_policies()).await;
    let daemon = fixture.daemon.clone();
    let changes = tokio::spawn(async move {
        let class = || serde_json::from_value(json!({ "name": "guests", "rights": {} })).unwrap();
        loop {
            assert!(daemon.add_class(class()).await.is_ok());
            assert!(daemon.remove_class("guests".to_owned()).await.is_ok());
        }
    });
    let limit = Duration::from_secs(10);
    for _ in 0..20 {
        let status = tokio::time::timeout(limit, fixture.daemon.status()).await;
        assert!(status.expect("it is complete in time").is_ok());
    }
    assert!(!changes.is_finished());
    changes.abort();
}

/// Reports the name of the thread that drops it.
struct Large(Mutex<Sender<Option<String>>>);

impl Drop for Large {
    fn drop(&mut self) {
        let name = thread::current().name().map(str::to_owned);
        let _ = self.0.get_mut().map(|sender| sender.send(name));
    }
}

/// Dropping a large answer takes long. If nobody reads the answer, another thread must drop it.
///
/// Catches: an unread answer that the data plane's own thread drops.
#[tokio::test]
async fn another_thread_drops_answers_that_nobody_reads() {
    let fixture = Fixture::new(NOTHING).await;
    let (sender, dropped) = std::sync::mpsc::channel();
    let (begin, wait) = std::sync::mpsc::channel::<()>();
    let ask = fixture.daemon.plane.ask(move |_| {
        let _ = wait.recv();
        Large(Mutex::new(sender))
    });
    let cancelled = tokio::time::timeout(Duration::from_millis(1), ask).await;
    assert!(cancelled.is_err());
    begin.send(()).unwrap();
    let name = tokio::task::spawn_blocking(move || dropped.recv_timeout(Duration::from_secs(10)));
    assert_eq!(name.await.unwrap().unwrap().as_deref(), Some("discard"));
}

/// Catches: a status that combines a new generation with the report of the previous one.
#[tokio::test]
async fn the_report_in_a_status_is_of_its_generation() {
    let plain = NOTHING.to_owned() + "rate = { up = \"10 Mbit/s\", down = \"10 Mbit/s\" }\n";
    let fixture = Fixture::new(&plain).await;
    let daemon = &fixture.daemon;
    let documents = Documents::gather(&fixture.file(), plain + "marking = \"coverage\"\n").unwrap();
    let Ok(next) = daemon.compile(documents).await else { panic!("it was refused") };
    let running = next.running();
    let policies = policy_set(&running).unwrap();

    let mut state = daemon.state.lock().await;
    let asked = daemon.clone();
    let status = tokio::spawn(async move { asked.status().await });
    // The task runs until it needs the locked state.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let ends = super::super::trunks::seeded(Vec::new()).unwrap();
    let generation = daemon.plane.install(running.gateway, policies, ends).await.unwrap();
    (state.installed, state.generation) = (Arc::new(next), generation);
    drop(state);

    let Ok(status) = status.await.unwrap() else { panic!("no status") };
    assert_eq!((status.generation, status.up.marking.is_some()), (generation, true));
}
