//! Data as comma-separated values (RFC 4180), for spreadsheets: a line of names, then a line for each row.
//!
//! A list has a row for each item, and so has the one list of rows in an answer; anything else is one
//! row. What lies deeper has a name with dots, and a list inside of a row is JSON.

use serde_json::Value;

/// The lines of some data.
pub(crate) fn lines(data: &Value) -> String {
    let rows: Vec<_> = rows(data).into_iter().map(cells).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let values = rows.iter().map(|row| {
        let cell = |name: &&String| row.iter().find(|(other, _)| other == *name);
        line(names.iter().map(|name| cell(name).map_or("", |(_, value)| value)))
    });
    let titles = line(names.iter().map(|name| name.as_str()));
    std::iter::once(titles).chain(values).collect()
}

/// One row without names, for a stream of them.
pub(crate) fn row(data: &Value) -> String {
    line(cells(data).iter().map(|(_, value)| value.as_str()))
}

fn rows(data: &Value) -> Vec<&Value> {
    let is_rows =
        |value: &&Value| value.as_array().is_some_and(|it| it.iter().all(Value::is_object));
    match data {
        Value::Array(rows) => rows.iter().collect(),
        Value::Object(fields) => {
            let mut lists = fields.values().filter(is_rows);
            match (lists.next(), lists.next()) {
                (Some(Value::Array(rows)), None) => rows.iter().collect(),
                _ => vec![data],
            }
        }
        _ => vec![data],
    }
}

/// Names and values of one row.
fn cells(row: &Value) -> Vec<(String, String)> {
    let mut cells = Vec::new();
    collect(row, "", &mut cells);
    cells
}

fn collect(value: &Value, name: &str, cells: &mut Vec<(String, String)>) {
    let text = match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                collect(value, &name, cells);
            }
            return;
        }
        Value::Null => String::new(),
        Value::String(text) => harmless(text),
        other => other.to_string(),
    };
    let name = if name.is_empty() { "value" } else { name };
    cells.push((name.to_owned(), text));
}

/// A text of strangers that a spreadsheet does not take for a formula.
fn harmless(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let number = text.parse::<f64>().is_ok();
    if formula && !number { format!("'{text}") } else { text.to_owned() }
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells = cells.map(|cell| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    });
    let mut text = cells.collect::<Vec<_>>().join(",");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_item_is_a_row_and_every_name_a_column() {
        let data = json!([{ "a": 1, "b": { "c": "x,\"y\"" } }, { "a": null, "d": [1, 2] }]);
        assert_eq!(lines(&data), "a,b.c,d\n1,\"x,\"\"y\"\"\",\n,,\"[1,2]\"\n");
        assert_eq!(row(&json!({ "a": 1, "b": "two" })), "1,two\n");
    }

    #[test]
    fn words_of_strangers_are_no_formulas() {
        let data = json!([{ "a": "=1+1", "b": "-1.5", "c": -2, "d": "@x" }]);
        assert_eq!(lines(&data), "a,b,c,d\n'=1+1,-1.5,-2,'@x\n");
    }

    #[test]
    fn the_rows_of_an_answer_are_found() {
        let data = json!({ "leases": [{ "a": 1 }, { "a": 2 }], "paid": "3" });
        assert_eq!(lines(&data), "a\n1\n2\n");
        let two = json!({ "x": [{ "a": 1 }], "y": [{ "b": 2 }] });
        assert_eq!(lines(&two), "x,y\n\"[{\"\"a\"\":1}]\",\"[{\"\"b\"\":2}]\"\n");
        assert_eq!(lines(&json!({ "height": 7 })), "height\n7\n");
        assert_eq!(lines(&json!("word")), "value\nword\n");
    }
}
