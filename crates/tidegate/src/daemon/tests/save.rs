//! `apply` with `save` beside other changes: the policy file that a restart reads holds what runs.

use super::*;

/// A proposal of `text` that is also saved.
fn saved(text: &str) -> Value {
    json!({ "file": "new.toml", "text": text, "save": true })
}

impl Fixture {
    /// Asks for `apply` with `proposal` in a task of its own.
    fn applies(&self, proposal: Value) -> JoinHandle<anyhow::Result<Applied>> {
        let socket = self.socket();
        tokio::task::spawn_blocking(move || client::post(&socket, "/v1/apply", &proposal))
    }

    /// The texts of the policy file that a restart reads, and of the one that runs.
    async fn saved_and_running(&self) -> [String; 2] {
        let running = self.daemon.installed().await.documents.text.to_string();
        [fs::read_to_string(self.file()).unwrap(), running]
    }

    /// Waits until `count` long requests wait or are in progress.
    async fn until_long(&self, count: usize) {
        while LONG - self.daemon.long.available_permits() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The files beside the policy file that are neither the socket nor its lock.
    fn left_over(&self) -> Vec<String> {
        let names = fs::read_dir(&self.folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect()
    }
}

/// Kills: a file that is written before the turn of its change, or by the client after the answer.
#[tokio::test]
async fn of_files_saved_at_the_same_time_the_running_one_is_on_the_disk() {
    let fixture = Fixture::new(NOTHING).await;
    for round in 0..10 {
        let turn = fixture.daemon.turn().await.unwrap();
        let texts = (1..=3).map(|number| web(&format!("{} Mbit/s", 3 * round + number)));
        let waiting: Vec<_> = texts.map(|text| fixture.applies(saved(&text))).collect();
        fixture.until_long(4).await;
        drop(turn);
        for apply in waiting {
            let applied = apply.await.unwrap().unwrap();
            assert_eq!(applied.saved, Some(fixture.file().display().to_string()));
            assert_eq!(applied.restart_reads, None);
        }
        let [saved, running] = fixture.saved_and_running().await;
        assert_eq!(saved, running);
    }
    assert!(fixture.left_over().is_empty());
}

/// Kills: a reload that reads the file before its turn, and so puts the replaced text in force.
#[tokio::test]
async fn a_reload_that_comes_during_a_save_reads_what_was_saved() {
    let fixture = Fixture::new(NOTHING).await;
    let turn = fixture.daemon.turn().await.unwrap();
    let apply = fixture.applies(saved(&web("5 Mbit/s")));
    fixture.until_long(2).await;
    let daemon = fixture.daemon.clone();
    let reload = tokio::spawn(async move { daemon.reload().await });
    fixture.until_long(3).await;
    drop(turn);
    apply.await.unwrap().unwrap();
    reload.await.unwrap();
    let [saved, running] = fixture.saved_and_running().await;
    assert_eq!([&saved, &running], [&web("5 Mbit/s"); 2]);
}

/// Kills: a refused file that is saved; a save beside a change that may be rolled back; both in one request.
#[tokio::test]
async fn nothing_is_saved_that_is_refused_or_may_be_rolled_back() {
    let fixture = Fixture::new(NOTHING).await;
    let refused = |text: &str| fixture.applies(saved(text));
    assert!(refused("[gateway]\nlan = 5\n").await.unwrap().is_err());
    let other_port = NOTHING.replace("lan\"\n", "lan2\"\n");
    assert_eq!(code(refused(&other_port).await.unwrap()), Code::NeedsRestart);
    let both =
        json!({ "file": "new.toml", "text": web("5 Mbit/s"), "save": true, "confirm_ms": 9 });
    assert_eq!(code(fixture.applies(both).await.unwrap()), Code::BadRequest);

    fixture.apply(&web("5 Mbit/s"), Some(300)).await.unwrap();
    assert_eq!(code(refused(&web("6 Mbit/s")).await.unwrap()), Code::Unconfirmed);
    fixture.until(|status| status.unconfirmed_ms.is_none()).await;
    assert_eq!(fixture.saved_and_running().await, [NOTHING; 2]);
    assert!(fixture.left_over().is_empty());
}

/// Kills: a change that stays in force although it was not saved, whether the file was gone before or after the text was
/// staged.
#[tokio::test]
async fn what_cannot_be_saved_does_not_stay_in_force() {
    let fixture = Fixture::new(NOTHING).await;
    let changing = fixture.daemon.changing.lock().await;
    let apply = fixture.applies(saved(&web("5 Mbit/s")));
    while fixture.left_over().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fs::remove_file(fixture.file()).unwrap();
    fs::create_dir(fixture.file()).unwrap();
    drop(changing);
    assert_eq!(code(apply.await.unwrap()), Code::NoSuchFile);
    let running = || async { fixture.daemon.installed().await.documents.text.to_string() };
    assert_eq!((running().await, fixture.left_over()), (NOTHING.to_owned(), Vec::new()));

    fs::remove_dir(fixture.file()).unwrap();
    let refused = fixture.applies(saved(&web("5 Mbit/s"))).await.unwrap();
    assert_eq!(code(refused), Code::NoSuchFile);
    assert_eq!((running().await, fixture.left_over()), (NOTHING.to_owned(), Vec::new()));
}
