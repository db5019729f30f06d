//! Constants and counters that the BPF programs and the gateway share. The constants have the same
//! values in the C header `bpf/wire.h`.

/// Maximum number of receive queues of an interface.
pub(crate) const MAX_QUEUES: u32 = 64;

/// The deadline value by which a gateway requests bypass while it starts, ends, or is switched off.
pub(super) const PASS_REQUESTED: u64 = 0;

/// The deadline value by which a gateway requests bypass while it has nothing to manage.
pub(super) const NOTHING_TO_MANAGE: u64 = 1;

/// A number of frames, and their bytes from the Ethernet header on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FrameCount {
    /// Frames as the interface counts them. A super-frame is one frame.
    pub frames: u64,
    /// Bytes of the frames.
    pub bytes: u64,
}

impl FrameCount {
    /// The sum of both counts.
    const fn and(self, other: Self) -> Self {
        Self { frames: self.frames + other.frames, bytes: self.bytes + other.bytes }
    }
}

/// Frames that bypassed the gateway at one port, by reason, since these programs were first
/// attached to the port.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bypassed {
    /// Bypassed at the gateway's request: during its start and end, and while it was switched off.
    pub requested: FrameCount,
    /// Bypassed because the heartbeat had timed out.
    pub silent: FrameCount,
    /// Bypassed because the gateway was dead, or had no socket for the receive queue.
    pub no_socket: FrameCount,
    /// Bypassed because the gateway had nothing to manage.
    pub idle: FrameCount,
}

impl Bypassed {
    /// Number of reasons. A reason is an index of the map `bypassed`.
    pub(super) const REASONS: u32 = 4;

    /// The count at index `reason` of the map.
    pub(super) const fn of(&mut self, reason: u32) -> Option<&mut FrameCount> {
        match reason {
            0 => Some(&mut self.requested),
            1 => Some(&mut self.silent),
            2 => Some(&mut self.no_socket),
            3 => Some(&mut self.idle),
            _ => None,
        }
    }

    /// The sum of these counts and `other`.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            requested: self.requested.and(other.requested),
            silent: self.silent.and(other.silent),
            no_socket: self.no_socket.and(other.no_socket),
            idle: self.idle.and(other.idle),
        }
    }

    /// Frames that bypassed the gateway for any reason.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let Self { requested, silent, no_socket, idle } = self;
        requested.frames + silent.frames + no_socket.frames + idle.frames
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
                ("BYPASS_REASONS", u64::from(Bypassed::REASONS)),
            ]
        );
    }

    #[test]
    fn every_reason_has_a_count_of_its_own() {
        let mut bypassed = Bypassed::default();
        (0..Bypassed::REASONS).for_each(|reason| bypassed.of(reason).unwrap().frames += 1);
        let one = FrameCount { frames: 1, bytes: 0 };
        assert_eq!(bypassed, Bypassed { requested: one, silent: one, no_socket: one, idle: one });
        assert!(bypassed.of(Bypassed::REASONS).is_none() && bypassed.total() == 4);
    }
}
