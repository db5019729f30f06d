//! JoBS: schedules the classes of a link and manages their shared buffer in one mechanism.
//!
//! A class `i` has up to five promises:
//!
//! - ALC (absolute loss constraint), the term `loss_bound`: its loss `p_i` is at most `L_i`.
//! - ADC (absolute delay constraint), `delay_bound`: its delay `D_i` is at most `d_i`.
//! - ARC (absolute rate constraint), `guarantee`: its rate `r_i` is at least `mu_i` while it is
//!   backlogged.
//! - RDC (relative delay constraint), `delay_ratio`: `D_i = factor * D_of`.
//! - RLC (relative loss constraint), `loss_ratio`: `p_i = factor * p_of`.
//!
//! Each class has three curves: input `R_in`, output `R_out`, and theoretical output `R_th`, which grows at the
//! class's rate `r_i`. The backlogged class with the largest `R_th - R_out` sends next. Every arrival adjusts
//! the rates, whose sum is the rate `C` of the link:
//!
//! 1. If the set of backlogged classes changed, or one of them has no rate, each gets `C / number`.
//! 2. If the buffer is full, a class drops its newest packet (`loss.rs`).
//! 3. ADC and ARC need `r_i >= max(mu_i, backlog_i / (d_i - age_i))`, and `C` after the deadline. A
//!    class below this rate takes rate from other classes. If this rate is not enough, classes drop
//!    packets, but not beyond their ALC.
//! 4. RDC moves rate to classes that wait too long in relation to others (`rates.rs`).
//!
//! If not all promises are feasible, ALC precedes ADC and ARC, which precede RDC and RLC. Relaxations and
//! violations are counted for each class and promise (`record.rs`). Loss and input curves count from the start
//! of a busy period: the time in which packets wait without interruption.
//!
//! Cost: each arrival and departure visits all classes, so a packet costs O(classes). The algorithm
//! requires this.
//!
//! Source: `marking`, section 3 (its scheduler is JoBS of INFOCOM 2001); ns-2 2.35, `queue/jobs.cc` (gain).
//! Differs:
//! - `R_th` of all classes grows with the bytes that the link sends, so control traffic and a late
//!   driver take nothing from a single class. The authors' code lets `R_th` of a class grow at
//!   arrivals of that class ([`Output::Arrivals`]). Between two arrivals the class falls behind,
//!   and its packets may be late.
//! - The mean packet length is measured; ns-2 has a parameter for it.
//! - The gain ignores classes without traffic in this busy period. In ns-2, such a class sets the
//!   gain to zero.
//! - Several losses in one arrival all count in `p_i`. ns-2 forgets all but the last.
//! - Control traffic that exceeds its allowance is one more class without promises.

mod class;
mod loss;
mod rates;
mod record;
#[cfg(test)]
mod tests;
mod weights;

use super::{ClassState, Delays, Kept, OwnTerms, Ratio, Scheduler, Term};
use crate::class::{ClassId, Sent, Terms};
use crate::packet::number;
use crate::units::real;
use crate::{Bytes, Chance, Rate, Time, choice, parameters, terms};
use class::JobsClass;
use rates::OfferedLoad;

parameters! {
    /// Parameters of JoBS.
    pub Config {
        /// Rule that selects the class that drops a packet when the buffer is full. `furthest` selects the class
        /// that is furthest below its loss bound. `ns2` selects the last backlogged class, as a fault in ns-2 does,
        /// for comparison.
        victim: Search = Search::default();
        /// Events at which the theoretical output of a class (the bytes that it should have sent at its rate) grows:
        /// transmissions of the link (`continuous`), or arrivals of the class (`arrivals`), as in the authors' code,
        /// for comparison.
        output: Output = Output::default();
    }
    apart {
        /// Bytes that may wait in all classes together: `buffer` of the gateway.
        buffer: Bytes = Self::BUFFER;
    }
}

choice! {
    /// The rule that selects the class that drops a packet when the buffer is full.
    #[derive(Default)]
    pub enum Search {
        /// The class that is furthest below its loss bound. Among equal classes, the class of lower priority.
        Furthest = "furthest" [default],
        /// The backlogged class of lowest priority, as in ns-2, whose search has a fault. Only for
        /// comparison.
        Ns2 = "ns2",
    }
}

