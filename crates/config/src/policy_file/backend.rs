//! Names of the backends, the ways to receive and send frames at the ports. `BACKENDS` of the data
//! plane has an entry for each name except "auto".

use tidegate_core::choice;

use crate::read::Choice;

choice! {
    /// The kind of ports.
    #[derive(Default)]
    pub enum Backend {
        /// The first backend that the host supports: AF_XDP, or else AF_PACKET.
        Auto = "auto" [default],
        /// AF_XDP, or an error.
        AfXdp = "af-xdp",
        /// AF_PACKET.
        AfPacket = "af-packet",
    }
}

impl Choice for Backend {
    const WHAT: &str = "a backend";
    const CHOICES: &[(&str, Self)] = Self::ALL;
}
