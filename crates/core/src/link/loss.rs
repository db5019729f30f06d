//! Loss of packets on a link.

use serde::Deserialize;
use serde::de::{self, Deserializer, Error as _, MapAccess, Visitor, value::MapAccessDeserializer};

use crate::parameters::Form;
use crate::random::Random;
use crate::{Chance, parameters};

/// The rule by which a link loses packets.
///
/// Files write `"0.1 %"` for losses that are independent of each other, or the table of
/// [`GilbertElliott`] for losses in bursts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Loss {
    /// No losses.
    #[default]
    None,
    /// Independent losses, each packet with this probability (Bernoulli).
    Bernoulli(Chance),
    /// Losses in bursts.
    GilbertElliott(GilbertElliott),
}

/// Losses in bursts: a link is in a good or a bad state, and may change its state before each
/// packet.
///
/// In the long run, a part `p / (p + r)` of the packets meets the bad state. A bad period lasts
/// `1 / r` packets on average.
///
/// Source: RFC 6534, section 4 (Gilbert-Elliott); `tc-netem(8)`, `gemodel` (names of the
/// parameters).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GilbertElliott {
    /// Probability that a good link turns bad before the next packet.
    pub p: Chance,
    /// Probability that a bad link turns good before the next packet.
    pub r: Chance,
    /// Probability that a good link loses a packet.
    pub good: Chance,
    /// Probability that a bad link loses a packet.
    pub bad: Chance,
}

parameters! {
    /// The table form of [`GilbertElliott`].
    Bursts {
        /// Probability that a good link turns bad before the next packet.
        p: Option<Chance> = None;
        /// Probability that a bad link turns good before the next packet.
        r: Option<Chance> = None;
        /// Probability that a good link loses a packet.
        good: Chance = Chance::NEVER;
        /// Probability that a bad link loses a packet.
        bad: Chance = Chance::ALWAYS;
    }
}

crate::value! {
    Loss: Form::Any(vec![Chance::form(), Bursts::form()]), |_it| None, <Self as Deserialize>::deserialize;
}

/// The random losses of one link.
pub(super) struct LossProcess {
    loss: Loss,
    bad: bool,
    random: Random,
}

impl LossProcess {
    /// Begins in the good state.
    pub(super) const fn new(loss: Loss, random: Random) -> Self {
        Self { loss, bad: false, random }
    }

    /// Returns `true` if the next packet is lost.
    pub(super) fn loses(&mut self) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Bernoulli(chance) => self.random.happens(chance),
            Loss::GilbertElliott(model) => {
                self.bad ^= self.random.happens(if self.bad { model.r } else { model.p });
                self.random.happens(if self.bad { model.bad } else { model.good })
            }
        }
    }
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(LossVisitor)
    }
}

struct LossVisitor;

impl<'de> Visitor<'de> for LossVisitor {
    type Value = Loss;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a chance such as \"0.1 %\", or { p = \"1 %\", r = \"30 %\" } for bursts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Loss, E> {
        text.parse().map(Loss::Bernoulli).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loss, A::Error> {
        let Bursts { p, r, good, bad } = Bursts::deserialize(MapAccessDeserializer::new(map))?;
        let p = p.ok_or_else(|| A::Error::missing_field("p"))?;
        let r = r.ok_or_else(|| A::Error::missing_field("r"))?;
        Ok(Loss::GilbertElliott(GilbertElliott { p, r, good, bad }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(text: &str, seed: u64) -> LossProcess {
        #[derive(Deserialize)]
        struct File {
            loss: Loss,
        }
        let file: File = toml::from_str(&format!("loss = {text}")).unwrap();
        LossProcess::new(file.loss, Random::new(seed, 0))
    }

    /// For each seed, the number of lost packets among `n` is within three standard deviations of
    /// `n * p`.
    ///
    /// Catches: probabilities that are scaled to 2^32 in place of 10^9.
    #[test]
    fn independent_losses_have_their_probability() {
        let n = 40_000u32;
        for (text, percent) in [("\"1 %\"", 1), ("\"10 %\"", 10), ("\"50 %\"", 50)] {
            for seed in 0..5 {
                let mut process = process(text, seed);
                let lost = (0..n).filter(|_| process.loses()).count();
                let variance = f64::from(n * percent * (100 - percent)) / 10_000.0;
                let off =
                    (f64::from(u32::try_from(lost).unwrap()) - f64::from(n * percent / 100)).abs();
                assert!(off <= 3.0 * variance.sqrt(), "seed {seed}: {lost} of {n} at {percent} %");
            }
        }
    }

    /// The length of bursts is geometric with the mean `1 / r`. Length and number of the bursts
    /// together test `p` and `r`.
    ///
    /// Catches: `p` used for both transitions.
    #[test]
    fn bursts_are_as_long_and_as_frequent_as_the_model_says() {
        let n = 200_000u32;
        let mut process = process("{ p = \"1 %\", r = \"25 %\" }", 3);
        let losses: Vec<_> = (0..n).map(|_| process.loses()).collect();
        let lost = losses.iter().filter(|lost| **lost).count();
        let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        // The part p / (p + r) is 1/26, and a burst has 4 packets on average. Both bounds are three
        // standard deviations.
        assert!((7_100..8_300).contains(&lost), "{lost}");
        assert!((1_790..2_060).contains(&bursts), "{bursts}");
        let longest_gap_free = losses.split(|lost| !lost).map(<[_]>::len).max().unwrap();
        assert!((15..60).contains(&longest_gap_free), "{longest_gap_free}");
    }

    #[test]
    fn each_state_loses_with_its_own_probability() {
        let mut never = process("{ p = \"50 %\", r = \"50 %\", bad = \"0 %\" }", 1);
        assert!((0..1_000).all(|_| !never.loses()));
        let mut always = process("{ p = \"50 %\", r = \"50 %\", good = \"100 %\" }", 1);
        assert!((0..1_000).all(|_| always.loses()));
    }
}
