//! Raw frames of an interface, as lines of hexadecimal: `e2e-frames send|record INTERFACE`.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use tidegate_core::{Packet, PacketId, PacketPool, Time};
use tidegate_dataplane::{AfPacket, Frame, Interface, PacketMemory, Port};
use tidegate_e2e::{hex, pause, unhex};

/// Frames held at once.
const BUFFERS: u32 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, interface] = &arguments[..] else {
        return Err("usage: e2e-frames send|record INTERFACE".into());
    };
    let mut tap = Tap::open(interface)?;
    match what.as_str() {
        "send" => tap.send(),
        "record" => tap.record(),
        _ => Err(format!("unknown: {what}").into()),
    }
}

struct Tap {
    port: AfPacket,
    pool: PacketPool,
    memory: PacketMemory,
}

impl Tap {
    fn open(interface: &str) -> Result<Self, Box<dyn Error>> {
        let memory = PacketMemory::new(BUFFERS, AfPacket::BUFFER)?;
        let port = AfPacket::open(&Interface::find(interface)?, &memory)?;
        Ok(Self { port, pool: PacketPool::with_capacity(BUFFERS), memory })
    }

    /// Sends the frames that standard input names.
    fn send(&mut self) -> Result<(), Box<dyn Error>> {
        for line in io::stdin().lock().lines() {
            let bytes = unhex(&line?).ok_or("not hexadecimal")?;
            let len = u32::try_from(bytes.len())?;
            let packet = self.pool.insert(Packet { len, ..Packet::default() });
            let packet = packet.ok_or("the interface does not send")?;
            self.memory.set_frame(&packet, Frame::default());
            self.memory.bytes_mut(&packet, len).copy_from_slice(&bytes);
            self.port.send(&mut self.pool, packet);
            self.port.flush(&mut self.pool);
        }
        Ok(())
    }

    /// Writes every frame that arrives, until it is killed.
    fn record(&mut self) -> Result<(), Box<dyn Error>> {
        let mut output = io::stdout().lock();
        writeln!(output, "ready")?;
        loop {
            while let Some(packet) = self.port.receive(&mut self.pool, Time::ZERO) {
                writeln!(output, "{}", self.hex(&packet))?;
                self.pool.release(packet);
            }
            output.flush()?;
            pause(Duration::from_millis(1));
        }
    }

    fn hex(&self, packet: &PacketId) -> String {
        hex(&self.memory.bytes(packet, self.pool[packet].len))
    }
}
