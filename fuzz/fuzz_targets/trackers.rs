//! Packets of one flow in any order: windows of trackers consist of observed bytes.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::trackers_any(bytes));
