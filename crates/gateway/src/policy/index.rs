//! The index of a policy set: it finds the first filter that matches a packet, in little time even
//! for 10,000 filters.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use tidegate_core::packet::{Direction, FlowKey, Outer, Packet, Ports, slot};

use super::filter::{Filter, Range, merged, protocol_number, second_vlan};

/// Finds the first filter that matches a packet.
///
/// The ends of all filters' ranges cut a field into intervals. Each interval has a *bit set*: bit `n` is set if filter `n`
/// accepts the values of the interval. To look up a packet, the index finds the interval of each field, and intersects
/// the bit sets. The bits that remain are the matching filters.
///
/// Example: filter 0 accepts the ports 10 to 20, filter 1 all ports. The intervals of the field are 0 to 9, 10 to 20, and
/// 21 on. Their bit sets are `{1}`, `{0, 1}` and `{1}`.
///
/// - A set consists of blocks of 512 bits. A summary shows which blocks are not empty, so most
///   blocks are never read.
/// - The bits are arranged by the address fields that the filters have ranges for. Then most blocks are empty in most sets.
/// - A field for which no filter has ranges is skipped.
/// - Equal blocks and equal sets are stored once. A range adds at most two intervals to its field. Each needs a new block,
///   and four bytes for every 512 filters.
///
/// Source: doi 10.1145/285237.285283 (bit sets of intervals); doi 10.1145/383059.383075 (summaries, and an order of the
/// bits that suits them).
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Intervals of source and destination addresses. `None` for a field without ranges.
    addresses: [Option<Axis<u128>>; 2],
    /// Intervals of the other fields, in the order of [`NUMBERS`].
    numbers: [Option<Axis<u16>>; NUMBERS],
    /// Number of fields with ranges.
    axes: usize,
    sets: Sets,
    /// The filter of each bit, ascending within a block. [`NOBODY`] for unused bits.
    filters: Vec<u32>,
    /// At least one filter is `inner`.
    inner: bool,
}

/// Number of fields other than addresses: source port, destination port, protocol, DS codepoint, VLAN, direction, header
/// (such as [`ONLY`]), second VLAN.
const NUMBERS: usize = 8;
/// Indices of the ports in [`Index::numbers`].
const PORTS: [usize; 2] = [0, 1];
/// Indices of the ports and the protocol in [`Index::numbers`].
const PORTS_AND_PROTOCOL: [usize; 3] = [0, 1, 2];
/// Offset that is added to the protocol number of a fragment with unknown ports. Filters with
/// ranges for ports do not accept the sum, so they do not match the fragment.
const WITHOUT_PORTS: u16 = 1 << 9;

/// Value of the field `header`: the packet is not in a tunnel.
const ONLY: u16 = 0;
/// Value of the field `header`: the packet is in a tunnel, and is looked up by its outermost
/// header.
const OUTERMOST: u16 = 1;
/// Value of the field `header`: the packet is in a tunnel, and is looked up by its innermost
/// header.
const INNERMOST: u16 = 2;

/// The intervals of a field.
#[derive(Clone, Debug)]
struct Axis<T> {
    /// First value of each interval, ascending. The first interval begins at zero.
    starts: Vec<T>,
    /// The bit set of each interval, by its number in [`Sets`].
    sets: Vec<u32>,
    /// Mean number of bits in a set.
    density: usize,
    /// Position of this field in the order of `density`. Sets with few bits are intersected first.
    rank: usize,
}

/// All bit sets, by number. Set 0 has the bits of all filters.
#[derive(Clone, Debug)]
struct Sets {
    /// All different blocks.
    blocks: Vec<Block>,
    /// Indices in `blocks`: `width` of them for each set.
    members: Vec<u32>,
    /// Summaries: `width.div_ceil(64)` words for each set. Bit `n` is set if block `n` of the set is not empty.
    summaries: Vec<u64>,
    /// Number of blocks of a set.
    width: usize,
}

/// 512 bits: a cache line.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(align(64))]
struct Block([u64; 8]);

/// Bits of a block.
const BLOCK_BITS: usize = 512;

/// Value in [`Index::filters`] for a bit without a filter.
const NOBODY: u32 = u32::MAX;

