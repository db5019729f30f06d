//! A trunk that is told something else while it runs.

use super::{Config, Counts, Ends, Trunk};
use crate::packet::Fifo;
use crate::{Cx, Time};

impl Trunk {
    /// It, as `config` says, which has the same name: it keeps its counts, and what waits, in order.
    ///
    /// Where only guarantee, ceiling, VMSS or fallback are others, its connections go on as they are. Otherwise they
    /// begin anew, with chance from `seed`, and what finds no room in a smaller queue is dropped.
    #[must_use]
    pub fn changed(mut self, cx: &mut Cx<'_>, config: &Config, seed: u64) -> Self {
        if *self.config() == *config {
            return self;
        }
        if self.goes_on_as(config) {
            match &mut self.ends {
                Ends::Management(ends) => ends.0.change(config, cx.now),
                Ends::Epochs(ends) => ends.change(config, cx.now),
            }
            self.config = config.clone();
            return self;
        }
        let mut next =
            Self { before: self.counts(), ..Self::new(config, anew(seed, cx.now), cx.now) };
        next.remember(&self);
        while let Some(packet) = self.tunnel_mut().take_out(cx) {
            next.tunnel_mut().push(cx, packet);
        }
        next
    }

    /// Whether the other end was ever there is known, if it is that of `before`.
    fn remember(&mut self, before: &Self) {
        let same =
            (self.config.local, self.config.peer) == (before.config.local, before.config.peer);
        if let (Ends::Management(ends), Ends::Management(others), true) =
            (&mut self.ends, &before.ends, same)
        {
            ends.0.remember(&others.0);
        }
    }

    /// What waits goes to `out` as it came, and what it has done is told: it is no more.
    #[must_use]
    pub fn end(mut self, cx: &mut Cx<'_>, out: &mut Fifo) -> Counts {
        self.flush(cx, out);
        self.counts()
    }

    /// Whether its connections can go on where it is as `next` says.
    fn goes_on_as(&self, next: &Config) -> bool {
        let Config { guarantee, ceiling, vmss, fallback, .. } = *next;
        Config { guarantee, ceiling, vmss, fallback, ..self.config.clone() } == *next
    }
}

/// A seed for connections that begin at `now`: the other end may remember those from before.
const fn anew(seed: u64, now: Time) -> u64 {
    seed ^ now.nanos()
}
