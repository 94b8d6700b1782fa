//! JSON as Python prints it: vLLM's validation errors echo the request in this form.

use serde_json::Value;

/// Python's `repr` of what the JSON was parsed to.
pub(super) fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => repr_text(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", repr_text(key), repr(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn repr_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == quote => out.extend(['\\', quote]),
            _ => out.push(character),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_in_python() {
        let value = json!({"a": [null, true, 1.5, "it's"], "b": "x\n\"'"});
        assert_eq!(
            repr(&value),
            r#"{'a': [None, True, 1.5, "it's"], 'b': 'x\n"\''}"#
        );
    }
}
