//! Fuzzes the reader of scenarios, and the simulator: any text is run, or refused with a position
//! and a reason.

#![no_main]

#[path = "../src/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::scenario_any(bytes));
