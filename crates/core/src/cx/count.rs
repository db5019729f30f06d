//! A counter of packets and their bytes.

use crate::report;
use crate::reports::{Parts, ReportValue};

report! {
    /// A number of packets, and the bytes of their frames. A super-packet counts as one packet, with
    /// the bytes of all its frames on the wire.
    #[derive(Copy, Eq)]
    pub Count, counted {
        /// Number of packets.
        packets: u64;
        /// Number of bytes.
        bytes: u64;
    }
}

impl Count {
    /// Counts one packet of `bytes`.
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Removes a counted packet of `bytes`. An empty count stays empty.
    pub fn remove(&mut self, bytes: u32) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes.into());
    }
}

impl Parts for Count {
    fn packets(&self) -> ReportValue {
        ReportValue::Whole(self.packets)
    }

    fn bytes(&self) -> ReportValue {
        ReportValue::Bytes(self.bytes)
    }
}
