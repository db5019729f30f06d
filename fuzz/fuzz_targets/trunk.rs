//! From the path of a trunk: any datagram is refused but the right one.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::trunk_any(bytes));
