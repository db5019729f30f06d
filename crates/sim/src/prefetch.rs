//! Prefetches memory that the simulator will need soon.
//!
//! The state of a large network does not fit into the processor caches. Without prefetching, each
//! hop of a packet would mostly wait for memory. Prefetching does not change results.

/// Tells the processor to fetch `it` into its caches, without waiting. Does nothing on
/// architectures where we have not measured a benefit.
#[inline]
pub(crate) fn prefetch<T>(it: &T) {
    let first = std::ptr::from_ref(it).cast::<i8>();
    let into_line = first.addr() % LINE;
    let lines = (0..into_line + size_of::<T>()).step_by(LINE);
    lines.for_each(|at| fetch_line(first.wrapping_sub(into_line).wrapping_add(at)));
}

const LINE: usize = 64;

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "no safe form of it is stable")]
fn fetch_line(at: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction needs SSE, which is part of x86-64. It does not access memory, so any
    // address is valid.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
const fn fetch_line(_: *const i8) {}
