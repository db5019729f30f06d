//! Random sets come back with the same canonical text.

use crate::common::sets_come_back_the_same;
use crate::run;
use crate::server::Server;

#[test]
fn a_random_set_comes_back_the_same() {
    let Some(server) = Server::start() else { return };
    run(async { sets_come_back_the_same(&server.repository(), SETS).await });
}

/// Sets that are pushed: a push takes some 10 ms.
const SETS: usize = 24;
