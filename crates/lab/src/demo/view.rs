//! Shows the rates of the downloads on the terminal while the demonstration runs.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stderr};
use std::time::Duration;

use super::figures::{Figures, jain};
use super::phase::{Phase, RATE, RTTS};

/// Shows the rates as bars on a terminal, redrawn in place. Without a terminal, prints plain lines.
/// All output goes to stderr, because stdout is for the final figures.
pub(super) struct View {
    live: bool,
    colour: bool,
    /// Number of lines on the terminal that the next drawing overwrites.
    drawn: usize,
    /// Time of the last plain line.
    line: Duration,
}

/// Interval between two plain lines.
const LINES: Duration = Duration::from_secs(5);

/// Width, in characters, of a bar for the whole rate of the bottleneck.
const WIDTH: usize = 48;

impl View {
    pub(super) fn new() -> Self {
        let live = stderr().is_terminal();
        let colour = live && std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty());
        Self { live, colour, drawn: 0, line: Duration::ZERO }
    }

    pub(super) fn introduce(&self, phases: usize, length: Duration) {
        let rtts: Vec<_> = RTTS.iter().map(|rtt| rtt.as_millis().to_string()).collect();
        say(&format!(
            "Four real TCP downloads (Reno, round trips {} ms) share {RATE}; {phases} phases of {} s.\n",
            rtts.join("/"),
            length.as_secs(),
        ));
    }

    pub(super) fn begin(&mut self, phase: &Phase) {
        (self.drawn, self.line) = (0, Duration::ZERO);
        say(&format!("{}: {} ({})\n", self.bold(phase.name), phase.title, phase.parameters()));
    }

    pub(super) fn update(
        &mut self,
        at: Duration,
        length: Duration,
        flows: &[f64],
        all: f64,
        ping: Option<f64>,
    ) {
        let ping = ping.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
        let summary = format!(
            "{:>3} of {} s   {:.2} Mbit/s   Jain {:.3}   ping {ping} ms",
            at.as_secs(),
            length.as_secs(),
            all / 1e6,
            jain(flows),
        );
        if self.live {
            self.draw(flows, &summary);
        } else if at >= self.line + LINES {
            self.line = at;
            let rates: Vec<_> = flows.iter().map(|bps| format!("{:.2}", bps / 1e6)).collect();
            say(&format!("  {summary}   flows {}\n", rates.join(" ")));
        }
    }

    pub(super) fn finish(&mut self, figures: &Figures) {
        let rates: Vec<_> =
            figures.flows.iter().map(|flow| format!("{:.2}", flow.rate_bps / 1e6)).collect();
        let (jain, all) = (figures.jain, figures.rate_bps / 1e6);
        if self.live {
            self.rewind();
        }
        say(&format!("  flows {} Mbit/s, together {all:.2}, Jain {jain:.3}\n\n", rates.join(" ")));
    }

    fn draw(&mut self, flows: &[f64], summary: &str) {
        self.rewind();
        let mut text = String::new();
        for (rtt, bps) in RTTS.iter().zip(flows) {
            let bar = self.green(&bar(*bps));
            let rate = bps / 1e6;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {:>4} ms {rate:>6.2} Mbit/s {bar}", rtt.as_millis());
        }
        let _ = writeln!(text, "  {summary}");
        self.drawn = flows.len() + 1;
        say(&text);
    }

    /// Moves the cursor to the first drawn line, and erases everything below.
    fn rewind(&mut self) {
        if self.drawn > 0 {
            say(&format!("\x1b[{}A\x1b[J", self.drawn));
            self.drawn = 0;
        }
    }

    fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn green(&self, text: &str) -> String {
        if self.colour { format!("\x1b[32m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A bar for the rate `bps`. Its length is proportional to the share of the whole rate.
fn bar(bps: f64) -> String {
    let whole = f64::from(u32::try_from(RATE.bps()).unwrap_or(u32::MAX));
    let parts = (1..=WIDTH).scan(0.0, |reached, _| {
        *reached += whole / WIDTH_F64;
        Some(*reached)
    });
    parts.take_while(|reached| *reached <= bps).map(|_| '█').collect()
}

const WIDTH_F64: f64 = 48.0;

fn say(text: &str) {
    // The result is ignored: the demonstration collects its figures even if nobody reads this text.
    let _ = stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_bar_is_proportional_to_the_rate() {
        assert_eq!(bar(0.0).chars().count(), 0);
        assert_eq!(bar(4_000_001.0).chars().count(), WIDTH / 2);
        assert_eq!(bar(20e6).chars().count(), WIDTH);
    }
}
