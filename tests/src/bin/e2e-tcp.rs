//! Tests Tidegate's TCP endpoint against the kernel's endpoint, in this network namespace: `e2e-tcp
//! < SETUP.toml`.

use std::error::Error;
use std::io;

use tidegate_e2e::tcp::{Setup, try_out};

fn main() -> Result<(), Box<dyn Error>> {
    let setup: Setup = toml::from_str(&io::read_to_string(io::stdin())?)?;
    println!("{}", serde_json::to_string(&try_out(&setup)?)?);
    Ok(())
}
