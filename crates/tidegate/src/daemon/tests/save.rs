//! Tests `apply` with `save` while other changes run. A save also replaces the policy file that a
//! restart reads. This file must always hold the text of the running policies. Long requests, such
//! as `apply` and a reload, run one at a time.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use super::*;
use crate::files::PATIENCE;
use crate::replace::Staged;

/// A request that applies and saves `text`.
fn saved(text: &str) -> Value {
    json!({ "file": "new.toml", "text": text, "save": true })
}

/// The result of `task`, which must end without further waiting. The clock is paused.
async fn ended<R>(task: JoinHandle<R>) -> R {
    for _ in 0..100_000 {
        if task.is_finished() {
            return task.await.unwrap();
        }
        tokio::task::yield_now().await;
    }
    panic!("it still waits")
}

impl Fixture {
    /// Requests `apply` with `proposal` in another task.
    fn applies(&self, proposal: Value) -> JoinHandle<anyhow::Result<Applied>> {
        let socket = self.socket();
        tokio::task::spawn_blocking(move || client::post(&socket, "/v1/apply", &proposal))
    }

    /// The text in the policy file that a restart reads, and the running text.
    async fn saved_and_running(&self) -> [String; 2] {
        let running = self.daemon.installed().await.documents.text.to_string();
        [fs::read_to_string(self.file()).unwrap(), running]
    }

    /// Waits until `count` long requests wait or run.
    async fn until_long(&self, count: usize) {
        while LONG - self.daemon.long.available_permits() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The text of the policy file in force.
    async fn running(&self) -> String {
        self.daemon.installed().await.documents.text.to_string()
    }

    /// A prepared save of `text` whose file system hangs until the returned sender is dropped.
    async fn hanging(&self, text: &str) -> (Installed, Staged, mpsc::Sender<()>) {
        let (file, text) = (String::new(), text.to_owned());
        let proposal = Proposal { file, text, included: Vec::new(), confirm_ms: None, save: true };
        let Ok(next) = self.daemon.read(proposal).await else { panic!("it was refused") };
        let mut staged = self.daemon.stage(&next).await.unwrap();
        let (release, hang) = mpsc::channel();
        staged.hang = Some(hang);
        (next, staged, release)
    }

    /// Puts a save in force in another task, and waits until it tries to replace the policy file.
    async fn replaces(&self, next: Installed, staged: Staged) -> JoinHandle<Failure> {
        let daemon = self.daemon.clone();
        let save = tokio::spawn(async move {
            match daemon.replace(next, Live::Undone, None, Some(staged)).await {
                Err(Refusal::Failure(failure)) => failure,
                _ => panic!("it was not refused"),
            }
        });
        while self.daemon.saving.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        save
    }

    /// Waits until another thread has removed all temporary files.
    async fn until_tidy(&self) {
        for _ in 0..10_000 {
            if self.left_over().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{:?}", self.left_over());
    }

    /// The files beside the policy file, except the socket and its lock.
    fn left_over(&self) -> Vec<String> {
        let names = fs::read_dir(&self.folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect()
    }
}

/// Catches: a file written while an earlier change still runs, or written only after the daemon has
/// answered.
#[tokio::test]
async fn concurrent_saves_leave_the_running_text_on_the_disk() {
    let fixture = Fixture::new(NOTHING).await;
    for round in 0..10 {
        let permit = fixture.daemon.long_permit().await.unwrap();
        let texts = (1..=3).map(|number| web(&format!("{} Mbit/s", 3 * round + number)));
        let waiting: Vec<_> = texts.map(|text| fixture.applies(saved(&text))).collect();
        fixture.until_long(4).await;
        drop(permit);
        for apply in waiting {
            let applied = apply.await.unwrap().unwrap();
            assert_eq!(applied.saved, Some(fixture.file().display().to_string()));
            assert_eq!(applied.restart_reads, None);
        }
        let [saved, running] = fixture.saved_and_running().await;
        assert_eq!(saved, running);
    }
    fixture.until_tidy().await;
}

/// Catches: a reload that reads the file while a save still runs, and thus puts an old text in
/// force.
#[tokio::test]
async fn a_reload_during_a_save_reads_the_saved_text() {
    let fixture = Fixture::new(NOTHING).await;
    let permit = fixture.daemon.long_permit().await.unwrap();
    let apply = fixture.applies(saved(&web("5 Mbit/s")));
    fixture.until_long(2).await;
    let daemon = fixture.daemon.clone();
    let reload = tokio::spawn(async move { daemon.reload().await });
    fixture.until_long(3).await;
    drop(permit);
    apply.await.unwrap().unwrap();
    reload.await.unwrap();
    let [saved, running] = fixture.saved_and_running().await;
    assert_eq!([&saved, &running], [&web("5 Mbit/s"); 2]);
}

/// Catches: a refused text that is saved; a save while another change may be rolled back; a save
/// accepted in a request that may itself be rolled back.
#[tokio::test]
async fn a_text_that_is_refused_or_may_be_rolled_back_is_not_saved() {
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
    fixture.until_tidy().await;
}

/// Catches: a change that stays in force although it could not be saved. In this test, the policy
/// file vanishes before or after the new text is written beside it.
#[tokio::test]
async fn policies_that_cannot_be_saved_do_not_stay_in_force() {
    let fixture = Fixture::new(NOTHING).await;
    let changing = fixture.daemon.changing.lock().await;
    let apply = fixture.applies(saved(&web("5 Mbit/s")));
    while fixture.left_over().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fs::remove_file(fixture.file()).unwrap();
    fs::create_dir(fixture.file()).unwrap();
    drop(changing);
    assert_eq!(code(apply.await.unwrap()), Code::NotSaved);
    assert_eq!(fixture.running().await, NOTHING);
    fixture.until_tidy().await;

    fs::remove_dir(fixture.file()).unwrap();
    let refused = fixture.applies(saved(&web("5 Mbit/s"))).await.unwrap();
    assert_eq!(code(refused), Code::NotSaved);
    assert_eq!(fixture.running().await, NOTHING);
    fixture.until_tidy().await;
}

/// Catches: a save that blocks other changes while its file system hangs; policies rolled back
/// after such a save, so that the file differs from the running text; a delayed write that replaces
/// a later text.
#[tokio::test]
async fn a_save_whose_file_system_hangs_is_in_force_with_an_alarm() {
    let fixture = Fixture::new(NOTHING).await;
    let text = web("5 Mbit/s");
    let (next, staged, release) = fixture.hanging(&text).await;
    tokio::time::pause();
    let save = fixture.replaces(next, staged).await;
    tokio::time::advance(PATIENCE + Duration::from_millis(1)).await;
    let failure = ended(save).await;
    tokio::time::resume();
    assert!(failure.code == Code::NotSaved && failure.message.starts_with("in force, but whether"));
    assert!(fixture.daemon.changing.try_lock().is_ok());
    assert_eq!(fixture.saved_and_running().await, [NOTHING, &text]);
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms[0].contains("generation 2: in force, but"), "{:?}", status.alarms);
    let next = fixture.applies(saved(&web("6 Mbit/s"))).await.unwrap();
    assert_eq!((code(next), fixture.running().await), (Code::NotSaved, text.clone()));

    drop(release);
    while fixture.daemon.saving.try_lock().is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(fixture.saved_and_running().await, [&*text; 2]);
    fixture.applies(saved(&text)).await.unwrap().unwrap();
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms.is_empty(), "{:?}", status.alarms);
    fixture.until_tidy().await;
}

/// Catches: an error that claims that the earlier policies run, although they could not be
/// restored.
#[tokio::test]
async fn an_error_says_which_policies_run_after_a_failed_rollback() {
    let fixture = Fixture::new(NOTHING).await;
    let (next, staged, release) = fixture.hanging(&web("5 Mbit/s")).await;
    let save = fixture.replaces(next, staged).await;
    fixture.daemon.stop();
    fs::remove_file(fixture.file()).unwrap();
    fs::create_dir(fixture.file()).unwrap();
    drop(release);
    let failure = save.await.unwrap();
    assert!(failure.message.contains("the unsaved policies are still in force"), "{failure:?}");
    assert_eq!(fixture.running().await, web("5 Mbit/s"));
}

/// Catches: an alarm about the file's text that stays although the running text was saved.
#[tokio::test]
async fn a_save_of_the_running_text_ends_the_alarm_about_the_file() {
    let fixture = Fixture::new(&web("5 Mbit/s")).await;
    fs::write(fixture.file(), "broken").unwrap();
    fixture.daemon.reload().await;
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms[0].contains("TG0001"), "{:?}", status.alarms);
    fixture.applies(saved(&web("5 Mbit/s"))).await.unwrap().unwrap();
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms.is_empty(), "{:?}", status.alarms);
}

