//! Fuzzes the datagrams of a trunk, a path between two gateways: an end of the trunk accepts only
//! authentic datagrams.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::trunk_any(bytes));
