//! A misbehaving peer of a trunk, which carries user packets between two gateways. `e2e-liar LOCAL
//! PEER PORT KEY` acknowledges every management packet as if all earlier packets had arrived,
//! although some were lost.

use std::error::Error;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use tidegate_core::Time;
use tidegate_core::packet::{TcpFlags, TcpSegment};
use tidegate_core::tcp::Segment;
use tidegate_e2e::{now, unhex};
use tidegate_wire::trunk::{Ends, Key, Opened, Session};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [local, peer, port, key] = words.as_slice() else {
        return Err("usage: e2e-liar LOCAL PEER PORT KEY".into());
    };
    let ends = Ends { local: local.parse()?, peer: peer.parse()?, port: port.parse()? };
    let key = unhex(key).and_then(|bytes| bytes.try_into().ok()).ok_or("a key has 64 digits")?;
    acknowledge_all(ends, &Key(key))
}

fn acknowledge_all(ends: Ends, key: &Key) -> Result<(), Box<dyn Error>> {
    let at = |address: IpAddr| (address, ends.port);
    let socket = UdpSocket::bind(at(ends.local))?;
    socket.connect(at(ends.peer))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (start, mut session) = (now(), Session::new(key, ends, [7; 32]));
    let (mut buffer, mut hello) = ([0; 2_048], Duration::ZERO);
    println!("ready");
    loop {
        let elapsed = start.elapsed();
        if elapsed >= hello {
            hello = elapsed + Duration::from_secs(1);
            let _ = socket.send(&session.hello());
        }
        // No datagram has arrived in time, or the peer does not listen yet.
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        let said = match session.open(Time::ZERO + elapsed, &buffer[..len]) {
            Ok(Opened::Hello { answer: Some(nonce) }) => Some(session.answer(nonce)),
            Ok(Opened::Segment { channel, segment }) if segment.header.sequence_len() > 0 => {
                let segment = Segment { header: answer(&segment.header), ..segment };
                session.authenticate(channel ^ 1, &segment).map(<[u8]>::to_vec)
            }
            _ => None,
        };
        if let Some(said) = said {
            let _ = socket.send(&said);
        }
    }
}

/// An ACK of everything up to `sent`, with a window that never limits the sender.
fn answer(sent: &TcpSegment) -> TcpSegment {
    let syn = sent.flags.any(TcpFlags::SYN);
    TcpSegment {
        seq: if syn { 1_000 } else { 1_001 },
        ack: sent.end_seq(),
        flags: TcpFlags(if syn { TcpFlags::SYN | TcpFlags::ACK } else { TcpFlags::ACK }),
        window: u16::MAX,
        window_scale: syn.then_some(14),
        mss: if syn { 1_460 } else { 0 },
        sack_permitted: syn,
        timestamps: sent.timestamps.map(|(value, _)| (value, value)),
        ..TcpSegment::default()
    }
}
