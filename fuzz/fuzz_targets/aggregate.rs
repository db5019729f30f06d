//! Fuzzes the messages from the peer of an aggregate gateway: an accepted message is encoded to the
//! same bytes.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::aggregate_any(bytes));
