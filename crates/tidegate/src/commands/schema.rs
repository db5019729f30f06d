//! `tidegate schema` prints the JSON Schema of policy files and of other files.

use super::Context;
use crate::config;
use crate::output::Exit;
use crate::topology;

/// Arguments of `schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Print the schema of topology files (for `lab` and `sim`) instead
    #[arg(long)]
    topology: bool,

    /// Print the schema of aggregate gateway files instead
    #[arg(long, conflicts_with = "topology")]
    aggregate: bool,
}

/// Prints the JSON Schema of a kind of file. Editors use it to check and complete such files.
pub(crate) fn run(args: &SchemaArgs, context: &Context) -> anyhow::Result<Exit> {
    let schema = match (args.topology, args.aggregate) {
        (true, _) => topology::schema(),
        (false, true) => tidegate_config::aggregate::schema(),
        (false, false) => config::schema(),
    };
    context.output.text(format!("{schema:#}"))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schemas_are_up_to_date() {
        let text = |schema| format!("{schema:#}\n");
        crate::committed::holds("docs/policy.schema.json", &text(config::schema()));
        let aggregate = tidegate_config::aggregate::schema();
        crate::committed::holds("docs/aggregate.schema.json", &text(aggregate));
        crate::committed::holds("docs/topology.schema.json", &text(topology::schema()));
    }
}
