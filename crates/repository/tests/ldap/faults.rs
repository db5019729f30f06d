//! Tests faults of LDAP servers: each is reported with its reason.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tidegate_config::source::{SourceKind, SourceSpec};
use tidegate_core::Bytes;
use tidegate_repository::{Fault, FaultKind, open};

use crate::server::{BASE, Server, spec};
use crate::watching::next;
use crate::{order, parse, run, sorted};

const ONE: &str = "[[policy]]\nname = \"a\"\naction = \"pass\"\n";

/// The fault that a pull returns.
fn fault(spec: &SourceSpec) -> Fault {
    match open(spec) {
        Ok(repository) => run(async { repository.pull().await.unwrap_err() }),
        Err(fault) => fault,
    }
}

#[test]
fn wrong_credentials_are_refused_and_never_shown() {
    let Some(server) = Server::start() else { return };
    let file = server.file("wrong");
    fs::write(&file, "hunter2").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let wrong = spec(&server.url(), Some(file.clone()));
    let said = fault(&wrong);
    assert_eq!(said.kind, FaultKind::Refused);
    assert!(!format!("{said:?}{said}").contains("hunter2"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let said = fault(&wrong);
    assert_eq!(said.kind, FaultKind::Unusable);
    assert!(said.to_string().contains("chmod 600"), "{said}");
}

#[test]
fn a_restarted_server_is_found_again() {
    let Some(mut server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        repository.push(parse(ONE)).await.unwrap();
        server.kill();
        let mut snapshots = repository.clone().watch();
        assert_eq!(next(&mut snapshots).await.unwrap_err().kind, FaultKind::Unreachable);
        server.restart();
        let first = next(&mut snapshots).await.unwrap();
        server.kill();
        assert_eq!(next(&mut snapshots).await.unwrap_err().kind, FaultKind::Unreachable);
        server.restart();
        // After a fault, the set is sent again although it is unchanged.
        assert_eq!(next(&mut snapshots).await.unwrap(), first);
    });
}

#[test]
fn the_next_server_is_asked_if_one_is_down() {
    let Some(server) = Server::start() else { return };
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut spec = server.spec();
    let urls = vec![format!("ldap://{dead}"), server.url()];
    spec.kind = SourceKind::Ldap { urls, base: BASE.to_owned() };
    run(async { open(&spec).unwrap().push(parse(ONE)).await.unwrap() });
}

/// Catches: a push that commits its own set mixed with the set of a concurrent push.
#[test]
fn two_concurrent_pushes_never_mix_their_sets() {
    let Some(server) = Server::start() else { return };
    let sets = [0, 1].map(|set| {
        (0..60)
            .map(|at| ONE.replace("\"a\"", &format!("\"p{}\"", 40 * set + at)))
            .collect::<String>()
    });
    run(async {
        let repository = server.repository();
        repository.push(parse(ONE)).await.unwrap();
        for _ in 0..5 {
            let [one, other] = sets.each_ref().map(|set| repository.push(parse(set)));
            let (one, other) = tokio::join!(one, other);
            for fault in [one, other].into_iter().filter_map(Result::err) {
                assert_eq!(fault.kind, FaultKind::Unsteady, "{fault}");
            }
            match repository.pull().await {
                Err(fault) => assert_eq!(fault.kind, FaultKind::Uncommitted, "{fault}"),
                Ok(snapshot) => {
                    let found = sorted(&snapshot);
                    let whole = sets.iter().map(|set| order(parse(set))).chain([parse(ONE)]);
                    assert!(whole.into_iter().any(|set| set == found), "{} policies", found.len());
                }
            }
        }
    });
}

/// Catches: a push that commits although another push has begun meanwhile.
/// Catches: a server that counts as started because another program listens on its port.
#[test]
fn a_test_server_whose_port_is_taken_gets_another_port() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().port();
    let Some(server) = Server::at(taken, "overlay syncprov\n") else { return };
    assert_ne!(server.url(), format!("ldap://127.0.0.1:{taken}"));
}

#[test]
fn a_push_fails_if_another_has_begun_meanwhile() {
    let Some(server) = Server::start() else { return };
    let set: String = (0..500).map(|at| ONE.replace("\"a\"", &format!("\"p{at}\""))).collect();
    // The second push may begin too late, after the first has ended. So the test tries five times.
    let ends = (0..5).map(|_| {
        run(async { server.repository().push(parse(ONE)).await.unwrap() });
        std::thread::scope(|scope| {
            let push = scope.spawn(|| run(async { server.repository().push(parse(&set)).await }));
            while !server.read(BASE, "tgPending").contains("tgPending:") && !push.is_finished() {}
            let other =
                format!("dn: {BASE}\nchangetype: modify\nreplace: tgPending\ntgPending: other\n");
            server.change("ldapmodify", &other);
            push.join().unwrap()
        })
    });
    let failed = ends.into_iter().find_map(Result::err).expect("each push is committed");
    assert_eq!(failed.kind, FaultKind::Unsteady, "{failed}");
    let fault = fault(&server.spec());
    assert_eq!(fault.kind, FaultKind::Uncommitted, "{fault}");
}

#[test]
fn a_suspended_server_is_unreachable_after_a_time_limit() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        repository.push(parse(ONE)).await.unwrap();
        server.stop();
        let fault = repository.pull().await.unwrap_err();
        server.go_on();
        assert_eq!(fault.kind, FaultKind::Unreachable, "{fault}");
        repository.pull().await.unwrap();
    });
}

