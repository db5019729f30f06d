//! Fuzzes the reader of policy files: it parses any text, or refuses it with a position and a
//! reason.

#![no_main]

#[path = "../src/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::policy_any(bytes));
