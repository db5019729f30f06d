//! From the peer of an aggregate gateway: what is taken is what would have been sent.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::aggregate_any(bytes));
