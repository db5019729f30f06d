//! Tests that random sets come back from etcd with the same canonical text.

use crate::common::sets_come_back_the_same;
use crate::real::Etcd;
use crate::testing::source;

#[tokio::test]
async fn a_random_set_comes_back_the_same() {
    let Some(server) = Etcd::start().await else { return };
    sets_come_back_the_same(&source(&server.url()), SETS).await;
}

/// Number of pushed sets. A push takes about 10 ms.
const SETS: usize = 24;