impl Index {
    /// Builds an index of `filters`. Earlier filters have precedence.
    pub(super) fn new(filters: &[&Filter]) -> Self {
        let layout = layout(filters);
        let mut builder = Builder::new(&layout);
        let inner = filters.iter().any(|filter| filter.inner);
        let fields: Vec<_> = filters.iter().map(|filter| numbers(filter, inner)).collect();
        let mut addresses =
            [builder.axis(|nth| &filters[nth].src[..]), builder.axis(|nth| &filters[nth].dst[..])];
        let mut numbers = std::array::from_fn(|field| builder.axis(|nth| &fields[nth][field][..]));
        let axes = rank(&mut addresses, &mut numbers);
        Self { addresses, numbers, axes, sets: builder.sets, filters: layout, inner }
    }

    /// The first filter that matches `packet`, which travels in `direction`. `outer` has the outer headers of a packet in a
    /// tunnel.
    pub(super) fn first(
        &self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> Option<u32> {
        let second = second_vlan(outer);
        let Some(outermost) = outer.and_then(Outer::key) else {
            return self.first_by((&packet.key, ONLY), packet, second, direction);
        };
        let first = self.first_by((&outermost, OUTERMOST), packet, second, direction);
        if !self.inner {
            return first;
        }
        let inside = self.first_by((&packet.key, INNERMOST), packet, second, direction);
        [first, inside].into_iter().flatten().min()
    }

    /// The first filter that matches `packet` with the given header. `key` is the flow key of this header, and `header` is
    /// its kind, such as [`ONLY`]. `second` is the second VLAN identifier.
    fn first_by(
        &self,
        (key, header): (&FlowKey, u16),
        packet: &Packet,
        second: u16,
        direction: Direction,
    ) -> Option<u32> {
        // Fragments are not searched for tunnels. So a packet in a tunnel is no fragment, and its
        // outermost header has ports if its protocol has ports.
        let ports = if header == OUTERMOST { Ports::Known } else { packet.fragment.ports() };
        let protocol =
            protocol_number(key) + if ports == Ports::Unknown { WITHOUT_PORTS } else { 0 };
        let unknown: &[usize] = match ports {
            Ports::Any if key.hides_protocol() => &PORTS_AND_PROTOCOL,
            Ports::Any => &PORTS,
            Ports::Known | Ports::Unknown => &[],
        };
        let way = u16::from(direction == Direction::Down);
        let ([src, dst], dscp) = ([key.src.port, key.dst.port], packet.dscp.into());
        let numbers = [src, dst, protocol, dscp, packet.vlan, way, header, second];
        let mut sets = [0; NUMBERS + 2];
        for (axis, value) in self.addresses.iter().zip([key.src.number(), key.dst.number()]) {
            if let Some(axis) = axis {
                sets[axis.rank] = axis.set_of(value);
            }
        }
        for (field, (axis, value)) in self.numbers.iter().zip(numbers).enumerate() {
            if let Some(axis) = axis
                && !unknown.contains(&field)
            {
                sets[axis.rank] = axis.set_of(value);
            }
        }
        self.first_in(&sets[..self.axes.max(1)])
    }

    /// The first filter whose bit is in all of `sets`. There must be at least one set.
    fn first_in(&self, sets: &[u32]) -> Option<u32> {
        let mut rows = [Default::default(); NUMBERS + 2];
        let rows = &mut rows[..sets.len()];
        for (row, set) in rows.iter_mut().zip(sets) {
            *row = self.sets.row(*set);
        }
        let mut best = NOBODY;
        for word in 0..self.sets.width.div_ceil(64) {
            let mut candidates = self.sets.summary(sets, word);
            while candidates != 0 {
                let nth = word * 64 + slot(candidates.trailing_zeros());
                candidates &= candidates - 1;
                let filters = &self.filters[nth * BLOCK_BITS..][..BLOCK_BITS];
                if filters[0] < best
                    && let Some(bit) = self.sets.first_bit(rows, nth)
                {
                    best = best.min(filters[bit]);
                }
            }
        }
        (best != NOBODY).then_some(best)
    }

    /// The first filter before filter `nth` for which `accepted` returns `true`. `narrow` is filter `nth`.
    ///
    /// Calls `accepted` only for filters that may cover `narrow`: they match the lowest and the highest value of `narrow` in
    /// each field.
    pub(super) fn first_around(
        &self,
        nth: u32,
        narrow: &Filter,
        accepted: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut sets = vec![0];
        for (axis, ranges) in self.addresses.iter().zip([&narrow.src, &narrow.dst]) {
            sets.extend(axis.iter().flat_map(|axis| axis.sets_of_ends(ranges)));
        }
        for (axis, ranges) in self.numbers.iter().zip(numbers(narrow, self.inner)) {
            sets.extend(axis.iter().flat_map(|axis| axis.sets_of_ends(&ranges)));
        }
        let mut best = nth;
        for word in 0..self.sets.width.div_ceil(64) {
            let mut candidates = self.sets.summary(&sets, word);
            while candidates != 0 {
                let block = word * 64 + slot(candidates.trailing_zeros());
                candidates &= candidates - 1;
                let filters = &self.filters[block * BLOCK_BITS..][..BLOCK_BITS];
                if filters[0] >= best {
                    continue;
                }
                let mut all = self.sets.common(&sets, block);
                while let Some(bit) = all.first() {
                    all.toggle(bit);
                    if filters[bit] >= best {
                        break;
                    }
                    if accepted(filters[bit]) {
                        best = filters[bit];
                    }
                }
            }
        }
        (best != nth).then_some(best)
    }

    /// Memory of the index in bytes.
    pub(super) fn memory(&self) -> usize {
        let addresses: usize = self.addresses.iter().flatten().map(Axis::memory).sum();
        let numbers: usize = self.numbers.iter().flatten().map(Axis::memory).sum();
        let Sets { blocks, members, summaries, .. } = &self.sets;
        let sets = size_of_val(&**blocks) + size_of_val(&**members) + size_of_val(&**summaries);
        addresses + numbers + sets + size_of_val(&*self.filters)
    }
}

/// Assigns filters to bits. Filters with ranges for the same address fields get neighbouring bits.
fn layout(filters: &[&Filter]) -> Vec<u32> {
    let mut layout: Vec<u32> = Vec::new();
    for addresses in [(false, false), (false, true), (true, false), (true, true)] {
        let same = |filter: &Filter| (filter.src.is_empty(), filter.dst.is_empty()) == addresses;
        layout.extend((0..).zip(filters).filter(|(_, filter)| same(filter)).map(|(nth, _)| nth));
        layout.resize(layout.len().next_multiple_of(BLOCK_BITS), NOBODY);
    }
    layout
}

/// Ranges of `filter` for each field other than addresses, in the order of [`NUMBERS`]. `inner`: at least one filter of the
/// index is `inner`, so the field `header` is needed.
fn numbers(filter: &Filter, inner: bool) -> [Vec<Range<u16>>; NUMBERS] {
    let wide = |range: &Range<u8>| Range { first: range.first.into(), last: range.last.into() };
    let way = filter.direction.map(|only| u16::from(only == Direction::Down));
    [
        filter.src_port.clone(),
        filter.dst_port.clone(),
        protocols(filter),
        filter.dscp.iter().map(wide).collect(),
        filter.vlan.clone(),
        way.map(|way| Range { first: way, last: way }).into_iter().collect(),
        if inner { headers(filter) } else { Vec::new() },
        filter.inner_vlan.clone(),
    ]
}

/// Protocol numbers that `filter` accepts, and those plus [`WITHOUT_PORTS`] if it has no ranges for ports.
fn protocols(filter: &Filter) -> Vec<Range<u16>> {
    let mut ranges = filter.protocols();
    if !filter.asks_for_ports() {
        let shifted = |it: &Range<u16>| Range {
            first: it.first + WITHOUT_PORTS,
            last: it.last + WITHOUT_PORTS,
        };
        let nonempty = ranges.iter().filter(|it| it.first <= it.last);
        let shifted: Vec<_> = nonempty.map(shifted).collect();
        ranges.extend(shifted);
    }
    ranges
}

/// Values of the field `header` that `filter` accepts. Empty if it accepts all.
fn headers(filter: &Filter) -> Vec<Range<u16>> {
    if !filter.asks_for_key() {
        return Vec::new();
    }
    let other = if filter.inner { INNERMOST } else { OUTERMOST };
    [ONLY, other].map(|it| Range { first: it, last: it }).to_vec()
}

/// Ranks the fields by density. Returns the number of fields with ranges.
fn rank(addresses: &mut [Option<Axis<u128>>], numbers: &mut [Option<Axis<u16>>]) -> usize {
    let addresses = addresses.iter_mut().flatten().map(|axis| (axis.density, &mut axis.rank));
    let numbers = numbers.iter_mut().flatten().map(|axis| (axis.density, &mut axis.rank));
    let mut axes: Vec<_> = addresses.chain(numbers).collect();
    axes.sort_by_key(|(density, _)| *density);
    let ranks = axes.into_iter().map(|(_, rank)| rank).enumerate();
    ranks.map(|(nth, rank)| *rank = nth).count()
}

impl<T: Copy + Ord> Axis<T> {
    fn set_of(&self, value: T) -> u32 {
        self.sets[self.starts.partition_point(|start| *start <= value) - 1]
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.sets)
    }
}