#[test]
fn a_server_killed_during_a_transfer_causes_a_fault_and_no_partial_set() {
    let Some(mut server) = Server::start() else { return };
    let set: String =
        (0..400).map(|number| ONE.replace("\"a\"", &format!("\"p{number}\""))).collect();
    run(async {
        let repository = server.repository();
        repository.push(parse(&set)).await.unwrap();
        let pulled = {
            let repository = repository.clone();
            tokio::spawn(async move { repository.pull().await })
        };
        // The pull has begun, and takes longer than this sleep.
        tokio::time::sleep(Duration::from_millis(5)).await;
        server.kill();
        match pulled.await.unwrap() {
            Err(fault) => assert_eq!(fault.kind, FaultKind::Unreachable, "{fault}"),
            Ok(snapshot) => assert_eq!(snapshot.parts.len(), 400),
        }
    });
}

#[test]
fn a_referral_is_refused_with_its_address() {
    let Some(server) = Server::start() else { return };
    run(async {
        let repository = server.repository();
        repository.push(parse(ONE)).await.unwrap();
        let referral = format!(
            "dn: ou=elsewhere,{BASE}\nobjectClass: referral\nobjectClass: extensibleObject\nou: elsewhere\n\
             ref: ldap://other.example.net/ou=elsewhere\n"
        );
        server.change("ldapadd", &referral);
        let fault = repository.pull().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Unusable);
        assert!(fault.message.contains("ldap://other.example.net"), "{fault}");
    });
}

/// A server that answers every request with `answer`. If `endless` is set, it repeats the answer
/// without end.
fn hostile(answer: Vec<u8>, endless: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let mut request = [0; 512];
            let _ = client.read(&mut request);
            let chunk = if endless { answer.repeat(1_000) } else { answer.clone() };
            while client.write_all(&chunk).is_ok() && endless {}
        }
    });
    port
}

/// A BER element whose length is written in four bytes.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x84][..], &length, content].concat()
}

/// Catches: a size limit that is checked only at the end of a message, which an endless message
/// never reaches; a parser that calls itself for each of 20,000 levels and overflows the stack.
#[test]
fn a_server_with_endless_or_deeply_nested_answers_is_cut_off() {
    // SearchResultEntry for message 1 with the name "a" and no attributes.
    let entry = b"\x30\x0a\x02\x01\x01\x64\x05\x04\x01a\x30\x00".to_vec();
    let endless_message = b"\x30\x84\x7f\xff\xff\xff\x04\x84\x7f\xff\xff\xf0".to_vec();
    let deep = (0..20_000).fold(Vec::new(), |inner, _| element(0x30, &inner));
    let cases = [
        (entry.clone(), true, FaultKind::Protocol),
        (entry, false, FaultKind::Unreachable),
        (endless_message, true, FaultKind::TooLarge),
        (deep, false, FaultKind::Protocol),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), false, FaultKind::Unreachable),
        (b"\x30\x02\x04\x00".to_vec(), false, FaultKind::Unreachable),
    ];
    for (answer, endless, kind) in cases {
        let head = answer[..8.min(answer.len())].to_vec();
        let mut spec = spec(&format!("ldap://127.0.0.1:{}", hostile(answer, endless)), None);
        // The endless message gets the default limit. The other cases get a lower limit, which
        // makes them quicker.
        if kind != FaultKind::TooLarge {
            spec.max_size = Bytes(1 << 20);
        }
        let fault = fault(&spec);
        assert_eq!(fault.kind, kind, "{head:?}: {fault}");
    }
}

#[test]
fn certificates_are_verified_with_ldaps_and_with_starttls() {
    let Some(server) = Server::with("overlay syncprov\n# tls\n") else { return };
    run(async { server.repository().push(parse(ONE)).await.unwrap() });
    let with = |url: String, ca: bool| {
        let mut spec = spec(&url, Some(server.file("password")));
        spec.access.ca = ca.then(|| server.file("ca.pem"));
        spec
    };
    for url in [server.url(), server.tls_url()] {
        let repository = open(&with(url, true)).unwrap();
        assert_eq!(run(async { repository.pull().await.unwrap() }).revision, "1");
    }
    assert_eq!(fault(&with(server.tls_url(), false)).kind, FaultKind::Untrusted);
    // The gateway logs in with a certificate instead of a password.
    let mut external = with(server.tls_url(), true);
    external.access.user = None;
    external.access.password_file = None;
    external.access.cert = Some(server.file("gateway.pem"));
    external.access.key = Some(server.file("gateway.key"));
    let repository = open(&external).unwrap();
    run(async { repository.push(Vec::new()).await.unwrap() });
}

#[test]
fn a_password_is_never_sent_without_tls() {
    let Some(server) = Server::with("# tls\n") else { return };
    let Some(plain) = Server::start() else { return };
    let mut spec = plain.spec();
    spec.access.ca = Some(server.file("ca.pem"));
    assert_eq!(fault(&spec).kind, FaultKind::Untrusted);
}

#[test]
fn an_expired_certificate_is_named_as_the_cause() {
    let Some(server) = Server::with("# tls # expired\n") else { return };
    let mut spec = spec(&server.tls_url(), Some(server.file("password")));
    spec.access.ca = Some(server.file("ca.pem"));
    let fault = fault(&spec);
    assert_eq!(fault.kind, FaultKind::Untrusted);
    assert!(fault.message.contains("xpired"), "{fault}");
}