/// Catches: a reload that blocks other requests while the file system of an included file hangs.
#[tokio::test]
async fn a_reload_that_reads_for_too_long_ends_with_an_alarm() {
    let fixture = Fixture::new(NOTHING).await;
    let (release, hang) = mpsc::channel::<()>();
    let begun = Arc::new(AtomicBool::new(false));
    let (daemon, begins) = (fixture.daemon.clone(), begun.clone());
    tokio::time::pause();
    let reload = tokio::spawn(async move {
        let read = move |file: &Path| {
            begins.store(true, Ordering::Relaxed);
            let _ = hang.recv();
            Documents::gather(file, web("5 Mbit/s"))
        };
        daemon.reload_by(read).await;
    });
    while !begun.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(reload::READ + Duration::from_millis(1)).await;
    ended(reload).await;
    tokio::time::resume();
    assert!(fixture.daemon.working.try_lock().is_ok());
    let status: Status = fixture.get("/v1/status").await;
    assert!(status.alarms[0].contains("they have not answered for 10s"), "{:?}", status.alarms);
    drop(release);
    assert_eq!(fixture.running().await, NOTHING);
}

/// Catches: a save of included texts that differ from the files on the disk.
#[tokio::test]
async fn a_save_includes_the_files_that_a_restart_reads() {
    let fixture = Fixture::new(NOTHING).await;
    let policy = |name: &str| format!("[[policy]]\nname = \"{name}\"\naction = \"pass\"\n");
    fs::write(fixture.folder.join("more.toml"), policy("disk")).unwrap();
    let text = format!("include = [\"more.toml\"]\n{NOTHING}");
    let part = |name: &str| json!([{ "origin": "more.toml", "text": policy(name) }]);
    let with =
        |name: &str| json!({ "file": "", "text": text, "save": true, "included": part(name) });
    assert_eq!(code(fixture.applies(with("client")).await.unwrap()), Code::BadRequest);
    assert_eq!(fixture.saved_and_running().await, [NOTHING; 2]);
    fixture.applies(saved(&text)).await.unwrap().unwrap();
    fixture.applies(with("disk")).await.unwrap().unwrap();
    let installed = fixture.daemon.installed().await;
    let names: Vec<_> = installed.config.policies.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["disk"]);
    assert_eq!(fixture.saved_and_running().await, [&*text; 2]);
}
