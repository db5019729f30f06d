//! Tests that random sets come back from LDAP with the same canonical text.

use crate::common::sets_come_back_the_same;
use crate::run;
use crate::server::Server;

#[test]
fn a_random_set_comes_back_the_same() {
    let Some(server) = Server::start() else { return };
    run(async { sets_come_back_the_same(&server.repository(), SETS).await });
}

/// Number of pushed sets. A push takes about 10 ms.
const SETS: usize = 24;
