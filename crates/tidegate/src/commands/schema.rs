//! `tidegate schema`.

use super::Context;
use crate::config;
use crate::output::Exit;

/// Prints the JSON Schema of policy files, for editors.
pub(crate) fn run(context: &Context) -> anyhow::Result<Exit> {
    context.output.text(text())?;
    Ok(Exit::Done)
}

/// The schema, indented.
fn text() -> String {
    format!("{:#}", config::schema())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_the_one_in_force() {
        crate::committed::holds("docs/policy.schema.json", &(text() + "\n"));
    }
}
