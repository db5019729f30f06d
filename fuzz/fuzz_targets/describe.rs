//! Fuzzes the parser of frames: it returns a valid packet descriptor for any bytes.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::describe_any(bytes));
