//! Counts instructions with callgrind. Each case runs twice, with n and with 2n operations; the
//! difference is the cost of n operations.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use anyhow::{Context, bail};

use crate::number::real;

/// The cost of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Number of instructions.
    pub(crate) instructions: f64,
    /// Misses of the last-level cache in callgrind's model; `None` without the model.
    pub(crate) misses: Option<f64>,
}

/// A case with its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) name: &'a str,
    pub(crate) operations: u64,
    pub(crate) size: u32,
    pub(crate) seed: u64,
}

/// The cache model: 32 KiB at the first level and 8 MiB at the last level, the same on every
/// machine.
const CACHE: [&str; 4] =
    ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];

/// In a case of a live gateway, callgrind counts only the function that matches this pattern. The
/// function is one iteration of the loop of the measured gateway.
const LIVE: &str = "*cases::live::counted*";

/// Two patterns for the function that makes the counted calls into a gateway. Two options of
/// callgrind need a pattern of this function, and callgrind accepts a pattern in one option only.
const CALL: &str = "*cases::swaps::counted*";
const CALL_ENDS: &str = "*swaps::counted*";

/// Returns `true` if callgrind is installed.
pub(crate) fn is_there() -> bool {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// The cost of one operation of `run`. The cost of the setup, and extra costs of the first
/// operations, cancel out in the difference.
pub(crate) fn cost(run: Run<'_>, with_cache: bool) -> anyhow::Result<Cost> {
    let longer = Run { operations: 2 * run.operations, ..run };
    // Both processes run at the same time. Callgrind counts the instructions of each separately.
    let (once, twice) = (Counting::start(run, with_cache)?, Counting::start(longer, with_cache)?);
    let (once, twice) = (once.finish()?, twice.finish()?);
    let each = |name: &str| {
        let of = |counts: &[(String, u64)]| {
            counts.iter().find(|(event, _)| event == name).map(|(_, count)| real(*count))
        };
        Some((of(&twice)? - of(&once)?) / real(run.operations))
    };
    let misses = ["ILmr", "DLmr", "DLmw"].into_iter().map(each).sum();
    let instructions = each("Ir").context("callgrind counted no instructions")?;
    Ok(Cost { instructions, misses })
}

/// Instructions of the longest single call into a gateway during `run`.
pub(crate) fn longest_call(run: Run<'_>) -> anyhow::Result<f64> {
    let each = [
        format!("--toggle-collect={CALL}"),
        format!("--dump-after={CALL_ENDS}"),
        "--combine-dumps=yes".to_owned(),
    ];
    let text = Counting::begin(run, &each)?.text()?;
    let longest = text.lines().filter_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    let longest = longest.max().map(|count: u64| real(count));
    longest.with_context(|| format!("callgrind counted no call of {run:?}"))
}

/// Processor time in nanoseconds of one operation of `run`, measured on this machine without
/// callgrind.
pub(crate) fn nanos(run: Run<'_>) -> anyhow::Result<f64> {
    let output = Command::new(env::current_exe()?).args(words(run)).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split_whitespace().next().and_then(|number| number.parse().ok());
    number.with_context(|| format!("{run:?} said: {text}{}", stderr(&output.stderr)))
}

/// A case that runs in callgrind.
struct Counting<'a> {
    run: Run<'a>,
    file: Counts,
    process: Child,
}

impl<'a> Counting<'a> {
    fn start(run: Run<'a>, with_cache: bool) -> anyhow::Result<Self> {
        let mut options = Vec::new();
        if with_cache {
            options.extend(CACHE.map(str::to_owned));
        }
        if run.name.starts_with("live/") {
            options.push(format!("--toggle-collect={LIVE}"));
        }
        Self::begin(run, &options)
    }

    fn begin(run: Run<'a>, options: &[String]) -> anyhow::Result<Self> {
        let file = Counts::new(run);
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").args(options);
        command.arg(format!("--callgrind-out-file={}", file.0.display()));
        command.arg(env::current_exe()?).args(words(run));
        let process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        Ok(Self { run, file, process })
    }

    /// Waits for the end of the process. Returns the name and total of each counted event.
    fn finish(self) -> anyhow::Result<Vec<(String, u64)>> {
        let run = self.run;
        let text = self.text()?;
        totals(&text).with_context(|| format!("callgrind wrote no totals for {run:?}"))
    }

    /// Waits for the end of the process. Returns the output file of callgrind.
    fn text(self) -> anyhow::Result<String> {
        let Self { run, file, process } = self;
        let output = process.wait_with_output()?;
        if !output.status.success() {
            bail!("{run:?} failed in callgrind:\n{}", stderr(&output.stderr));
        }
        Ok(fs::read_to_string(&file.0)?)
    }
}

fn words(run: Run<'_>) -> [String; 5] {
    let Run { name, operations, size, seed } = run;
    ["case".into(), name.into(), operations.to_string(), size.to_string(), seed.to_string()]
}

fn stderr(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The totals in the output of callgrind: the names after `events:`, with the numbers after
/// `totals:`.
fn totals(text: &str) -> Option<Vec<(String, u64)>> {
    let after = |start: &str| text.lines().rev().find_map(|line| line.strip_prefix(start));
    let names = after("events:")?.split_whitespace().map(str::to_owned);
    let numbers = after("totals:")?.split_whitespace().map_while(|number| number.parse().ok());
    Some(names.zip(numbers).collect())
}

/// The output file of callgrind, removed on drop.
struct Counts(PathBuf);

impl Counts {
    fn new(run: Run<'_>) -> Self {
        let name = run.name.replace('/', "-");
        let Run { operations, size, seed, .. } = run;
        let unique = format!("{}-{name}-{operations}-{size}-{seed}", std::process::id());
        Self(env::temp_dir().join(format!("tidegate-bench-{unique}")))
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        // If the removal fails, a file remains in the temporary folder.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_have_the_names_of_their_events() {
        let text = "version: 1\nevents: Ir Dr ILmr\nfn=x\n1 2\ntotals: 500 20 3\n";
        let expected = [("Ir", 500), ("Dr", 20), ("ILmr", 3)];
        assert_eq!(totals(text).unwrap(), expected.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(totals("events: Ir\n"), None);
    }
}
