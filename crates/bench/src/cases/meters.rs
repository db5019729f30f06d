//! Token buckets with various rates. An operation takes the tokens of a packet.

use tidegate_core::meter::TokenBucket;
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Rate, Time};

use super::{Case, Order};

const PACKET: Bytes = Bytes(1_500);

/// Token buckets. If a bucket has too few tokens, the operation computes when it will have enough.
pub(super) struct Buckets {
    buckets: Vec<TokenBucket>,
    order: Order,
    now: Time,
}

impl Buckets {
    pub(super) fn new(size: u32, mut random: Random) -> Self {
        let mut bucket = || {
            let rate = (1 + random.below(9)) * 10_u64.pow(3 + index_of_ten(&mut random));
            TokenBucket::new(Rate::from_bps(rate), Bytes(3_000), Time::ZERO)
        };
        let buckets = (0..size).map(|_| bucket()).collect();
        Self { buckets, order: Order::new(size, &mut random), now: Time::ZERO }
    }
}

/// A random exponent for rates from 1 kbit/s to 10 Gbit/s: the rate is ten to this power.
fn index_of_ten(random: &mut Random) -> u32 {
    u32::try_from(random.below(7)).unwrap_or_default()
}

impl Case for Buckets {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..operations {
            self.now = Time::from_nanos(self.now.nanos() + 1_200);
            let bucket = &mut self.buckets[super::index(self.order.next().into())];
            sum += match bucket.try_take(self.now, PACKET) {
                true => 1,
                false => bucket.ready_at(PACKET).nanos() & 1,
            };
        }
        sum
    }
}
