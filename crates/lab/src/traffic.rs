//! Generators of real traffic, on kernel sockets, for the hosts of labs and of the demonstration.

mod client;
mod ping;
mod request;
mod server;
mod stream;
mod watch;

use std::io;

pub use client::{Outcome, Progress, Transfer, transfer};
pub(crate) use ping::percentile;
pub use ping::{Echo, Ping, Pings, ping};
pub use request::Sender;
pub use server::Server;
pub use watch::{Seen, watch};

/// Sets the congestion control called `name` for `socket`. Connections that the socket accepts
/// inherit the setting.
fn pin_congestion_control(socket: &socket2::Socket, name: Option<&str>) -> io::Result<()> {
    let Some(name) = name else { return Ok(()) };
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        io::Error::new(error.kind(), format!("congestion control `{name}`: {error}"))
    })
}
