//! `tidegate schema`.

use super::Context;
use crate::config;
use crate::output::Exit;
use crate::topology;

/// What `schema` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Of topology files, as `lab` and `sim` take them, instead
    #[arg(long)]
    topology: bool,

    /// Of the files of aggregate gateways instead
    #[arg(long, conflicts_with = "topology")]
    aggregate: bool,
}

/// Prints the JSON Schema of a kind of files, for editors.
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
    fn the_published_schemas_are_those_in_force() {
        let text = |schema| format!("{schema:#}\n");
        crate::committed::holds("docs/policy.schema.json", &text(config::schema()));
        let aggregate = tidegate_config::aggregate::schema();
        crate::committed::holds("docs/aggregate.schema.json", &text(aggregate));
        crate::committed::holds("docs/topology.schema.json", &text(topology::schema()));
    }
}
