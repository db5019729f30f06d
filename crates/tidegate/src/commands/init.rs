//! `tidegate init` writes a first policy file. It asks for the two network interfaces and the rates.

use std::fs::OpenOptions;
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use tidegate_core::Rate;

use super::Context;
use super::check;
use crate::code::Code;
use crate::config;
use crate::host::{self, Host};
use crate::output::{Exit, Failure, progress, prompt};

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The policy file to write
    #[arg(default_value = "tidegate.toml")]
    file: PathBuf,

    /// Interface towards the users [default: guessed]
    #[arg(long, value_name = "INTERFACE")]
    lan: Option<String>,

    /// Interface towards the Internet [default: guessed]
    #[arg(long, value_name = "INTERFACE")]
    wan: Option<String>,

    /// Rate of the access link towards the Internet, such as "20 Mbit/s"
    #[arg(long, value_name = "RATE")]
    up: Option<String>,

    /// Rate of the access link towards the users, such as "100 Mbit/s"
    #[arg(long, value_name = "RATE")]
    down: Option<String>,

    /// Ask no questions
    #[arg(long)]
    yes: bool,
}

/// Writes a first policy file.
pub(crate) fn run(args: &InitArgs, context: &Context) -> anyhow::Result<Exit> {
    if args.file.exists() {
        // The operator should not answer questions in vain, so this check comes first.
        return Err(exists(&args.file).into());
    }
    let mut operator = (!args.yes && io::stdin().is_terminal()).then(|| io::stdin().lock());
    let [lan, wan] = ports(args, &host::look(), operator.as_mut())?;
    let mut rate = |given: &Option<String>, flag, question| {
        rate(given.as_deref(), flag, question, operator.as_mut())
    };
    let down = rate(&args.down, "down", "From the Internet to the users")?;
    let up = rate(&args.up, "up", "From the users to the Internet")?;
    let text = file(&lan, &wan, up, down);
    let (config, found) = config::parse(&check::name(&args.file), &text, None);
    if config.is_none() {
        progress(found.render(false));
        return Ok(Exit::WrongInput);
    }
    write(args, &text)?;
    let data =
        serde_json::json!({ "file": args.file, "lan": lan, "wan": wan, "up": up, "down": down });
    if context.output.is_json() {
        context.output.json(&data)?;
    } else {
        let file = args.file.display();
        context.output.text(format!(
            "wrote {file}: {lan} (users) to {wan} (Internet), {down} down and {up} up\n\
             next: tidegate check --host {file} && tidegate run {file}"
        ))?;
    }
    Ok(Exit::Done)
}

/// The LAN and WAN ports: from the arguments, guessed, or typed by the operator (the input
/// `operator`).
fn ports(
    args: &InitArgs,
    host: &Host,
    operator: Option<&mut impl BufRead>,
) -> anyhow::Result<[String; 2]> {
    if let Some(ports) = host.ports(args.lan.as_deref(), args.wan.as_deref()) {
        return Ok(ports);
    }
    let names: Vec<_> = host.interfaces.iter().map(|it| it.name.as_str()).collect();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let missing = || {
        let message = format!("cannot tell which interfaces are meant; there are: {there}");
        Failure::input(Code::NoPorts, message)
    };
    let (Some(operator), false) = (operator, names.is_empty()) else {
        return Err(missing().into());
    };
    let known = |name: &str| match host.interface(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(Failure {
            help: format!("there are: {there}"),
            ..Failure::input(Code::NoInterface, format!("there is no interface `{name}`"))
        }),
    };
    let mut ask = |given: &Option<String>, question| match given {
        Some(name) => Ok(name.clone()),
        None => {
            progress(format_args!("{question}: which interface? There are: {there}"));
            answer("the name of one", operator, missing, known)
        }
    };
    Ok([ask(&args.lan, "Towards the users")?, ask(&args.wan, "Towards the Internet")?])
}

/// The rate from the arguments, or typed by the operator (the input `operator`).
fn rate(
    given: Option<&str>,
    flag: &str,
    question: &str,
    operator: Option<&mut impl BufRead>,
) -> anyhow::Result<Rate> {
    let parse = |text: &str| {
        let rate = text.parse::<Rate>();
        rate.map_err(|error| Failure::worded(Code::BadRate, &error.to_string()).of_input())
    };
    if let Some(given) = given {
        return Ok(parse(given)?);
    }
    let missing = || {
        let help = format!("give it with --{flag} \"100 Mbit/s\"");
        Failure { help, ..Failure::input(Code::BadRate, "the rate is missing") }
    };
    let Some(operator) = operator else { return Err(missing().into()) };
    progress(format_args!("{question}: what rate does the access link have?"));
    progress("Give about 95 % of what a speed test shows.");
    answer("such as 100 Mbit/s", operator, missing, parse)
}

