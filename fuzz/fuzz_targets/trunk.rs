//! Fuzzes the datagrams of a trunk: only authentic ones are accepted.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::trunk_any(bytes));
