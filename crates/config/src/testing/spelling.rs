//! Other spellings of the same policy set: other units, numbers as names, lists in another order,
//! and tables in place of names.

use tidegate_core::scheduler::SchedulerSpec;
use toml::{Table, Value};

use crate::item::{Item, ItemKind};

/// The items in random order and in other spellings with the same meaning. `seed` selects the
/// spelling.
#[must_use]
pub fn respelled(items: &[Item], seed: u64) -> Vec<Item> {
    let mut random = Draws(seed);
    let mut items: Vec<_> = items.to_vec();
    random.shuffle(&mut items);
    for item in &mut items {
        for (key, value) in &mut item.fields {
            if item.kind == ItemKind::Class {
                both_ways(key, value, &mut random);
            }
            respell(key, value, &mut random);
        }
        earlier_name(&mut item.fields, &mut random);
    }
    items
}

/// Sometimes writes `ack_control` under its earlier name `signal`.
fn earlier_name(fields: &mut Table, random: &mut Draws) {
    if !fields.contains_key("ack_control") || random.below(2) == 0 {
        return;
    }
    let control = fields.remove("ack_control");
    fields.extend(control.map(|value| ("signal".to_owned(), value)));
}

fn respell(key: &str, value: &mut Value, random: &mut Draws) {
    match key {
        "match" => table(value).for_each(|(key, value)| filter_field(key, value, random)),
        "mark" => table(value).for_each(|(_, value)| name_number("dscp", value, random)),
        "roles" => list(value).for_each(|list| random.shuffle(list)),
        "weights" => {
            for entry in
                list(value).flat_map(|list| list.iter_mut()).filter_map(Value::as_table_mut)
            {
                entry.iter_mut().for_each(|(key, value)| respell(key, value, random));
            }
        }
        "queue" | "ack_control" | "allocation" => mechanism(value, random),
        _ => quantities(value, random),
    }
}

/// Writes a value of a class that applies to both directions as a table of two equal values.
fn both_ways(key: &str, value: &mut Value, random: &mut Draws) {
    let each_way = SchedulerSpec::term(key).is_some_and(|term| term.declaration().each_way);
    if each_way && value.is_str() && random.below(2) == 0 {
        let way = |name: &str| (name.to_owned(), value.clone());
        *value = Value::Table(Table::from_iter([way("up"), way("down")]));
    }
}

fn table(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_table_mut().into_iter().flat_map(|table| table.iter_mut())
}

fn list(value: &mut Value) -> impl Iterator<Item = &mut Vec<Value>> {
    value.as_array_mut().into_iter()
}

/// Respells a field of a filter. A single value may also be a list, the order of a list has no
/// meaning, and a VLAN without `outer` or `inner` means the outermost tag.
fn filter_field(key: &str, value: &mut Value, random: &mut Draws) {
    if key == "direction" || value.is_bool() {
        return;
    }
    if value.is_table() {
        return table(value).for_each(|(_, value)| alternatives(key, value, random));
    }
    alternatives(key, value, random);
    if key == "vlan" && random.below(4) == 0 {
        *value = Value::Table(Table::from_iter([("outer".to_owned(), value.clone())]));
    }
}

fn alternatives(key: &str, value: &mut Value, random: &mut Draws) {
    let mut values = match &*value {
        Value::Array(values) => values.clone(),
        one => vec![one.clone()],
    };
    values.iter_mut().for_each(|value| name_number(key, value, random));
    random.shuffle(&mut values);
    if values.len() > 1 || random.below(2) == 0 {
        // Repeating a value in a list does not change the meaning.
        values.extend(values.first().cloned().filter(|_| random.below(3) == 0));
        *value = Value::Array(values);
    } else {
        *value = values.remove(0);
    }
}

/// Writes a value of a filter in another way.
fn name_number(key: &str, value: &mut Value, random: &mut Draws) {
    let other = match (key, &*value) {
        ("protocol", Value::Integer(6)) => "TCP".to_owned(),
        ("protocol", Value::Integer(17)) => "udp".to_owned(),
        ("protocol", Value::Integer(47)) => "gre".to_owned(),
        ("dscp", Value::Integer(46)) => "ef".to_owned(),
        ("dscp", Value::Integer(10)) => "AF11".to_owned(),
        (_, Value::Integer(number)) => number.to_string(),
        (_, Value::String(text)) => match text.as_str() {
            "10.0.0.1" => "10.0.0.1/32".to_owned(),
            "10.0.0.0/8" => "10.0.0.0 - 10.255.255.255".to_owned(),
            "192.168.7.0/24" => "::ffff:192.168.7.0/120".to_owned(),
            "2001:db8::1" => "2001:DB8:0::0001".to_owned(),
            "2001:db8::/32" => "2001:0DB8:0000::/32".to_owned(),
            "none" => " none ".to_owned(),
            text => text.replace('-', " - "),
        },
        _ => return,
    };
    if random.below(2) == 0 {
        *value = Value::String(other);
    }
}

/// Sometimes writes a mechanism as a table with only `kind`.
fn mechanism(value: &mut Value, random: &mut Draws) {
    let named = value.as_str().filter(|name| *name != "none").map(str::to_owned);
    match named {
        Some(name) if random.below(2) == 0 => {
            *value = Value::Table(Table::from_iter([("kind".to_owned(), Value::String(name))]));
        }
        Some(_) => {}
        None => quantities(value, random),
    }
}

/// Sometimes writes a quantity in `value` in another unit.
fn quantities(value: &mut Value, random: &mut Draws) {
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                if key == "factor" { number(value, random) } else { quantities(value, random) }
            }
        }
        Value::String(text) if text.ends_with(" %") => percentage(text, random),
        Value::String(text) => {
            let (number, unit) = text.split_once(' ').unwrap_or((text.as_str(), ""));
            let number: u64 = number.parse().unwrap_or_default();
            let larger: &[(&str, u64)] = match unit {
                "bit/s" => &[("kbit/s", 1_000), ("Mbit/s", 1_000_000)],
                "B" => &[("kB", 1_000), ("MB", 1_000_000)],
                "ns" => &[("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)],
                _ => return,
            };
            let (unit, size) = larger[random.below(larger.len())];
            let digits = size.ilog10();
            let fraction =
                format!("{:0width$}", number % size, width = usize::try_from(digits).unwrap_or(0));
            if random.below(2) == 0 {
                *text = format!("{}.{fraction} {unit}", number / size);
            }
        }
        _ => {}
    }
}

/// Sometimes writes a percentage with more digits.
fn percentage(text: &mut String, random: &mut Draws) {
    if let Some(number) = text.strip_suffix(" %")
        && random.below(2) == 0
    {
        let digits = if number.contains('.') { "0" } else { ".00" };
        *text = format!("{number}{digits}%");
    }
}

/// Sometimes writes a whole number with a fraction of zero.
fn number(value: &mut Value, random: &mut Draws) {
    if let Some(whole) = value.as_integer().and_then(|it| i32::try_from(it).ok())
        && random.below(2) == 0
    {
        *value = Value::Float(f64::from(whole));
    }
}

/// A small random number generator (SplitMix64).
struct Draws(u64);

impl Draws {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let limit = u64::try_from(limit).unwrap_or(u64::MAX).max(1);
        usize::try_from((mixed ^ (mixed >> 31)) % limit).unwrap_or(0)
    }

    fn shuffle<T>(&mut self, values: &mut [T]) {
        for at in (1..values.len()).rev() {
            values.swap(at, self.below(at + 1));
        }
    }
}
