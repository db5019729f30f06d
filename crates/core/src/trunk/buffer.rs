//! The buffer that a router needs so that it drops only management packets of its trunks, and no user packets.
//!
//! `buffer = sum of (alpha * management + (alpha + 1) * VMSS) / (1 - guaranteed)`, where the sum is over all management
//! connections. `alpha` is the number of management packets of a connection that may wait in the router. `management` is
//! their length. `guaranteed` is the part of the link that guarantees take.
//!
//! Source: `trunking`, section 5, equations 1 and 2, extended to connections that differ in VMSS. The paper adds a few
//! percent, because the user packets of a dropped management packet stay in the queue.

use crate::tcp::Details;
use crate::{Bytes, Chance};

/// Management packets of each connection that may wait in the router: `alpha` of equations 1 and 2.
///
/// Source: `trunking`, section 5: a TCP with a window of eight packets recovers from a single loss without a timeout.
pub const ALPHA: u32 = 8;

/// Sets the initial window of a management connection to one packet, and ends its slow start at [`ALPHA`] packets.
///
/// A window above [`ALPHA`] then grows by one packet per round trip, for which equation 2 has room (`alpha + 1`). Slow
/// start would double the window before TCP notices the first drop. The router would drop many management packets, and
/// the VMSS user bytes of each would stay in its queue.
pub const fn begin(details: Details) -> Details {
    Details { initial_window: 1, initial_threshold: Some(ALPHA), ..details }
}

/// The buffer that a router needs for the management connections of its trunks, rounded up to whole bytes.
///
/// `vmss` lists the VMSS of each connection. The formula at the head of this file defines the other parameters. `None` if
/// guarantees take the whole link.
///
/// ```
/// # use tidegate_core::{Bytes, Chance, trunk::required_buffer};
/// let half = Chance::from_ppb(500_000_000);
/// let room = required_buffer(8, Bytes(52), [Bytes(1_500); 8], half);
/// assert_eq!(room, Some(Bytes(222_656)));
/// ```
#[must_use]
pub fn required_buffer(
    alpha: u32,
    management: Bytes,
    vmss: impl IntoIterator<Item = Bytes>,
    guaranteed: Chance,
) -> Option<Bytes> {
    let alpha = u128::from(alpha);
    let of_one = |vmss: Bytes| alpha * u128::from(management.0) + (alpha + 1) * u128::from(vmss.0);
    let elastic: u128 = vmss.into_iter().map(of_one).sum();
    let parts = u128::from(Chance::ALWAYS.ppb());
    let left = parts - u128::from(guaranteed.ppb());
    if left == 0 {
        return None;
    }
    let room = (elastic * parts).div_ceil(left);
    u64::try_from(room).ok().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: Chance = Chance::from_ppb(500_000_000);

    /// The paper prints 222,348 B and 222,248 B. No whole length of a management packet gives these numbers exactly.
    ///
    /// Catches: a formula with `alpha * VMSS` in place of `(alpha + 1) * VMSS`.
    #[test]
    fn the_buffer_of_the_papers_router_agrees_within_half_a_percent() {
        let Bytes(room) = required_buffer(8, Bytes(52), [Bytes(1_500); 8], HALF).unwrap();
        assert_eq!(room, 222_656);
        assert!(room.abs_diff(222_348) * 200 < 222_348);
    }

    #[test]
    fn connections_with_different_vmss_add_their_own_buffers() {
        let mixed = [3_000, 3_000, 3_000, 3_000, 1_500, 1_500, 1_500, 1_500].map(Bytes);
        let room = required_buffer(8, Bytes(40), mixed, Chance::NEVER);
        assert_eq!(room, Some(Bytes(9 * 18_000 + 64 * 40)));
    }

    #[test]
    fn a_fully_guaranteed_link_has_no_buffer_size_and_sizes_are_rounded_up() {
        assert_eq!(required_buffer(8, Bytes(40), [Bytes(1_500)], Chance::ALWAYS), None);
        let third = Chance::from_ppb(333_333_333);
        assert_eq!(required_buffer(0, Bytes(40), [Bytes(2)], third), Some(Bytes(3)));
    }
}
