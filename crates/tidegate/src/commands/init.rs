//! `tidegate init`.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;

use tidegate_core::Rate;

use super::Context;
use super::check;
use crate::code::Code;
use crate::config;
use crate::host::Host;
use crate::output::{Exit, Failure};

/// What `init` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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

    /// Ask nothing
    #[arg(long)]
    yes: bool,
}

/// Writes a first policy file.
pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let (lan, wan) = ports(args, &Host::look())?;
    let down = rate(args.down.as_deref(), "down", "From the Internet to the users", args)?;
    let up = rate(args.up.as_deref(), "up", "From the users to the Internet", args)?;
    let text = file(&lan, &wan, up, down);
    let (config, found) = config::parse(&check::name(&args.file), &text, None);
    if config.is_none() {
        eprintln!("{}", found.render(false));
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

fn ports(args: &Args, host: &Host) -> Result<(String, String), Failure> {
    if let (Some(lan), Some(wan)) = (&args.lan, &args.wan) {
        return Ok((lan.clone(), wan.clone()));
    }
    let guess = host.guess_ports().ok_or_else(|| {
        let names: Vec<_> = host.interfaces.iter().map(|it| it.name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = format!("cannot tell which interfaces are meant; there are: {there}");
        Failure::input(Code::NoPorts, message)
    })?;
    let or =
        |given: &Option<String>, guessed: &str| given.clone().unwrap_or_else(|| guessed.to_owned());
    Ok((or(&args.lan, &guess.0.name), or(&args.wan, &guess.1.name)))
}

/// The rate given, or asked for where somebody can answer.
fn rate(given: Option<&str>, flag: &str, question: &str, args: &Args) -> anyhow::Result<Rate> {
    let parse = |text: &str| {
        text.parse::<Rate>().map_err(|error| Failure::input(Code::BadRate, error.to_string()))
    };
    if let Some(given) = given {
        return Ok(parse(given)?);
    }
    if args.yes || !io::stdin().is_terminal() {
        let message = format!("nobody to ask for the rate: give it with --{flag} \"100 Mbit/s\"");
        return Err(Failure::input(Code::BadRate, message).into());
    }
    eprintln!(
        "{question}: what rate does the access link have? About 95 % of what a speed test shows."
    );
    loop {
        eprint!("  such as 100 Mbit/s: ");
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 {
            return Err(Failure::input(Code::BadRate, "no answer").into());
        }
        match parse(line.trim()) {
            Ok(rate) => return Ok(rate),
            Err(error) => eprintln!("  {}", error.message),
        }
    }
}

fn write(args: &Args, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(&args.file);
    let mut file = file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::input(Code::FileExists, format!("{} exists", args.file.display()))
        }
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
