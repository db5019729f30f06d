//! Out-of-order data: ranges that arrived beyond a hole.

/// Ranges of the stream that arrived out of order, in ascending order. No range touches another.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    ranges: Vec<(u64, u64)>,
    bytes: u64,
}

/// Result of inserting a range.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taken {
    /// A part of the range is new. The field is the merged range that contains it.
    New((u64, u64)),
    /// The whole range had arrived before.
    Known,
    /// There are too many holes to store another range.
    Full,
}

impl Reassembly {
    /// Inserts `from..to`, which is not empty.
    pub(super) fn insert(&mut self, from: u64, to: u64) -> Taken {
        // Ranges that overlap or touch this one.
        let first = self.ranges.partition_point(|(_, end)| *end < from);
        let last = first + self.ranges[first..].partition_point(|(start, _)| *start <= to);
        if first == last {
            if self.ranges.len() >= MOST_RANGES {
                return Taken::Full;
            }
            if self.ranges.len() == self.ranges.capacity() {
                // Many connections hold a few ranges each, so spare capacity stays small.
                self.ranges.reserve_exact(2 + self.ranges.len() / 4);
            }
            self.ranges.insert(first, (from, to));
            self.bytes += to - from;
            return Taken::New((from, to));
        }
        if self.ranges[first].0 <= from && to <= self.ranges[first].1 {
            return Taken::Known;
        }
        let merged = (from.min(self.ranges[first].0), to.max(self.ranges[last - 1].1));
        let held: u64 = self.ranges[first..last].iter().map(|(start, end)| end - start).sum();
        self.bytes += merged.1 - merged.0 - held;
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..last);
        Taken::New(merged)
    }

    /// Notes that all data below `next` has arrived. Removes the ranges that connect to it and
    /// returns the new end.
    pub(super) fn advance(&mut self, next: u64) -> u64 {
        let joined = self.ranges.partition_point(|(start, _)| *start <= next);
        let mut end = next;
        for (start, to) in self.ranges.drain(..joined) {
            self.bytes -= to - start;
            end = end.max(to);
        }
        end
    }

    /// The range that contains the offset `place`.
    pub(super) fn around(&self, place: u64) -> Option<(u64, u64)> {
        let index = self.ranges.partition_point(|(_, end)| *end <= place);
        self.ranges.get(index).copied().filter(|(start, _)| *start <= place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().copied()
    }
}

/// Maximum number of stored ranges. It limits the memory that a peer can take by sending single
/// bytes.
const MOST_RANGES: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut held = Reassembly::default();
        assert_eq!(held.insert(10, 20), Taken::New((10, 20)));
        assert_eq!(held.insert(30, 40), Taken::New((30, 40)));
        assert_eq!(held.insert(12, 18), Taken::Known);
        assert_eq!(held.insert(20, 30), Taken::New((10, 40)));
        assert_eq!(held.around(39), Some((10, 40)));
        assert_eq!(held.around(40), None);
        assert_eq!(held.advance(9), 9);
        assert_eq!(held.advance(10), 40);
        assert!(held.is_empty());
    }

    #[test]
    fn a_range_that_contains_others_counts_once() {
        let mut held = Reassembly::default();
        for start in [10, 30, 50] {
            held.insert(start, start + 5);
        }
        assert_eq!(held.insert(0, 100), Taken::New((0, 100)));
        assert_eq!((held.bytes, held.iter().count()), (100, 1));
    }

    #[test]
    fn holes_are_bounded() {
        let mut held = Reassembly::default();
        for n in 0..1_024 {
            assert_eq!(held.insert(2 * n, 2 * n + 1), Taken::New((2 * n, 2 * n + 1)));
        }
        assert_eq!(held.insert(5_000, 5_001), Taken::Full);
        assert_eq!(held.insert(1, 2), Taken::New((0, 3)));
    }
}
