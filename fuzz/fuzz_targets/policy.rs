//! Fuzzes the reader of policy files: any text is parsed, or refused with a place and a reason.

#![no_main]

#[path = "../src/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| files::policy_any(bytes));
