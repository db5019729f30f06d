//! Random sets come back with the same canonical text.

use crate::common::sets_come_back_the_same;
use crate::real::Etcd;
use crate::testing::source;

#[tokio::test]
async fn a_random_set_comes_back_the_same() {
    let Some(server) = Etcd::start().await else { return };
    sets_come_back_the_same(&source(&server.url()), SETS).await;
}

/// Sets that are pushed: a push takes some 10 ms.
const SETS: usize = 24;
