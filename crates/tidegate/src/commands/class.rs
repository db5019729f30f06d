//! `tidegate classes` shows the bandwidth classes; `tidegate class add`, `set` and `remove` change
//! them at run time.

use anyhow::bail;
use serde_json::{Map, Value, json};
use tidegate_core::scheduler::{Term, TermForm};

use super::Context;
use super::table::{Table, cells, headings};
use crate::api::{Class, ClassChange, Classes, Promise};
use crate::client;
use crate::code::Code;
use crate::output::{Exit, Failure};

/// Arguments of `class`.
#[derive(Debug, clap::Args)]
pub(crate) struct ClassArgs {
    #[command(subcommand)]
    what: ClassCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClassCommand {
    /// Add a class; it lasts until policies are applied
    Add {
        /// The class
        name: String,
        /// FIELD=VALUE: parent, queue, and the fields of `set`; such as parent=office guarantee="2
        /// Mbit/s"
        #[arg(value_name = "FIELD=VALUE")]
        fields: Vec<String>,
    },
    /// Remove a class that has no child classes and that no policy names, until policies are
    /// applied
    Remove {
        /// The class
        name: String,
    },
    /// Change the rates and other rights of a class, until policies are applied
    Set {
        /// The class
        name: String,
        // The help is generated, because the schedulers declare the fields of their classes.
        #[arg(required = true, value_name = "FIELD=VALUE", help = help_of_fields())]
        fields: Vec<String>,
    },
}

/// Prints the classes that share the link.
pub(crate) fn list(context: &Context) -> anyhow::Result<Exit> {
    let classes: Classes = client::get(&context.socket, "/v1/classes")?;
    print(&classes, context)
}

/// Adds, changes or removes a class.
pub(crate) fn run(args: &ClassArgs, context: &Context) -> anyhow::Result<Exit> {
    let at = |name: &String| format!("/v1/classes/{name}");
    let socket = &context.socket;
    let classes: Classes = match &args.what {
        ClassCommand::Add { name, fields } => {
            client::post(socket, "/v1/classes", &added(name, fields)?)?
        }
        ClassCommand::Set { name, fields } => client::patch(socket, &at(name), &change(fields)?)?,
        ClassCommand::Remove { name } => client::delete(socket, &at(name))?,
    };
    print(&classes, context)
}

/// The request that adds a class called `name`. Each of `fields` has the form FIELD=VALUE.
fn added(name: &str, fields: &[String]) -> anyhow::Result<Value> {
    let mut rights = change(fields)?;
    let mut class = Map::from_iter([("name".to_owned(), json!(name))]);
    for field in ["parent", "queue"] {
        class.extend(rights.remove(field).map(|value| (field.to_owned(), value)));
    }
    class.insert("rights".to_owned(), rights.into());
    Ok(class.into())
}

fn print(classes: &Classes, context: &Context) -> anyhow::Result<Exit> {
    if context.output.is_json() {
        context.output.json(classes)?;
    } else if classes.classes.is_empty() {
        context.output.text("no classes: the link has one queue")?;
    } else {
        context.output.text(tables(classes).trim_end())?;
    }
    Ok(Exit::Done)
}

/// The tables of the classes and of the promises to them.
pub(crate) fn tables(classes: &Classes) -> String {
    let classes = &classes.classes;
    let promises = promises(classes);
    let space = if promises.is_empty() { "" } else { "\n" };
    table(classes) + space + &promises
}

/// The request that changes a class. Each of `fields` has the form FIELD=VALUE.
fn change(fields: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut change = Map::new();
    for field in fields {
        let Some((name, value)) = field.split_once('=') else {
            let message =
                format!("`{field}` is not FIELD=VALUE; write for example guarantee=\"40 Mbit/s\"");
            bail!(Failure::worded(Code::BadRequest, &message).of_input());
        };
        let wrong = |what: &str| {
            let message = format!("`{name}` is {what}, not `{value}`; write for example {name}=3");
            Failure::worded(Code::BadRequest, &message).of_input()
        };
        let value = match name {
            "parent" | "queue" => json!(value),
            _ => match form_of(name) {
                Some(TermForm::Whole(..)) => {
                    value.parse::<u32>().map(Value::from).map_err(|_| wrong("a whole number"))?
                }
                Some(TermForm::Ratio) if name.ends_with(".factor") => {
                    value.parse::<f64>().map(Value::from).map_err(|_| wrong("a number"))?
                }
                Some(_) => json!(value),
                None => {
                    let fields = ClassChange::terms().map(Term::name).chain(["parent", "queue"]);
                    let fields: Vec<_> = fields.collect();
                    let fields = fields.join(", ");
                    let message = format!("a class has no `{name}`; there are: {fields}");
                    bail!(Failure::worded(Code::BadRequest, &message).of_input());
                }
            },
        };
        match name.split_once('.') {
            Some((rates, way)) => {
                let both = change.entry(rates).or_insert_with(|| json!({}));
                let Some(both) = both.as_object_mut() else {
                    let message = format!(
                        "`{rates}` is given twice; give it for both directions or for each"
                    );
                    bail!(Failure::worded(Code::BadRequest, &message).of_input());
                };
                both.insert(way.to_owned(), value);
            }
            None => drop(change.insert(name.to_owned(), value)),
        }
    }
    Ok(change)
}

/// The form of the values that `field` takes; `guarantee.up` has the form of `guarantee`.
fn form_of(field: &str) -> Option<TermForm> {
    let name = field.split_once('.').map_or(field, |(name, _)| name);
    ClassChange::terms().find(|term| term.name() == name).map(Term::form)
}

/// The help text of `tidegate class set` on the fields.
fn help_of_fields() -> String {
    let (ways, others): (Vec<_>, Vec<_>) =
        ClassChange::terms().partition(|term| term.declaration().each_way);
    let ways: Vec<_> = ways.into_iter().map(Term::name).collect();
    let parts = |term: Term| match term.form() {
        TermForm::Ratio => format!("{name}.of, {name}.factor", name = term.name()),
        _ => term.name().to_owned(),
    };
    let others: Vec<_> = others.into_iter().map(parts).collect();
    format!(
        "FIELD=VALUE, such as guarantee=\"40 Mbit/s\" or ceiling=none. Fields for both directions: {}; for one \
         direction: guarantee.up and so on. Other fields: {}",
        ways.join(", "),
        others.join(", "),
    )
}

fn table(classes: &[Class]) -> String {
    let mut table = Table::new(headings::<Class>());
    classes.iter().for_each(|it| table.row(cells(it)));
    table.text()
}

/// A table of the promises to the classes, with the measured values. Empty without promises.
fn promises(classes: &[Class]) -> String {
    let place = ["class", "direction"].map(str::to_owned).to_vec();
    let mut table = Table::new([place, headings::<Promise>()].concat());
    for class in classes {
        let place = vec![class.name.clone(), class.direction.name().to_owned()];
        class.promises.iter().for_each(|it| table.row([place.clone(), cells(it)].concat()));
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_the_request_to_the_gateway() {
        let fields =
            |all: &[&str]| change(&all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        let sent =
            fields(&["guarantee.up=4 Mbit/s", "guarantee.down=8 Mbit/s", "weight=3"]).unwrap();
        let both = json!({ "up": "4 Mbit/s", "down": "8 Mbit/s" });
        assert_eq!(json!(sent), json!({ "guarantee": both, "weight": 3 }));
        let class = added("web", &["parent=office".to_owned(), "weight=2".to_owned()]).unwrap();
        assert_eq!(class, json!({ "name": "web", "parent": "office", "rights": { "weight": 2 } }));
        assert!(fields(&["guarantee"]).is_err());
        assert!(fields(&["ceiling=1 Mbit/s", "ceiling.up=2 Mbit/s"]).is_err());
    }

    /// Catches: a parser's raw error shown to the operator; a request with a field that classes do
    /// not have.
    #[test]
    fn an_error_in_a_field_is_explained_to_the_operator() {
        let wrong = |field: &str| change(&[field.to_owned()]).unwrap_err().to_string();
        for (field, said) in [
            (
                "weight=heavy",
                "`weight` is a whole number, not `heavy`\n  = help: write for example weight=3",
            ),
            ("loss_ratio.factor=x", "`loss_ratio.factor` is a number, not `x`"),
            ("wait=3", "a class has no `wait`\n  = help: there are: guarantee, ceiling,"),
        ] {
            assert!(wrong(field).contains(said), "{}", wrong(field));
        }
        let read = |json: Value| serde_json::from_value::<ClassChange>(json);
        let said = |json: Value| read(json).unwrap_err().to_string();
        assert_eq!(
            said(json!({ "ceiling": "40" })),
            "`40` has no unit; write for example \"20 Mbit/s\""
        );
        assert_eq!(
            said(json!({ "guarantee": { "left": "40 Mbit/s" } })),
            "`left` is not a direction: up or down"
        );
        let each =
            json!({ "ceiling": { "up": "none", "down": "2 Mbit/s" }, "delay_bound": "20 ms" });
        assert!(read(each).is_ok());
    }
}
