//! Tests that warnings about policy files are kept.

use super::*;

/// Catches: warnings of a valid policy file that are lost when it is put in force.
#[tokio::test]
async fn a_policy_file_in_force_keeps_its_warnings() {
    let fixture = Fixture::new(NOTHING).await;
    let text = format!("{}signal = \"postack\"\n", web("5 Mbit/s"));
    fixture.apply(&text, None).await.unwrap();
    let installed = fixture.daemon.installed().await;
    let [warning] = &installed.warnings[..] else { panic!("{:?}", installed.warnings) };
    assert!(warning.starts_with("new.toml:9:1: TG0074: "), "{warning}");
    assert!(warning.contains("write `ack_control` in place of `signal`"), "{warning}");
}
