//! The program `tidegate`. All code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::main()
}
