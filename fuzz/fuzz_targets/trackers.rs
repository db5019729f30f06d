//! Fuzzes the trackers of markings, which estimate the window and the rounds of a flow, with
//! packets of one flow in any order.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::trackers_any(bytes));