impl<T: Copy + Ord + Into<u128> + TryFrom<u128>> Axis<T> {
    /// The sets of the lowest and the highest value in `ranges`. If the list is empty, these are the first and the last set
    /// of the field. Ranges with `last` below `first` are ignored.
    fn sets_of_ends(&self, ranges: &[Range<T>]) -> Vec<u32> {
        if ranges.is_empty() {
            return self.sets.first().into_iter().chain(self.sets.last()).copied().collect();
        }
        let ranges = ranges.iter().filter(|range| range.first <= range.last);
        let ends = (ranges.clone().map(|it| it.first).min(), ranges.map(|it| it.last).max());
        [ends.0, ends.1].into_iter().flatten().map(|end| self.set_of(end)).collect()
    }
}

impl Sets {
    /// The blocks that are not empty in all of `sets`, as bits. Returns 64 blocks: those of summary word `word`.
    fn summary(&self, sets: &[u32], word: usize) -> u64 {
        let words = self.width.div_ceil(64);
        sets.iter().fold(u64::MAX, |all, set| all & self.summaries[slot(*set) * words + word])
    }

    /// Indices of the blocks of `set`.
    fn row(&self, set: u32) -> &[u32] {
        &self.members[slot(set) * self.width..][..self.width]
    }

    /// The bits of the `nth` block that are in all of `sets`.
    fn common(&self, sets: &[u32], nth: usize) -> Block {
        let mut all = self.blocks[slot(self.row(sets[0])[nth])];
        for set in &sets[1..] {
            all.and(&self.blocks[slot(self.row(*set)[nth])]);
        }
        all
    }

