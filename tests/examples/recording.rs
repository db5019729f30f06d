//! Writes the recording of frames that tests replay: `cargo run -p tidegate-e2e --example
//! recording`.

use std::fs::File;
use std::io;

use tidegate_e2e::recording::{MIXED, Recording};

fn main() -> io::Result<()> {
    Recording::mixed().write(File::create(MIXED)?).map(drop)
}
