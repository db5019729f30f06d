//! `tidegate explain`: explains a packet, a live flow, or an error code.

use std::fmt::Write;

use super::status::{MOST_ROWS, columns};
use super::{Context, check};
use crate::api::{Candidate, Explanation, Question};
use crate::client;
use crate::code::Code;
use crate::daemon;
use crate::output::{Exit, Failure};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A policy file, or an error code such as TG0020 [default: the running gateway]
    subject: Option<String>,

    #[command(flatten)]
    question: Question,
}

/// Runs the command.
pub(crate) fn run(args: &ExplainArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Some(code) = args.subject.as_deref().and_then(Code::named) {
        return error(code, context);
    }
    if let Some(name) = args.subject.as_deref().filter(|it| is_code(it)) {
        let message = format!("there is no error {name}");
        let help = format!("they go from {} to {}", Code::ALL[0].name(), Code::System.name());
        return Err(Failure { help, ..Failure::input(Code::UnknownName, message) }.into());
    }
    let explanation: Explanation = match &args.subject {
        Some(file) => match check::load(file.as_ref(), None, context)? {
            Ok((_, config)) => daemon::explain(&config, &args.question)?,
            Err(exit) => return Ok(exit),
        },
        None => client::post(&context.socket, "/v1/explain", &args.question)?,
    };
    if context.output.is_json() {
        context.output.json(&explanation)?;
    } else {
        context.output.text(show(&explanation).trim_end())?;
    }
    Ok(Exit::Done)
}

/// Returns `true` if `name` looks like an error code.
fn is_code(name: &str) -> bool {
    let number = name.get(..2).filter(|it| it.eq_ignore_ascii_case("TG")).map(|_| &name[2..]);
    number.is_some_and(|it| !it.is_empty() && it.chars().all(|c| c.is_ascii_digit()))
}

fn error(code: Code, context: &Context) -> anyhow::Result<Exit> {
    let (name, title, repair) = (code.name(), code.title(), code.repair());
    if context.output.is_json() {
        let data = serde_json::json!({ "code": name, "message": title, "help": repair });
        context.output.json(&data)?;
    } else {
        context.output.text(format!("{name}: {title}\n{repair}"))?;
    }
    Ok(Exit::Done)
}

fn show(it: &Explanation) -> String {
    let policy = it.policy.as_deref().unwrap_or("none");
    let mut text = format!("policy  {policy}\naction  {}\nwhy     {}\n", it.action, it.why);
    for charged in &it.charged {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "charged {} B for {} B of IP", charged.bytes, charged.ip_bytes);
    }
    text += &policies(&it.policies);
    for flow in &it.flows {
        let _ = writeln!(
            text,
            "\nflow    {} to {}, limited by {}",
            flow.src, flow.dst, flow.limit_text
        );
        for vlan in &flow.vlans {
            let _ = writeln!(text, "in      VLAN {vlan}");
        }
        for tunnel in &flow.tunnels {
            let _ = writeln!(text, "in      {}", tunnel.text());
        }
    }
    text
}

/// A table of the policies that match the packet. Also lists the other policies if there are few.
fn policies(all: &[Candidate]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let few = all.len() <= MOST_ROWS;
    let shown: Vec<_> = all.iter().filter(|it| few || it.matches).take(MOST_ROWS).collect();
    let mut rows = vec![["policy", "priority", "matches"].map(str::to_owned)];
    rows.extend(shown.iter().copied().map(row));
    let matching = all.iter().filter(|it| it.matches).count();
    let more = match all.len() - shown.len() {
        0 => String::new(),
        more => {
            format!("{more} more of {} policies, {matching} match; --json lists all\n", all.len())
        }
    };
    format!("\n{}{more}", columns(&rows))
}

fn row(it: &Candidate) -> [String; 3] {
    let matches = match &it.differs_in {
        Some(field) => format!("no: {field} differs"),
        None => "yes".to_owned(),
    };
    [it.policy.clone(), it.priority.to_string(), matches]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code;

    /// Catches: a row for each of many policies; a matching policy that is left out.
    #[test]
    fn of_many_policies_only_the_matching_ones_are_shown() {
        let all = |count: usize| -> Vec<Candidate> {
            let policy = |n: usize| Candidate {
                policy: format!("p{n}"),
                priority: 0,
                matches: n == count - 1,
                differs_in: (n < count - 1).then(|| "src".to_owned()),
            };
            (0..count).map(policy).collect()
        };
        let few = policies(&all(MOST_ROWS));
        assert_eq!(few.lines().count(), 2 + MOST_ROWS, "{few}");
        let many = policies(&all(50_000));
        assert_eq!(many.lines().count(), 4, "{many}");
        assert!(many.contains("p49999") && many.contains("49999 more of 50000 policies, 1 match"));
    }

    #[test]
    fn the_manual_lists_every_code() {
        crate::committed::holds("docs/errors.md", &code::page());
    }
}