    /// The first bit of the `nth` block that is in all sets. `rows` has the block indices of each set.
    fn first_bit(&self, rows: &[&[u32]], nth: usize) -> Option<usize> {
        let (sparsest, others) = rows.split_first()?;
        let mut all = self.blocks[slot(sparsest[nth])];
        for row in others {
            if !all.and(&self.blocks[slot(row[nth])]) {
                return None;
            }
        }
        all.first()
    }
}

impl Block {
    const EMPTY: Self = Self([0; 8]);

    const fn has(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word * 64 + slot(self.0[word].trailing_zeros()))
    }

    /// Clears the bits that are not in `other`. Returns `true` if any bit remains.
    fn and(&mut self, other: &Self) -> bool {
        let mut any = 0;
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
            any |= *word;
        }
        any != 0
    }

    fn toggle(&mut self, bit: usize) {
        self.0[bit / 64] ^= 1 << (bit % 64);
    }
}

/// Builds the bit sets, and stores equal blocks and equal sets only once.
struct Builder<'a> {
    layout: &'a [u32],
    sets: Sets,
    /// Indices of the stored blocks.
    known_blocks: HashMap<Block, u32, FixedState>,
    /// Numbers of the stored sets, found by a hash of their block indices.
    known_sets: HashTable<u32>,
}

/// A bit set under construction.
struct Draft {
    /// Bits of each block.
    bits: Vec<Block>,
    /// Index of each block in [`Sets::blocks`].
    row: Vec<u32>,
    /// Bit `n` is set if block `n` is not empty.
    summary: Vec<u64>,
    /// Number of bits that are set.
    count: usize,
}

impl<'a> Builder<'a> {
    fn new(layout: &'a [u32]) -> Self {
        let width = layout.len() / BLOCK_BITS;
        let sets = Sets { blocks: Vec::new(), members: Vec::new(), summaries: Vec::new(), width };
        let (known_blocks, known_sets) = (HashMap::default(), HashTable::new());
        let mut builder = Self { layout, sets, known_blocks, known_sets };
        let everybody = builder.draft(|_| true);
        builder.set(&everybody);
        builder
    }

