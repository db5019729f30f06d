//! Constants shared by the BPF programs and the gateway: `bpf/wire.h`, in Rust.

/// Maximum number of receive queues of an interface.
pub(crate) const MAX_QUEUES: u32 = 64;

/// The deadline by which the gateway requests bypass.
pub(super) const TOLD_TO_PASS: u64 = 0;

/// Frames of one port that bypassed the gateway since the port first had fail-to-wire, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bypassed {
    /// Bypassed at the gateway's request: during its start and end, and without anything to manage.
    pub told: u64,
    /// Bypassed because the heartbeat had timed out.
    pub silent: u64,
    /// Bypassed because the gateway was dead, or has no socket for the receive queue.
    pub no_socket: u64,
}

impl Bypassed {
    /// Number of reasons.
    pub(super) const REASONS: u32 = 3;

    /// The count at index `reason` of the map.
    pub(super) const fn of(&mut self, reason: u32) -> Option<&mut u64> {
        match reason {
            0 => Some(&mut self.told),
            1 => Some(&mut self.silent),
            2 => Some(&mut self.no_socket),
            _ => None,
        }
    }

    /// The sum of these counts and `other`.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            told: self.told + other.told,
            silent: self.silent + other.silent,
            no_socket: self.no_socket + other.no_socket,
        }
    }

    /// Frames that bypassed the gateway for any reason.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.told + self.silent + self.no_socket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_equal_those_of_the_c_header() {
        let header = include_str!("../../../../bpf/wire.h");
        let numbers: Vec<(&str, u64)> = header
            .lines()
            .filter_map(|line| line.strip_prefix("#define "))
            .filter_map(|define| {
                let mut words = define.split_whitespace();
                Some((words.next()?, words.next()?.parse().ok()?))
            })
            .collect();
        assert_eq!(
            numbers,
            [
                ("MAX_QUEUES", u64::from(MAX_QUEUES)),
                ("TOLD_TO_PASS", TOLD_TO_PASS),
                ("BYPASS_TOLD", 0),
                ("BYPASS_SILENT", 1),
                ("BYPASS_NO_SOCKET", 2),
                ("BYPASS_REASONS", u64::from(Bypassed::REASONS)),
            ]
        );
    }

    #[test]
    fn every_reason_has_a_count_of_its_own() {
        let mut bypassed = Bypassed::default();
        (0..Bypassed::REASONS).for_each(|reason| *bypassed.of(reason).unwrap() += 1);
        assert_eq!(bypassed, Bypassed { told: 1, silent: 1, no_socket: 1 });
        assert!(bypassed.of(Bypassed::REASONS).is_none() && bypassed.total() == 3);
    }
}
