//! Generates JSON Schemas of mechanisms (queue disciplines, schedulers and so on) from the
//! declarations of their parameters.

use serde_json::{Map, Value, json};
use tidegate_core::parameters::{Form, Mechanism, Parameter, Written};

/// The schema of values with the declared `form`.
pub(crate) fn of(form: &Form) -> Value {
    match form {
        Form::Text => json!({ "type": "string" }),
        Form::Quantity(units) => quantity(&units.join("|")),
        Form::Whole(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Form::Number => json!({ "type": "number", "minimum": 0 }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Choice(names) => {
            json!({ "enum": names.iter().map(|(name, _)| *name).collect::<Vec<_>>() })
        }
        Form::List(item) => json!({ "type": "array", "items": of(item) }),
        Form::Table(fields) => table(fields),
        Form::Named(mechanisms) => self::mechanisms(mechanisms),
        Form::Any(forms) => json!({ "anyOf": forms.iter().map(of).collect::<Vec<_>>() }),
    }
}

/// The schema of quantities. `units` are the permitted units, separated by `|`.
pub(crate) fn quantity(units: &str) -> Value {
    json!({ "type": "string", "pattern": format!(r"^\s*[0-9][0-9_]*(\.[0-9_]+)?\s*({units})\s*$") })
}

/// The schema of a table with the fields `parameters`.
pub(crate) fn table(parameters: &[Parameter]) -> Value {
    let properties: Map<_, _> =
        parameters.iter().map(|it| (it.name.to_owned(), parameter(it))).collect();
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn parameter(parameter: &Parameter) -> Value {
    let mut schema = of(&parameter.form);
    schema["description"] = json!(parameter.about);
    if let Some(default) = &parameter.default {
        schema["default"] = written(default);
    }
    let limits = &parameter.limits;
    let bounds = [
        ("minimum", &limits.least),
        ("exclusiveMinimum", &limits.above),
        ("maximum", &limits.most),
        ("exclusiveMaximum", &limits.below),
    ];
    for (keyword, bound) in bounds {
        let number =
            bound.as_ref().filter(|it| matches!(it, Written::Whole(_) | Written::Number(_)));
        if let Some(bound) = number {
            schema[keyword] = written(bound);
        }
    }
    schema
}

/// The schema of a mechanism: one of the names, or a table with `kind` and parameters.
pub(crate) fn mechanisms(mechanisms: &[Mechanism]) -> Value {
    let form = |mechanism: &Mechanism| {
        let mut schema = table(&mechanism.parameters);
        schema["description"] = json!(mechanism.about);
        schema["required"] = json!(["kind"]);
        schema["properties"]["kind"] = json!({ "const": mechanism.name });
        schema
    };
    let names: Vec<_> = mechanisms.iter().map(|it| it.name).collect();
    let mut forms = vec![json!({ "enum": names })];
    forms.extend(mechanisms.iter().map(form));
    json!({ "anyOf": forms })
}

fn written(value: &Written) -> Value {
    match value {
        Written::Text(text) => json!(text),
        Written::Whole(number) => json!(number),
        Written::Number(number) if number.millionths() % MILLION == 0 => {
            json!(number.millionths() / MILLION)
        }
        Written::Number(number) => json!(number.real()),
        Written::Flag(flag) => json!(flag),
        Written::List(items) => items.iter().map(written).collect(),
        Written::Table(fields) => {
            let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), written(value)));
            Value::Object(fields.collect())
        }
    }
}

