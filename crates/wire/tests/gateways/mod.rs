//! Gateways with one policy, and with links that have no rate.

use std::time::Duration;

use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Rate, Time};
use tidegate_gateway::policy::{Action, Conditioning, Filter, Mode, Policy, PolicySet, Profile};
use tidegate_gateway::{Gateway, GatewayConfig};

/// A profile of `rate` and `burst`, shared by all flows in round robin.
pub(crate) fn conditioning(rate: Rate, burst: Bytes) -> Conditioning {
    Conditioning {
        profile: Profile::new(rate, None, burst, Bytes(1_514)).unwrap(),
        allocation: AllocationSpec::Drr(Default::default()),
        weights: Vec::new(),
        fair_between: Default::default(),
    }
}

/// A gateway with `packets` buffers and one policy: packets that match `filter` get `action`.
pub(crate) fn gateway(filter: Filter, action: Action, packets: u32) -> Gateway {
    let (name, mode) = ("all".to_owned(), Mode::Enforce);
    let policy = Policy { name, priority: 0, filter, action, mode, class: None, trunk: None };
    let config = GatewayConfig {
        rate: [None; 2],
        overhead: Overhead::default(),
        queue: QdiscSpec::PerFlow(Default::default()),
        packets,
        flows: 16,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    };
    Gateway::new(&config, PolicySet::new(vec![policy]).unwrap(), Time::ZERO)
}
