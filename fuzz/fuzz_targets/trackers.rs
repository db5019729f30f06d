//! Packets of one flow, in any order: trackers believe no window that was not seen.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::trackers_any(bytes));
