//! Checks that the gateway's programs are still attached to the ports, before all foreign programs.

use std::fmt;

use super::survey::{At, Found, Survey};
use crate::interface::Interface;

/// Checks the programs of a gateway on its ports.
#[derive(Clone, Debug, Default)]
pub struct Guard(Vec<Guarded>);

/// The program ids of a gateway on one port.
#[derive(Clone, Debug)]
pub(super) struct Guarded {
    interface: Interface,
    xdp: Option<u32>,
    tc: Option<u32>,
}

/// A missing program of the gateway, or a foreign program before it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trouble {
    interface: String,
    kind: Kind,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Kind {
    /// A foreign program runs before the gateway's.
    Foreign(String),
    /// A program of the gateway has been detached.
    Missing(&'static str),
}

impl Guard {
    pub(super) const fn new(ports: Vec<Guarded>) -> Self {
        Self(ports)
    }

    /// Checks all ports. Detaches programs of dead gateways, and returns the remaining troubles.
    #[must_use]
    pub fn look(&self) -> Vec<Trouble> {
        self.0.iter().flat_map(Guarded::look).collect()
    }
}

impl Guarded {
    pub(super) fn new(interface: &Interface, xdp: Option<u32>, tc: Option<u32>) -> Self {
        Self { interface: interface.clone(), xdp, tc }
    }

    fn look(&self) -> Vec<Trouble> {
        // `Watch` in the daemon reports missing interfaces.
        let Ok(survey) = Survey::of(&self.interface) else { return Vec::new() };
        for orphan in survey.ours().filter(|found| !self.is_mine(found) && !found.is_alive()) {
            match orphan.detach(&self.interface) {
                Ok(()) => tracing::info!("{orphan} of an earlier gateway is detached"),
                Err(error) => tracing::warn!(%error, "{orphan} of an earlier gateway stays"),
            }
        }
        let stays = |found: &&Found| self.is_mine(found) || !found.is_ours() || found.is_alive();
        let found: Vec<_> = survey.found.iter().filter(stays).collect();
        let is = |wanted: Option<u32>| move |it: &&Found| Some(it.program.id) == wanted;
        let mut troubles = Vec::new();
        for (wanted, name) in [(self.xdp, "XDP"), (self.tc, "tc")] {
            if wanted.is_some() && !found.iter().any(is(wanted)) {
                troubles.push(self.trouble(Kind::Missing(name)));
            }
        }
        // A program behind our last one sees only the frames that ours pass on.
        let last = found.iter().rposition(|found| self.is_mine(found)).unwrap_or(found.len());
        let before = found.iter().take(last).filter(|found| !self.is_mine(found));
        troubles.extend(before.map(|found| self.trouble(Kind::Foreign(found.to_string()))));
        troubles
    }

    fn is_mine(&self, found: &Found) -> bool {
        let wanted = if matches!(found.at, At::Xdp(_)) { self.xdp } else { self.tc };
        wanted == Some(found.program.id)
    }

    fn trouble(&self, kind: Kind) -> Trouble {
        Trouble { interface: self.interface.name().to_owned(), kind }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.interface;
        match &self.kind {
            Kind::Foreign(program) => write!(
                f,
                "{program} comes before the gateway on `{name}`: frames it takes are not managed; \
                 detach it, or start it after the gateway"
            ),
            Kind::Missing(kind) => write!(
                f,
                "the {kind} program of the gateway is not on `{name}` any more: start the gateway \
                 again"
            ),
        }
    }
}