    /// Builds the intervals of a field. `field(nth)` has the ranges of filter `nth` in this field. `None` if no filter has
    /// ranges.
    ///
    /// The bit set of an interval differs from that of the previous one only in the filters whose ranges begin or end
    /// there. Only their blocks are updated.
    fn axis<'f, T: Copy + Ord + Into<u128> + TryFrom<u128> + 'f>(
        &mut self,
        field: impl Fn(usize) -> &'f [Range<T>],
    ) -> Option<Axis<T>> {
        let mut edges = Vec::new();
        let mut limited = false;
        for (bit, nth) in self.layout.iter().enumerate().filter(|(_, nth)| **nth != NOBODY) {
            let ranges = field(slot(*nth));
            limited |= !ranges.is_empty();
            for range in merged(ranges) {
                edges.push((range.first, bit));
                edges.extend(range.last.checked_add(1).map(|end| (end, bit)));
            }
        }
        if !limited {
            return None;
        }
        edges.sort_unstable();
        let mut draft = self.draft(|nth| field(nth).is_empty());
        let mut axis = Axis { starts: Vec::new(), sets: Vec::new(), density: 0, rank: 0 };
        let mut edges = edges.into_iter().peekable();
        let mut start = Some(0);
        while let Some(at) = start {
            while let Some((_, bit)) = edges.next_if(|(edge, _)| *edge == at) {
                self.toggle(&mut draft, bit);
                let same_block = |(edge, next): &(u128, usize)| {
                    *edge == at && next / BLOCK_BITS == bit / BLOCK_BITS
                };
                if !edges.peek().is_some_and(same_block) {
                    self.renumber(&mut draft, bit / BLOCK_BITS);
                }
            }
            if let Ok(at) = T::try_from(at) {
                axis.starts.push(at);
                axis.sets.push(self.set(&draft));
                axis.density += draft.count;
            }
            start = edges.peek().map(|(edge, _)| *edge);
        }
        axis.density /= axis.sets.len();
        Some(axis)
    }

    /// The bit set of the filters for which `is_in` returns `true`.
    fn draft(&mut self, is_in: impl Fn(usize) -> bool) -> Draft {
        let width = self.sets.width;
        let mut draft = Draft {
            bits: vec![Block::EMPTY; width],
            row: vec![0; width],
            summary: vec![0; width.div_ceil(64)],
            count: 0,
        };
        let layout = self.layout;
        for (bit, nth) in layout.iter().enumerate() {
            if *nth != NOBODY && is_in(slot(*nth)) {
                self.toggle(&mut draft, bit);
            }
        }
        (0..width).for_each(|block| self.renumber(&mut draft, block));
        draft
    }

    /// Inverts a bit of `draft`. The caller must call [`renumber`](Self::renumber) for its block afterwards.
    fn toggle(&self, draft: &mut Draft, bit: usize) {
        debug_assert!(bit < self.layout.len(), "every bit has a filter");
        let block = &mut draft.bits[bit / BLOCK_BITS];
        block.toggle(bit % BLOCK_BITS);
        if block.has(bit % BLOCK_BITS) {
            draft.count += 1;
        } else {
            draft.count -= 1;
        }
    }

    /// Stores a changed block of `draft`, and updates its index and the summary.
    fn renumber(&mut self, draft: &mut Draft, block: usize) {
        let Self { sets, known_blocks, .. } = self;
        let bits = draft.bits[block];
        draft.row[block] = *known_blocks.entry(bits).or_insert_with(|| {
            sets.blocks.push(bits);
            last_of(sets.blocks.len())
        });
        let (word, mask) = (&mut draft.summary[block / 64], 1 << (block % 64));
        if bits == Block::EMPTY {
            *word &= !mask;
        } else {
            *word |= mask;
        }
    }

    /// Stores the set in `draft`, unless it is stored already. Returns its number.
    fn set(&mut self, draft: &Draft) -> u32 {
        let Self { sets, known_sets, .. } = self;
        let hash = |row: &[u32]| FixedState::default().hash_one(row);
        let known = known_sets.find(hash(&draft.row), |set| *sets.row(*set) == *draft.row);
        if let Some(known) = known {
            return *known;
        }
        let next = last_of(known_sets.len() + 1);
        sets.members.extend(&draft.row);
        sets.summaries.extend(&draft.summary);
        known_sets.insert_unique(hash(&draft.row), next, |set| hash(sets.row(*set)));
        next
    }
}

/// Index of the last of `count` elements.
fn last_of(count: usize) -> u32 {
    u32::try_from(count - 1).unwrap_or(NOBODY)
}