choice! {
    /// The events at which the theoretical output of a class grows.
    #[derive(Default)]
    pub enum Output {
        /// Arrivals of the class, as in the authors' code. Only for comparison.
        Arrivals = "arrivals",
        /// Transmissions of the link.
        Continuous = "continuous" [default],
    }
}

terms! {
    /// Promises that only JoBS makes to a class.
    pub Promises, with [GUARANTEE, PRIORITY, DELAY_BOUND] {
        /// Largest fraction of its bytes that may be dropped while packets wait, such as "1 %";
        /// only with scheduler "jobs". Default: not bounded.
        LOSS_BOUND = loss_bound: Chance, about_drops;
        /// Queueing delay relative to the delay of another class; only with scheduler "jobs".
        /// Default: none.
        DELAY_RATIO = delay_ratio: Ratio;
        /// Loss relative to the loss of another class; only with scheduler "jobs". Default: none.
        LOSS_RATIO = loss_ratio: Ratio;
    }
}

impl Config {
    /// The terms that classes of this scheduler can have.
    pub(super) const TERMS: &'static [Term] = &Promises::ALL;

    /// Bytes that may wait, as in the second experiment of `marking`.
    pub const BUFFER: Bytes = Bytes(250_000);

    pub(super) fn build(&self, rate: Rate) -> Jobs {
        Jobs {
            search: self.victim,
            output: self.output,
            buffer: self.buffer,
            link: rate,
            classes: vec![JobsClass::default()],
            free: Vec::new(),
            order: Vec::new(),
            unweighted: false,
            changed: false,
            backlogged: 0,
            queued: Bytes::ZERO,
            free_at: Time::ZERO,
            newcomer: 0,
            load: OfferedLoad::default(),
            window: record::Window::default(),
            states: Vec::new(),
        }
    }
}

/// Classes of a link in one direction.
pub(super) struct Jobs {
    search: Search,
    output: Output,
    buffer: Bytes,
    link: Rate,
    /// The classes, by class number. The first is the link.
    classes: Vec<JobsClass>,
    free: Vec<u32>,
    /// Indices of the classes, the highest priority first. Classes of equal priority are in the order of the file.
    order: Vec<usize>,
    /// The weights do not match the relations of the classes.
    unweighted: bool,
    /// The set of backlogged classes changed since the last arrival.
    changed: bool,
    /// Number of backlogged classes.
    backlogged: u32,
    /// Bytes in the buffer.
    queued: Bytes,
    /// Time at which the link will have sent all its packets.
    free_at: Time,
    /// The class of the latest arrival.
    newcomer: usize,
    load: OfferedLoad,
    window: record::Window,
    states: Vec<ClassState>,
}

