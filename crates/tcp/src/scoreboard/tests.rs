//! The scoreboard (the list of segments in flight) compared with a model that searches a plain list
//! from end to end.

use proptest::prelude::*;

use super::*;

/// A segment of the model.
#[derive(Clone, Copy, Debug)]
struct Plain {
    start: u64,
    end: u64,
    at: u64,
    sacked: bool,
    lost: bool,
    copy: bool,
}

#[derive(Default)]
struct Model {
    sent: Vec<Plain>,
    una: u64,
    delivered: u64,
}

impl Model {
    fn sum(&self, which: impl Fn(&Plain) -> bool) -> u64 {
        self.sent.iter().filter(|it| which(it)).map(|it| it.end - it.start).sum()
    }

    fn pipe(&self) -> u64 {
        // RFC 6675, `SetPipe`: segments that are neither delivered nor lost, and every
        // retransmission.
        self.sum(|it| !it.sacked && !it.lost) + self.sum(|it| it.copy)
    }

    fn acknowledge(&mut self, to: u64) {
        self.delivered += self
            .sent
            .iter()
            .filter(|it| !it.sacked)
            .map(|it| it.end.min(to).saturating_sub(it.start))
            .sum::<u64>();
        self.sent.retain(|it| it.end > to);
        for it in &mut self.sent {
            it.start = it.start.max(to);
        }
        self.una = to;
    }

    fn sack(&mut self, from: u64, to: u64) {
        for it in self.sent.iter_mut().filter(|it| !it.sacked && it.start >= from && it.end <= to) {
            self.delivered += it.end - it.start;
            (it.sacked, it.lost, it.copy) = (true, false, false);
        }
    }

    /// RFC 6675, `IsLost`, in segments.
    fn lose_by_count(&mut self) {
        for index in 0..self.sent.len() {
            let above = self.sent[index..].iter().filter(|it| it.sacked).count();
            let it = &mut self.sent[index];
            it.lost |= !it.sacked && above >= 3;
        }
    }

    /// RFC 8985, section 6.2, step 5 with a wait of zero: loses segments sent before `at`. Returns
    /// the start of the next segment.
    fn lose_older(&mut self, at: u64) -> Option<u64> {
        let waited_for = |it: &&mut Plain| !it.sacked && (!it.lost || it.copy);
        for it in self.sent.iter_mut().filter(waited_for).filter(|it| it.at < at) {
            (it.lost, it.copy) = (true, false);
        }
        self.sent.iter_mut().filter(waited_for).min_by_key(|it| it.at).map(|it| it.start)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(u64),
    /// Acknowledges this many thousandths of the data in flight.
    Acknowledge(u64),
    /// A SACK block over a part of the data in flight, in thousandths.
    Sack(u64, u64),
    LoseByCount,
    LoseOlder(u64),
    LoseAll,
    Forget,
    Repeat,
    /// Sends the last segment again, as a tail loss probe.
    Probe,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..1_500u64).prop_map(|len| Step::Send(if len > 500 { 1_000 } else { len })),
        3 => (0..400u64).prop_map(Step::Acknowledge),
        1 => (800..1_100u64).prop_map(Step::Acknowledge),
        4 => (0..1_000u64, 0..300u64).prop_map(|(from, len)| Step::Sack(from, len)),
        2 => Just(Step::LoseByCount),
        2 => (0..300u64).prop_map(Step::LoseOlder),
        1 => Just(Step::LoseAll),
        1 => Just(Step::Forget),
        4 => Just(Step::Repeat),
        1 => Just(Step::Probe),
    ];
    proptest::collection::vec(step, 0..150)
}

fn place(model: &Model, thousandths: u64) -> u64 {
    let end = model.sent.last().map_or(model.una, |it| it.end);
    model.una + (end - model.una) * thousandths.min(1_000) / 1_000
}

fn take(board: &mut Scoreboard, model: &mut Model, step: Step, now: u64) {
    let mut delivered = Delivered::default();
    let before = model.delivered;
    match step {
        Step::Send(len) => {
            let start = board.end();
            let (end, at) = (start + len, Time::from_nanos(now));
            board.push((Sent::new(start, end, at, false), Stamp::default()));
            model.sent.push(Plain { start, end, at: now, sacked: false, lost: false, copy: false });
        }
        Step::Acknowledge(part) => {
            let to = place(model, part);
            board.acknowledge(to, &mut delivered);
            model.acknowledge(to);
        }
        Step::Sack(from, len) => {
            let (from, to) = (place(model, from), place(model, from + len));
            board.sack(from, to, &mut delivered);
            model.sack(from, to);
        }
        Step::LoseByCount => {
            board.lose_by_count(DUPLICATES);
            model.lose_by_count();
        }
        Step::LoseOlder(_) if !board.by_time => {}
        Step::LoseOlder(age) => {
            let at = now.saturating_sub(age);
            let next = board.lose_older(|sent| sent.at < Time::from_nanos(at));
            assert_eq!(next.map(|sent| sent.start), model.lose_older(at), "the next to be lost");
        }
        Step::LoseAll => {
            board.lose_all();
            if model.sent.first().is_some_and(|it| it.sacked) {
                model.sent.iter_mut().for_each(|it| it.sacked = false);
            }
            for it in model.sent.iter_mut().filter(|it| !it.sacked) {
                (it.lost, it.copy) = (true, false);
            }
        }
        Step::Forget => {
            board.forget_losses();
            for it in model.sent.iter_mut().filter(|it| !it.copy) {
                it.lost = false;
            }
        }
        Step::Repeat => {
            let next = board.next_lost().map(|sent| sent.start);
            if let Some(start) = next {
                let sent = Sent::new(start, start, Time::from_nanos(now), false);
                board.repeat(start, (sent, Stamp::default()));
            }
            if let Some(it) = model.sent.iter_mut().find(|it| it.lost && !it.copy) {
                assert_eq!(next, Some(it.start), "the lowest lost is repaired first");
                (it.copy, it.at) = (true, now);
            }
        }
        Step::Probe => {
            if let Some(it) = model.sent.last_mut().filter(|it| !it.sacked) {
                let sent = Sent::new(it.start, it.start, Time::from_nanos(now), false);
                board.repeat(it.start, (sent, Stamp::default()));
                (it.copy, it.at) = (true, now);
            }
        }
    }
    assert_eq!(delivered.bytes, model.delivered - before, "{step:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Catches: a run of delivered segments that is one segment too long; a lost segment that is
    /// not found because delivered segments precede it; a lost segment that is not retransmitted,
    /// because the search begins beyond it; a retransmission that is missing in the list by send
    /// time; a list that is dropped before the sent data is acknowledged; wrong counters after a
    /// segment was acknowledged in part.
    #[test]
    fn the_scoreboard_agrees_with_a_plain_list(by_time in any::<bool>(), steps in steps()) {
        let (mut board, mut model) = (Scoreboard::new(by_time, false), Model::default());
        for (now, step) in (1u64..).zip(steps) {
            take(&mut board, &mut model, step, now);
            prop_assert_eq!(board.pipe(), model.pipe(), "{:?}", step);
            prop_assert_eq!(board.lost(), model.sum(|it| it.lost));
            prop_assert_eq!(board.sacked(), model.sum(|it| it.sacked));
            let lowest = model.sent.iter().find(|it| it.lost && !it.copy).map(|it| it.start);
            prop_assert_eq!(board.next_lost().map(|sent| sent.start), lowest, "{:?}", step);
        }
    }
}
