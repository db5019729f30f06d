//! Samples of an aggregate gateway, with any totals: the weight of a rate adjuster stays within its
//! bounds.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::adjuster_any(bytes));