/// Millionths of one.
const MILLION: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use tidegate_core::ack::AckSpec;
    use tidegate_core::allocation::AllocationSpec;
    use tidegate_core::link::{Jitter, Loss};
    use tidegate_core::marking::MarkingSpec;
    use tidegate_core::parameters::Registered;
    use tidegate_core::qdisc::QdiscSpec;
    use tidegate_core::scheduler::SchedulerSpec;
    use tidegate_core::tcp::congestion::CongestionSpec;

    use super::*;
    use crate::added::Mechanisms;
    use crate::read::Read;

    /// Checks the parameters of every mechanism in the registry `T`. Returns their number.
    fn check<T: DeserializeOwned + PartialEq + Registered>() -> usize {
        let read = |kind: &str, field: &str, value: Value| {
            let mut table = json!({ "kind": kind });
            table[field] = value;
            serde_json::from_value::<T>(table)
        };
        let schema = mechanisms(&T::mechanisms());
        let mut count = 0;
        for kind in T::NAMES {
            let plain = serde_json::from_value::<T>(json!({ "kind": kind })).ok();
            let forms = schema["anyOf"].as_array().unwrap();
            let form = forms.iter().find(|it| it["properties"]["kind"]["const"] == *kind).unwrap();
            for (field, form) in form["properties"].as_object().unwrap() {
                let place = format!("{kind}.{field}");
                assert!(field == "kind" || form["description"].is_string(), "{place}");
                count += usize::from(field != "kind");
                if let Some(default) = form.get("default") {
                    assert!(read(kind, field, default.clone()).ok() == plain, "{place}: {default}");
                }
                let number = |keyword: &str| form.get(keyword).and_then(Value::as_f64);
                let taken = |number: f64| read(kind, field, json!(number)).is_ok();
                for (inside, outside, bound) in
                    [(0.0, -0.001, number("minimum")), (0.0, 0.001, number("maximum"))]
                {
                    let Some(bound) = bound.filter(|_| form["type"] == "number") else { continue };
                    assert!(taken(bound + inside), "{place}: {bound} + {inside} is refused");
                    assert!(!taken(bound + outside), "{place}: {bound} + {outside} is accepted");
                }
            }
        }
        count
    }

    /// Catches: a schema of packet loss without descriptions of its fields; the wrong default "0 %"
    /// for `bad`.
    #[test]
    fn tables_of_links_describe_their_fields_and_defaults() {
        let none = Mechanisms::default();
        for schema in [Jitter::schema(&none), Loss::schema(&none)] {
            let table = schema["anyOf"][1]["properties"].as_object().unwrap();
            assert!(table.values().all(|it| it["description"].is_string()), "{schema}");
        }
        let mut table = json!({ "p": "1 %", "r": "30 %" });
        let short = serde_json::from_value::<Loss>(table.clone()).unwrap();
        for (name, field) in Loss::schema(&none)["anyOf"][1]["properties"].as_object().unwrap() {
            let default = field.get("default").or_else(|| table.get(name)).unwrap();
            table[name] = default.clone();
        }
        assert_eq!(serde_json::from_value::<Loss>(table).unwrap(), short);
    }

    /// Catches: a range that the reader does not check; a range missing in the schema; a default of
    /// the wrong type.
    #[test]
    fn parameters_have_the_defaults_and_ranges_of_their_readers() {
        let counts = [
            check::<QdiscSpec>(),
            check::<MarkingSpec>(),
            check::<AllocationSpec>(),
            check::<AckSpec>(),
            check::<SchedulerSpec>(),
            check::<CongestionSpec>(),
        ];
        assert!(counts.iter().sum::<usize>() > 70, "{counts:?}");
    }

    #[test]
    fn each_type_has_the_form_that_its_reader_accepts() {
        let red = Form::Table(
            QdiscSpec::mechanisms().into_iter().find(|it| it.name == "red").unwrap().parameters,
        );
        let schema = of(&red);
        let field = |name: &str| schema["properties"][name].clone();
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(field("limit")["default"], json!("400 kB"));
        assert!(field("max_p")["pattern"].as_str().unwrap().contains('%'));
        assert_eq!(field("weight")["default"], json!("0.2 %"));
        assert_eq!(field("measure")["enum"], json!(["bytes", "packets"]));
        assert_eq!(field("gentle")["type"], json!("boolean"));
    }
}
