//! Sends raw frames at an interface, or records them, as lines of hexadecimal: `e2e-frames
//! send|record INTERFACE`.
//!
//! `e2e-frames tag INTERFACE VLAN PEER` provides a VLAN on a kernel without VLAN support. The
//! program carries packets between the TUN device `tagged` and the host with the MAC address PEER.

use std::error::Error;
use std::fs;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use tidegate_core::{Packet, PacketId, PacketPool, Time};
use tidegate_dataplane::{AfPacket, Frame, Interface, PacketMemory, Port, Tun};
use tidegate_e2e::{hex, pause, unhex};

/// Number of frame buffers.
const BUFFERS: u32 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["send", interface] => Tap::open(interface)?.send(),
        ["record", interface] => Tap::open(interface)?.record(),
        ["tag", interface, vlan, peer] => {
            let own = fs::read_to_string(format!("/sys/class/net/{interface}/address"))?;
            let ends = unhex(&format!("{peer}{own}").replace([':', '\n'], ""));
            let start = [ends.ok_or("no hardware address")?, vec![0x81, 0, 0, vlan.parse()?]];
            Tap::open(interface)?.tag(&start.concat())
        }
        _ => Err("usage: e2e-frames send|record INTERFACE | tag INTERFACE VLAN PEER".into()),
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

    /// Sends the frames given on standard input.
    fn send(&mut self) -> Result<(), Box<dyn Error>> {
        for line in io::stdin().lock().lines() {
            self.send_frame(&unhex(&line?).ok_or("not hexadecimal")?)?;
        }
        Ok(())
    }

    fn send_frame(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
        let len = u32::try_from(bytes.len())?;
        let packet = self.pool.insert(Packet { len, ..Packet::default() });
        let packet = packet.ok_or("the interface does not send")?;
        self.memory.set_frame(&packet, Frame::default());
        self.memory.bytes_mut(&packet, len).copy_from_slice(bytes);
        self.port.send(&mut self.pool, packet);
        self.port.flush(&mut self.pool);
        Ok(())
    }

    /// Adds the VLAN tag in `start` to the packets of the TUN device, and removes it from received
    /// frames. Runs until it is killed.
    fn tag(&mut self, start: &[u8]) -> Result<(), Box<dyn Error>> {
        let (tun, tag) = (Tun::create("tagged")?, &start[12..]);
        println!("ready");
        let mut buffer = [0; 1 << 16];
        loop {
            // An error means that the device is down. The loop then tries again.
            while let Ok(Some(len)) = tun.receive(&mut buffer) {
                let kind = if buffer[0] >> 4 == 6 { [0x86, 0xdd] } else { [0x08, 0] };
                self.send_frame(&[start, &kind[..], &buffer[..len]].concat())?;
            }
            while let Some(packet) = self.port.receive(&mut self.pool, Time::ZERO) {
                let frame = self.memory.bytes(&packet, self.pool[&packet].len);
                if frame.get(12..16) == Some(tag) {
                    tun.send(&frame[18..])?;
                }
                self.pool.release(packet);
            }
            pause(Duration::from_millis(1));
        }
    }

    /// Prints every received frame, until it is killed.
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
