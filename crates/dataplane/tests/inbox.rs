//! Reaching a loop that runs on the host's clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::fd::BorrowedFd;
use std::sync::mpsc;
use std::thread;

use tidegate_core::{Machine, Packet, Time};
use tidegate_dataplane::{Alarm, Bare, Clock, Driver, Monotonic, Options, Remote, Stopped, inbox};

/// The host's clock, and how often it was waited on.
struct Counting(Monotonic, u32);

impl Clock for Counting {
    fn now(&mut self) -> Time {
        self.0.now()
    }

    fn wait(
        &mut self,
        alarm: Option<Alarm>,
        ports: &mut dyn Iterator<Item = BorrowedFd<'_>>,
        inbox: BorrowedFd<'_>,
    ) -> bool {
        self.1 += 1;
        self.0.wait(alarm, ports, inbox)
    }
}

/// A loop without ports; its thread says how often it waited.
fn start() -> (Remote<Bare>, thread::JoinHandle<u32>) {
    let (remote, inbox) = inbox().unwrap();
    let thread = thread::spawn(move || {
        let mut clock = Counting(Monotonic::start(), 0);
        Driver::new(Bare::new(8), Vec::new(), (), inbox, Options::default()).run(&mut clock);
        clock.1
    });
    (remote, thread)
}

#[test]
fn a_loop_answers_questions_and_sleeps_in_between() {
    let (remote, thread) = start();
    let sent = remote.ask(|live| live.machine.pool().insert(Packet::default()).is_some()).unwrap();
    assert!(sent);
    let held = remote.ask(|live| {
        let packet = live.machine.pool().take_back(0).unwrap();
        live.machine.pool().release(packet);
        (live.machine.pool().in_use(), live.ports.len(), live.hangs)
    });
    assert_eq!(held, Ok((0, 0, 0)));
    remote.stop().unwrap();
    let waits = thread.join().unwrap();
    assert!(waits <= 4, "waited {waits} times for three messages");
}

#[test]
fn commands_from_several_threads_all_run_in_the_order_of_each() {
    let (remote, thread) = start();
    let (sender, seen) = mpsc::channel();
    let askers: Vec<_> = (0..4)
        .map(|asker| {
            let (remote, sender) = (remote.clone(), sender.clone());
            thread::spawn(move || {
                for n in 0..100 {
                    let sender = sender.clone();
                    remote.post(move |_| sender.send((asker, n)).unwrap()).unwrap();
                }
            })
        })
        .collect();
    askers.into_iter().for_each(|asker| asker.join().unwrap());
    remote.stop().unwrap();
    thread.join().unwrap();
    drop(sender);
    let seen: Vec<(u32, u32)> = seen.iter().collect();
    for asker in 0..4 {
        let its = seen.iter().filter(|(from, _)| *from == asker).map(|(_, n)| *n);
        assert!(its.eq(0..100));
    }
}

#[test]
fn a_loop_that_has_ended_says_so() {
    let (remote, thread) = start();
    remote.stop().unwrap();
    thread.join().unwrap();
    assert_eq!(remote.ask(|_| ()), Err(Stopped));
    assert_eq!(remote.stop(), Err(Stopped));
}
