//! Fuzzes the parser of frames: any bytes get a valid packet descriptor.

#![no_main]

#[path = "../src/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::describe_any(bytes));