/// Asks the `operator` until `parse` accepts the answer. Returns the error `missing` if the input
/// ends first.
fn answer<T>(
    wanted: &str,
    operator: &mut impl BufRead,
    missing: impl Fn() -> Failure,
    parse: impl Fn(&str) -> Result<T, Failure>,
) -> anyhow::Result<T> {
    loop {
        prompt(format_args!("  {wanted}: "));
        let mut line = String::new();
        if operator.read_line(&mut line)? == 0 {
            progress("");
            return Err(missing().into());
        }
        match parse(line.trim()) {
            Ok(answer) => return Ok(answer),
            Err(error) => progress(format_args!("  {}; {}", error.message, error.help)),
        }
    }
}

fn exists(file: &Path) -> Failure {
    Failure::input(Code::FileExists, format!("{} exists", file.display()))
}

fn write(args: &InitArgs, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(&args.file);
    let mut file = file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(&args.file),
        _ => Failure::input(
            Code::NoSuchFile,
            format!("cannot write {}: {error}", args.file.display()),
        ),
    })?;
    Ok(file.write_all(text.as_bytes())?)
}

fn file(lan: &str, wan: &str, up: Rate, down: Rate) -> String {
    let share = Rate::from_bps((down.bps() / 4).max(1));
    format!(
        r#"# What Tidegate does on this access link. `tidegate check FILE` says whether all is well here.

[gateway]
lan = "{lan}"                # towards the users
wan = "{wan}"                # towards the Internet
# A little less than the line carries, so that packets wait here, where they are shared fairly,
# and not in the modem.
rate = {{ up = "{up}", down = "{down}" }}
# Where packets wait for the line. Each computer has its share, whatever its number of connections. Packets that
# wait too long are dropped or marked, so that senders slow down before calls and games notice. Downloads keep
# their rate beside uploads. This is the default; others: "fq-codel", "per-flow", "pie", "drop-tail".
queue = "hosts"
# What the line adds to each packet: "docsis", "ethernet", "pppoe-ptm", ...
# overhead = "docsis"

# A policy says which traffic, how much of it, and what happens beyond that. This one holds all the
# downloads of one host together at a quarter of the line, shared fairly; take away the # to use it.
#
# [[policy]]
# name = "backup"
# priority = 10                # the highest wins; then the most specific; then the name
# match = {{ dst = "192.168.1.10", direction = "down" }}
# profile = {{ mean = "{share}" }}
# action = "shape"             # or "police-mark", "police-drop", "pass"
# mode = "observe"             # only report what it would see; leave out to act
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Interface;

    fn asked(answers: &str) -> anyhow::Result<Rate> {
        rate(None, "up", "From the users to the Internet", Some(&mut answers.as_bytes()))
    }

    fn refused(result: anyhow::Result<Rate>) -> Failure {
        result.unwrap_err().downcast().unwrap()
    }

    /// Catches: a first answer accepted although it is not a rate; a program that keeps asking
    /// after the end of the input.
    #[test]
    fn the_operator_is_asked_until_the_answer_is_a_rate() {
        assert_eq!(asked("20\n20 Mbps\n\n  20 Mbit/s \n").unwrap(), Rate::from_mbps(20));
        let refused = refused(asked("many\n"));
        assert_eq!((refused.code, refused.exit), (Code::BadRate, Exit::WrongInput));
        assert!(refused.help.contains("--up"));
    }

    #[test]
    fn options_replace_questions_and_are_named_if_nobody_can_answer() {
        let nobody = None::<&mut io::Empty>;
        assert_eq!(rate(Some("8 Mbit/s"), "up", "", nobody).unwrap(), Rate::from_mbps(8));
        let wrong = refused(rate(Some("8 Mbps"), "up", "", None::<&mut io::Empty>));
        assert_eq!((wrong.code, wrong.exit), (Code::BadRate, Exit::WrongInput));
        assert!(refused(rate(None, "down", "", None::<&mut io::Empty>)).help.contains("--down"));
    }

    /// Catches: an answer accepted that names no interface; a question about a port that was given
    /// as an argument.
    #[test]
    fn ports_that_cannot_be_guessed_are_asked_for() {
        let interface = |name: &str| Interface {
            name: name.to_owned(),
            mtu: None,
            is_up: None,
            is_device: true,
            has_default_route: false,
        };
        let host = Host { interfaces: ["eth0", "eth1", "eth2"].map(interface).to_vec() };
        let asked = |lan: Option<&str>, answers: &str| {
            let lan = lan.map(str::to_owned);
            let args =
                InitArgs { file: PathBuf::new(), lan, wan: None, up: None, down: None, yes: false };
            ports(&args, &host, Some(&mut answers.as_bytes()))
        };
        assert_eq!(asked(None, "eth9\neth1\n eth2 \n").unwrap(), ["eth1", "eth2"]);
        assert_eq!(asked(Some("eth0"), "eth2\n").unwrap(), ["eth0", "eth2"]);
        let refused: Failure = asked(None, "eth1\n").unwrap_err().downcast().unwrap();
        assert_eq!(refused.code, Code::NoPorts);
    }
}
