//! Memory that will be needed soon, fetched while something else is done.
//!
//! The lines of a large network do not stay in the caches from one packet to the next, and a hop would
//! mostly wait for them. Nothing depends on whether they come in time.

/// Has the processor fetch `it`, and does not wait for that. Does nothing where nobody has measured
/// that it pays.
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
    // SAFETY: SSE, which it asks for, is part of x86-64; it reads nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
const fn fetch_line(_: *const i8) {}
