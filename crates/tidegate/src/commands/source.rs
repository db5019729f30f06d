//! `tidegate source`: lists the policy sources (repositories), with their states and faults.

use std::time::Duration;

use tidegate_core::units::duration;

use super::Context;
use super::status::columns;
use crate::api::{Source, Sources};
use crate::client;
use crate::output::Exit;

/// Lists the sources.
pub(crate) fn list(context: &Context) -> anyhow::Result<Exit> {
    let found: Sources = client::get(&context.socket, "/v1/sources")?;
    if context.output.is_json() {
        context.output.json(&found)?;
        return Ok(Exit::Done);
    }
    context.output.text(show(&found.sources))?;
    Ok(Exit::Done)
}

fn show(sources: &[Source]) -> String {
    if sources.is_empty() {
        return "no sources: the policy file has no [[source]]".to_owned();
    }
    let head = ["source", "kind", "state", "in force", "newest", "delivered"].map(str::to_owned);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |it: &Source| {
        let delivered = it.delivered_s.map_or_else(|| "-".to_owned(), ago);
        let (name, kind, state) = (it.name.clone(), it.kind.clone(), it.state.clone());
        [name, kind, state, or_none(&it.revision), or_none(&it.newest), delivered]
    };
    let rows: Vec<_> = std::iter::once(head).chain(sources.iter().map(row)).collect();
    let mut text = columns(&rows);
    for source in sources {
        let since = source.failing_s.map(|seconds| format!(" for {}", age(seconds)));
        for (what, said) in [("", &source.error), ("  help: ", &source.help)] {
            if let Some(said) = said {
                let since =
                    if what.is_empty() { since.clone().unwrap_or_default() } else { String::new() };
                text.push_str(&format!("\n{what}{}{since}: {said}", source.name));
            }
        }
    }
    text
}

fn ago(seconds: u64) -> String {
    format!("{} ago", age(seconds))
}

fn age(seconds: u64) -> String {
    // Zero is special: other code would print `0 ns`.
    if seconds == 0 { "0 s".to_owned() } else { duration::show(Duration::from_secs(seconds)) }
}
