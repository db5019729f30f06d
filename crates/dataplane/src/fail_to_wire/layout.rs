//! Constants and counters that the BPF programs and the gateway share. The constants have the same
//! values in the C header `bpf/wire.h`.

use tidegate_core::Count;
use tidegate_gateway::report::Bypassed;

/// Maximum number of receive queues of an interface.
pub(crate) const MAX_QUEUES: u32 = 64;

/// The deadline value by which a gateway requests bypass while it starts, ends, or is switched off.
pub(super) const PASS_REQUESTED: u64 = 0;

/// The deadline value by which a gateway requests bypass while it has nothing to manage.
pub(super) const NOTHING_TO_MANAGE: u64 = 1;

/// Number of reasons for a bypass. A reason is an index of the map `bypassed`.
pub(super) const REASONS: u32 = 4;

/// The frames in `bypassed` that are counted at index `reason` of the map.
pub(super) const fn count_of(bypassed: &mut Bypassed, reason: u32) -> Option<&mut Count> {
    match reason {
        0 => Some(&mut bypassed.requested),
        1 => Some(&mut bypassed.silent),
        2 => Some(&mut bypassed.no_socket),
        3 => Some(&mut bypassed.idle),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_equal_the_constants_of_the_c_header() {
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
                ("PASS_REQUESTED", PASS_REQUESTED),
                ("NOTHING_TO_MANAGE", NOTHING_TO_MANAGE),
                ("BYPASS_REQUESTED", 0),
                ("BYPASS_SILENT", 1),
                ("BYPASS_NO_SOCKET", 2),
                ("BYPASS_IDLE", 3),
                ("BYPASS_REASONS", u64::from(REASONS)),
            ]
        );
    }

    #[test]
    fn every_reason_has_a_count_of_its_own() {
        let mut bypassed = Bypassed::default();
        (0..REASONS).for_each(|reason| count_of(&mut bypassed, reason).unwrap().packets += 1);
        let one = Count { packets: 1, bytes: 0 };
        assert_eq!(bypassed, Bypassed { requested: one, silent: one, no_socket: one, idle: one });
        assert!(count_of(&mut bypassed, REASONS).is_none() && bypassed.frames() == 4);
    }
}
