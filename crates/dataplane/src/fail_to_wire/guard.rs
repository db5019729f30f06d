//! Checks the bypass programs, which forward frames while the gateway is not alive: they must still
//! be attached to the ports, and no foreign program (a program that is not Tidegate's) may run
//! before them.

use std::fmt;
use std::io;

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

/// A fault on a port: a program of the gateway is missing, a foreign program runs before it, or the
/// kernel does not list the programs.
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
    /// The kernel does not list the programs.
    Unseen(String),
}

impl Guard {
    pub(super) const fn new(ports: Vec<Guarded>) -> Self {
        Self(ports)
    }

    /// Checks all ports, and returns their troubles. Detaches programs of dead gateways. If a port
    /// cannot be checked, its troubles in `last_troubles` (the result of the last check) remain.
    #[must_use]
    pub fn look(&self, last_troubles: &[Trouble]) -> Vec<Trouble> {
        let look = |port: &Guarded| port.look(Survey::of(&port.interface), last_troubles);
        self.0.iter().flat_map(look).collect()
    }
}

impl Guarded {
    pub(super) fn new(interface: &Interface, xdp: Option<u32>, tc: Option<u32>) -> Self {
        Self { interface: interface.clone(), xdp, tc }
    }

    fn look(&self, survey: io::Result<Survey>, last_troubles: &[Trouble]) -> Vec<Trouble> {
        let survey = match survey {
            Ok(survey) => survey,
            // The daemon's watch of the ports reports an interface that no longer exists.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => {
                return Vec::new();
            }
            Err(error) => return self.unseen(&error, last_troubles),
        };
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
        // A foreign program that runs after our last program sees only the frames that our programs
        // pass on.
        let last = found.iter().rposition(|found| self.is_mine(found)).unwrap_or(found.len());
        let before = found.iter().take(last).filter(|found| !self.is_mine(found));
        troubles.extend(before.map(|found| self.trouble(Kind::Foreign(found.to_string()))));
        troubles
    }

    /// The troubles of this port in `last_troubles`, plus the failure of this check.
    fn unseen(&self, error: &io::Error, last_troubles: &[Trouble]) -> Vec<Trouble> {
        let seen = |it: &&Trouble| {
            it.interface == self.interface.name() && !matches!(it.kind, Kind::Unseen(_))
        };
        let mut troubles: Vec<_> = last_troubles.iter().filter(seen).cloned().collect();
        troubles.push(self.trouble(Kind::Unseen(error.to_string())));
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
            Kind::Unseen(error) => write!(f, "cannot list the programs on `{name}`: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a failed check that clears the alarm of an earlier check; a failed check that
    /// raises no alarm; an alarm reported twice.
    #[test]
    fn a_failed_check_keeps_the_alarms_of_its_port_and_raises_its_own() {
        let port = Guarded::new(&Interface::find("lo").unwrap(), Some(1), None);
        let failed = |number| Err(io::Error::from_raw_os_error(number));
        let before = [port.trouble(Kind::Missing("XDP"))];
        for number in [libc::EPERM, libc::EMFILE, libc::ENOBUFS] {
            let mut now = port.look(failed(number), &before);
            assert_eq!(now.len(), 2, "{now:?}");
            assert_eq!(now[0], before[0]);
            assert!(now[1].to_string().starts_with("cannot list the programs on `lo`: "));
            assert_eq!(port.look(failed(number), &now), now);
            let other = Trouble { interface: "other".to_owned(), ..now[0].clone() };
            now[0] = other;
            assert_eq!(port.look(failed(number), &now).len(), 1, "a trouble of another port");
        }
        assert_eq!(port.look(failed(libc::ENODEV), &before), []);
        let nothing = Survey { interface: Interface::find("lo").unwrap(), found: Vec::new() };
        assert_eq!(port.look(Ok(nothing), &port.look(failed(libc::EPERM), &before)), before);
    }
}
