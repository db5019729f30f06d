//! Fuzzes the writer of header fields: any values can be written into any frame.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::rewrite_any(bytes));
