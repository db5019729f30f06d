//! The tuned constants of ACK control, in one table: name, value, and source or experiment.
//!
//! Simple parts and multiples of these, such as half of the longest hold, stand in their formulas and are
//! not counted. Sizes of packets are in `base/src/packet/sizes.rs`.
//!
//! `docs/understand/ack-control-constants.md` shows how results change if a constant is halved or
//! doubled. An architecture test counts these constants: there may only be fewer.

use std::time::Duration;

/// Full segments that an ACK usually acknowledges. The target has room for one ACK's data beyond a round
/// trip, a turn is as long, and an ACK of more than twice as many departs in steps of this length.
///
/// Source: RFC 1122, section 4.2.3.2 (delayed ACKs); `postack`, R001-9 (2 MTU, quantum) and R001-15 (steps).
pub(super) const PER_ACK: u32 = 2;

/// Full segments of the least target, and of the queue that the release rules P1 (bucket) and P2 (virtual
/// queue) do not drain.
///
/// Source: `postack`, R001-9 (2 to 4 MTU).
pub(super) const LEAST_TARGET: u32 = 3;

/// Full segments of the least window: a lost segment, and three whose duplicate ACKs report the loss.
///
/// Source: RFC 5681, section 3.2.
pub(super) const LEAST_WINDOW: u32 = 4;

/// Full segments that a sender begins with.
///
/// Source: RFC 6928, section 2.
pub(super) const FIRST_FLIGHT: u32 = 10;

/// 64 KiB, a byte more than the largest window without scaling: the first window, an application's answer
/// after a pause, and the bytes over which round trips are averaged. Twice as many bytes may arrive that no
/// ACK requested.
///
/// Source: RFC 7323, section 2.2.
pub(super) const UNSCALED: u32 = 1 << 16;

/// Acknowledged bytes for each byte by which a window grows. A responsive sender sends this part more than its
/// ACKs request, so more data than that is a sign of slow start. A reserve that is too short grows by this part
/// in a round trip.
///
/// Source: measured in `postack/inbound` with ten seeds: a provider's buffer drops 86 packets if windows grow
/// by a quarter, and 0.4 if they grow by an eighth.
pub(super) const GROWTH: u32 = 8;

/// Inverse weight of a new sample in a smoothed value.
///
/// Source: RFC 6298, section 2 (alpha = 1/8).
pub(super) const SMOOTHING: u32 = 8;

/// Shortest retransmission timeout of a sender. After a request, data that is later by more than this is
/// unrequested. P1 drains its queue in this time. A hold grows by at most three quarters of it. A flow without
/// a packet for twice this time may count as inactive. A window has room for an ACK of this time at most.
///
/// Source: Linux, `tcp_rto_min` and `TCP_DELACK_MAX`; `postack`, R001-9 (0.2 s) and R001-11 (b) (no spurious timeout).
pub(super) const SHORTEST_RTO: Duration = Duration::from_millis(200);

/// Retransmission timeout of a SYN: the time for which it stops the held ACKs of its ports. The next timeout
/// is twice as long.
///
/// Source: RFC 6298, sections 2.1 and 5.5.
pub(super) const FIRST_RTO: Duration = Duration::from_secs(1);

/// Default of the longest hold. Half of it bridges the halved window after a loss, on paths whose round trip is
/// at most as long. The data of this time may be uncalled. Credit lasts for no more than a round trip of this
/// length, and its half.
pub(super) const MAX_HOLD: Duration = Duration::from_secs(1);

/// Requests are ahead of the rate by this time at most. Requests to application-limited flows get no credit
/// while the rate carries earlier ones within this time. The least reserve of windows, and the hold for which ACKs
/// may stand, are as long.
pub(super) const AHEAD: Duration = Duration::from_millis(20);

/// The least part of its share that a drained flow keeps, in 1024ths.
///
/// Source: `postack`, R001-9 (0.3).
pub(super) const FLOOR: u64 = 307;

/// Reduction of the share that needs no backlog of the flow itself, in 1024ths: 4 %. A flow's data often
/// arrives while its own queue is short. With 2 %, P1 leaves 8 % more data waiting in the cell of four flows
/// of `sim/tests/postack.rs`.
pub(super) const SLIGHTLY: u64 = 41;
