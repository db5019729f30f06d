//! Fuzzes the rate adjuster with samples of an aggregate gateway: its weight stays within its
//! bounds.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::adjuster_any(bytes));
