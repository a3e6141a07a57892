//! Any JSON as nested bullets, bounded in depth, width and length.

use serde_json::Value;

use super::markdown::{block, inline, scalar};

const MAX_DEPTH: usize = 4;
const MAX_CHILDREN: usize = 12;
const MAX_LINES: usize = 80;
/// The longest list of scalars that stands in one line, in bytes.
const MAX_LIST: usize = 100;
/// The most bytes of one text that is shown as a block.
const MAX_BLOCK: usize = 6 * 1024;

/// A value for a person to read.
pub(super) fn outline(value: &Value) -> String {
    match value {
        Value::String(text) if text.trim().is_empty() => "(nothing)".to_owned(),
        Value::String(text) if text.trim().contains('\n') || text.len() > 240 => block(text, MAX_BLOCK),
        Value::Object(map) if map.is_empty() => "(nothing)".to_owned(),
        Value::Array(list) if list.is_empty() => "(nothing)".to_owned(),
        Value::Object(_) | Value::Array(_) => {
            let mut lines = Vec::new();
            children(value, 0, &mut lines);
            if lines.len() > MAX_LINES {
                lines.truncate(MAX_LINES);
                lines.push("- …".to_owned());
            }
            lines.join("\n")
        }
        _ => scalar("", value),
    }
}

fn children(value: &Value, depth: usize, lines: &mut Vec<String>) {
    let pairs: Box<dyn Iterator<Item = (Option<&str>, &Value)>> = match value {
        Value::Object(map) => Box::new(map.iter().map(|(name, child)| (Some(name.as_str()), child))),
        Value::Array(list) => Box::new(list.iter().map(|child| (None, child))),
        _ => return,
    };
    let indent = "  ".repeat(depth);
    let mut left = 0;
    for (at, (name, child)) in pairs.enumerate() {
        if at >= MAX_CHILDREN || lines.len() > MAX_LINES {
            left += 1;
            continue;
        }
        let label = name.map(|name| format!("**{}**", title(name)));
        match in_line(name.unwrap_or_default(), child, depth) {
            Some(text) => lines.push(format!("{indent}- {}", join(label, text))),
            None => {
                lines.push(format!("{indent}- {}", label.unwrap_or_else(|| format!("**{}**", at + 1))));
                children(child, depth + 1, lines);
            }
        }
    }
    if left > 0 {
        lines.push(format!("{indent}- … and {left} more"));
    }
}

fn join(label: Option<String>, text: String) -> String {
    match label {
        Some(label) => format!("{label}: {text}"),
        None => text,
    }
}

/// A value that needs no bullets of its own.
fn in_line(name: &str, value: &Value, depth: usize) -> Option<String> {
    let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
    match value {
        Value::Array(list) if list.is_empty() => Some("none".to_owned()),
        Value::Object(map) if map.is_empty() => Some("none".to_owned()),
        Value::Array(list) if list.iter().all(is_scalar) => {
            let text = list.iter().map(|item| scalar(name, item)).collect::<Vec<_>>().join(", ");
            (text.len() <= MAX_LIST).then_some(text)
        }
        Value::Array(list) if depth + 1 >= MAX_DEPTH => Some(format!("{} items", list.len())),
        Value::Object(map) if depth + 1 >= MAX_DEPTH => Some(format!("{} fields", map.len())),
        Value::Array(_) | Value::Object(_) => None,
        _ => Some(scalar(name, value)),
    }
}

/// A field's name for a person; the unit is with the value.
pub(super) fn title(name: &str) -> String {
    let short = ["_bytes", "_percent", "_seconds", "_secs"].iter().find_map(|unit| name.strip_suffix(unit));
    inline(&short.unwrap_or(name).replace('_', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_outlined_as_they_are() {
        let table = [
            (json!(null), "nothing"),
            (json!(true), "yes"),
            (json!(1.5), "1.5"),
            (json!("a  b"), "a b"),
            (json!(""), "(nothing)"),
            (json!({}), "(nothing)"),
            (json!("a\nb"), "```\na\nb\n```"),
            (json!([1, 2]), "- 1\n- 2"),
            (
                json!({"name": "x", "size_bytes": 2048, "tags": ["a", "b"], "none": [], "in": {"used_percent": 7}}),
                "- **in**\n  - **used**: 7 %\n- **name**: x\n- **none**: none\n- **size**: 2.0 KiB\n- **tags**: a, b",
            ),
            (json!([{"a": 1}, {"a": 2}]), "- **1**\n  - **a**: 1\n- **2**\n  - **a**: 2"),
            (
                json!({"a": {"b": {"c": {"d": {"e": 1}}}}}),
                "- **a**\n  - **b**\n    - **c**\n      - **d**: 1 fields",
            ),
        ];
        for (value, expected) in table {
            assert_eq!(outline(&value), expected, "{value}");
        }
    }

    #[test]
    fn long_values_are_cut_with_a_note() {
        let wide: Vec<Value> = (0..20).map(|n| json!({"n": n})).collect();
        let shown = outline(&json!(wide));
        assert!(shown.ends_with("- **12**\n  - **n**: 11\n- … and 8 more"), "{shown}");
        let grid = json!(vec![vec![vec!["word ".repeat(50); 12]; 12]; 12]);
        assert!(outline(&grid).lines().count() < 100);
    }
}
