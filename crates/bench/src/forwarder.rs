//! Forwarders for comparison with the gateway: the gateway's loop and ports without a gateway, and
//! the XDP programs that bypass the gateway.

use std::time::Duration;

use tidegate_core::Machine;
use tidegate_dataplane::fail_to_wire::{Tc, WireConfig};
use tidegate_dataplane::{
    Bare, Driver, Interface, Monotonic, Options, PacketMemory, Port, Wish, af_xdp, inbox, keep_time,
};
use tidegate_e2e::pause;

/// Number of packet buffers, the same as in the gateway.
const PACKETS: u32 = 16_384;

/// Forwards frames between the interfaces `lan` and `wan` until the process is killed. If `loops`
/// is `true`, the loop forwards frames; otherwise, the XDP programs do.
pub(crate) fn run(loops: bool) -> anyhow::Result<()> {
    let mut clock = Monotonic::start();
    let pair = [&Interface::find("lan")?, &Interface::find("wan")?];
    let wire =
        WireConfig { timeout: WireConfig::TIMEOUT, epoch: clock.origin(), tc: Tc::default() };
    let memory = PacketMemory::new(PACKETS, af_xdp::buffer_size(pair)?)?;
    let mut machine = Bare::new(PACKETS);
    let opened = af_xdp::open(pair, None, &wire, &memory, machine.pool())?;
    println!("ready");
    if !loops {
        pause(Duration::MAX);
    }
    let [lan, wan] = opened.ports;
    let ports: Vec<Box<dyn Port>> = vec![Box::new(lan), Box::new(wan)];
    let (_remote, inbox) = inbox()?;
    let _ = keep_time(Wish::default());
    Driver::new(machine, ports, opened.wire, inbox, Options::default()).run(&mut clock);
    Ok(())
}
