//! Fuzzes the reader of scenarios, and the simulator: any text runs, or is refused with a place and
//! a reason.

#![no_main]

#[path = "../src/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::scenario_any(bytes));
