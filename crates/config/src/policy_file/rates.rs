//! Warns of policies that cannot reach their mean rate: the link is slower, or the burst is too small.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::packet::Direction;
use tidegate_core::{Bytes, Rate};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{Policy, Profile};
use toml::Spanned;

use super::raw;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Findings, Span};

/// Warns of policies whose mean rate is above the rate of the link, in all directions that they match.
pub(super) fn within_link(
    written: &[Spanned<raw::Policy>],
    policies: &[Policy],
    gateway: Option<&GatewayConfig>,
    found: &mut Findings,
) {
    let Some(gateway) = gateway.filter(|it| it.rate != [None, None]) else { return };
    let places: HashMap<&str, Span> = written.iter().filter_map(place).collect();
    for policy in policies {
        let Some(mean) = policy.action.conditioning().map(|it| it.profile.mean()) else { continue };
        let ways = Direction::BOTH
            .into_iter()
            .filter(|way| policy.filter.direction.is_none_or(|direction| direction == *way));
        let rates: Option<Vec<Rate>> = ways.map(|way| gateway.rate[way.index()]).collect();
        let Some(most) = rates.and_then(|rates| rates.into_iter().max()) else { continue };
        if mean > most
            && let Some(place) = places.get(policy.name.as_str())
        {
            above("mean", mean, most, place.clone(), found);
        }
    }
}

/// The name of `policy`, and the position of its mean rate.
fn place(policy: &Spanned<raw::Policy>) -> Option<(&str, Span)> {
    let policy = policy.get_ref();
    let mean = policy.profile.as_ref()?.get_ref().mean.get()?;
    Some((policy.name.get()?.get_ref().as_str(), mean.span()))
}

/// Warns that `rate`, which is at `place` in the file, is above the rate of the link.
pub(super) fn above(what: &str, rate: Rate, link: Rate, place: Span, found: &mut Findings) {
    let message = format!("a {what} of {rate} is above the rate of the link, {link}");
    found.push(Diagnostic::warning(Code::AboveLink, place, message));
}

/// Warns of a burst that is too small for the mean rate.
///
/// The gateway may send a packet up to [`INTERVAL`] after it conforms. Tokens that then overflow
/// the bucket are lost. So the bucket must hold the longest packet plus the tokens of one interval.
pub(super) fn burst_carries_mean(
    raw: &raw::Policy,
    profile: &Profile,
    longest: Bytes,
    found: &mut Findings,
) {
    let written = raw.profile.as_ref().and_then(|it| it.get_ref().burst.as_ref());
    let least = Bytes(longest.0 + profile.mean().bytes_in(INTERVAL).0);
    let Some(written) = written.filter(|it| *it.get_ref() < least) else { return };
    let message = format!(
        "a burst of {} keeps the policy below its mean of {}",
        written.get_ref(),
        profile.mean()
    );
    let help =
        format!("make it at least {least}: a full-size packet, and the mean of {INTERVAL:?}");
    found.push(Diagnostic::warning(Code::BurstBelowMean, written.span(), message).help(help));
}

/// Longest time between the moment at which a packet conforms and the driver's next poll (the
/// driver's option `poll_interval`).
const INTERVAL: Duration = Duration::from_micros(100);
