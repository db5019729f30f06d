//! Input from the peer of an aggregate gateway: accepted bytes equal their re-encoding.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::aggregate_any(bytes));
