//! Fuzzes the rate adjuster, which sets the weight of an aggregate connection. Its input is samples
//! of the gateway's queue and traffic. The weight must stay within its bounds.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::adjuster_any(bytes));