impl Scheduler for Jobs {
    fn declares(&self) -> &'static [Term] {
        Config::TERMS
    }

    fn buffer(&self) -> Option<Bytes> {
        Some(self.buffer)
    }

    fn reserve(&mut self, more: usize) {
        self.classes.reserve_exact(more);
        self.order.reserve_exact(more);
        self.free.reserve_exact(self.classes.capacity().saturating_sub(self.free.len()));
    }

    fn add(&mut self, _: Time, _: ClassId, terms: Terms) -> ClassId {
        let class = JobsClass::new(terms);
        let id = match self.free.pop() {
            Some(free) => {
                let id = ClassId(free);
                self.classes[id.index()] = class;
                id
            }
            None => {
                self.classes.push(class);
                ClassId(number(self.classes.len() - 1))
            }
        };
        self.order.push(id.index());
        id
    }

    fn remove(&mut self, id: ClassId) {
        self.idle(id);
        self.classes[id.index()] = JobsClass::default();
        self.order.retain(|at| *at != id.index());
        self.unweighted = true;
        self.free.push(id.0);
    }

    fn set(&mut self, _: Time, id: ClassId, terms: Terms) {
        let class = &mut self.classes[id.index()];
        self.unweighted |= class.terms.priority != terms.priority;
        class.terms = terms;
    }

    fn set_own(&mut self, id: ClassId, rank: u32, own: &OwnTerms<'_>) {
        let class = &mut self.classes[id.index()];
        (class.rank, class.promises) = (rank, Promises::read(own));
        self.unweighted = true;
    }

    fn set_rate(&mut self, _: Time, rate: Rate) {
        if rate != self.link {
            self.link = rate;
            self.changed = true;
        }
    }

    fn terms(&self, id: ClassId) -> Terms {
        self.classes[id.index()].terms
    }

    fn is_leaf(&self, id: ClassId) -> bool {
        id != ClassId::ROOT
    }

    fn counts(&self, id: ClassId) -> Sent {
        self.classes[id.index()].sent
    }

    fn wait(&mut self, now: Time, leaf: ClassId) {
        if self.classes[leaf.index()].backlogged {
            return;
        }
        self.end_windows(now);
        if self.backlogged == 0 && now >= self.free_at {
            self.classes.iter_mut().for_each(JobsClass::begin_busy_period);
        }
        self.grow(now, leaf);
        self.classes[leaf.index()].backlogged = true;
        self.backlogged += 1;
        self.changed = true;
    }

    fn idle(&mut self, leaf: ClassId) {
        let class = &mut self.classes[leaf.index()];
        self.queued = self.queued.saturating_sub(class.withdraw_all());
        self.becomes_idle(leaf.index());
    }

    fn arrived(&mut self, now: Time, leaf: ClassId, len: Bytes) -> Option<ClassId> {
        self.end_windows(now);
        self.load.note(now, len);
        self.queued += len;
        self.newcomer = leaf.index();
        self.grow(now, leaf);
        self.classes[leaf.index()].arrived(now, len);
        self.adjust(now)
    }

    fn dropped(&mut self, now: Time, leaf: ClassId, more: bool) -> Option<ClassId> {
        let len = self.classes[leaf.index()].dropped();
        self.queued = self.queued.saturating_sub(len);
        if !more {
            self.becomes_idle(leaf.index());
        }
        self.adjust(now)
    }

    fn withdrawn(&mut self, leaf: ClassId, queued: Time) {
        let len = self.classes[leaf.index()].withdraw(queued);
        self.queued = self.queued.saturating_sub(len);
    }

    fn next(&mut self, _: Time) -> Option<ClassId> {
        let mut first: Option<(usize, f64)> = None;
        for at in self.order.iter().copied().filter(|at| self.classes[*at].backlogged) {
            let behind = self.classes[at].behind();
            if first.is_none_or(|(_, most)| behind > most) {
                first = Some((at, behind));
            }
        }
        first.map(|(at, _)| ClassId(number(at)))
    }

    fn sent(&mut self, now: Time, leaf: ClassId, len: Bytes, more: bool) {
        self.end_windows(now);
        if self.output == Output::Continuous {
            let part = real(len.0) / real(self.link.bps().max(1));
            for class in self.classes.iter_mut().filter(|class| class.backlogged) {
                class.theory += part * class.rate;
            }
        }
        let left = self.classes[leaf.index()].sent(now, len);
        self.queued = self.queued.saturating_sub(left);
        self.free_at = self.free_at.max(now) + self.link.time_for(len);
        if !more {
            self.becomes_idle(leaf.index());
        }
    }

    fn ready_at(&mut self, now: Time) -> Option<Time> {
        (self.backlogged > 0).then_some(now)
    }

    fn class_states(&mut self, _: Time) -> &[ClassState] {
        self.states.clear();
        self.states.extend(self.classes.iter().map(JobsClass::state));
        &self.states
    }

    fn kept(&self, id: ClassId) -> Vec<Kept> {
        record::kept(&self.classes, id.index())
    }

    fn delays(&self, id: ClassId) -> Option<Delays> {
        Some(self.classes[id.index()].record.delays())
    }
}

impl Jobs {
    /// Adjusts the buffer and the rates after an arrival or a drop. Returns the class that must
    /// drop.
    fn adjust(&mut self, now: Time) -> Option<ClassId> {
        if self.unweighted {
            self.weigh();
        }
        let victim = if self.queued > self.buffer {
            Some(self.overflow_victim())
        } else {
            self.keep_bounds(now)
        };
        if victim.is_none() {
            self.keep_delay_ratios(now);
        }
        victim.map(|at| ClassId(number(at)))
    }

    /// With [`Output::Arrivals`]: advances the theoretical output of a class at an arrival.
    fn grow(&mut self, now: Time, leaf: ClassId) {
        if self.output == Output::Arrivals {
            self.classes[leaf.index()].grow(now);
        }
    }

    fn becomes_idle(&mut self, at: usize) {
        let class = &mut self.classes[at];
        debug_assert_eq!(class.backlog(), Bytes::ZERO, "an idle class has packets");
        if std::mem::take(&mut class.backlogged) {
            class.window.interrupted = true;
            self.backlogged -= 1;
            self.changed = true;
        }
    }
}
