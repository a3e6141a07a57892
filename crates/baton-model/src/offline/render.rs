//! The results of known tools as text. Any other result is outlined as it is.

use serde_json::Value;

use super::conversation::ToolReport;
use super::health::health;
use super::markdown::{block, bytes, code, inline};
use super::outline::outline;

/// How many entries, matches or lines are shown.
const MAX_ROWS: usize = 40;
/// How many bytes of a file or a log are shown.
const MAX_SHOWN: usize = 6 * 1024;

/// A tool's result for a person.
pub(super) fn rendered(told: &ToolReport<'_>) -> String {
    // The content of a file is text even where it happens to be JSON.
    if told.tool == "read_file" {
        return file(told);
    }
    let value = told.value();
    let known = match told.tool {
        "system_health" => health(&value),
        "calculator" => sum(told, &value),
        "clock" => moment(&value),
        "list_files" => listing(told, &value),
        "search_files" => matches(told, &value),
        "system_logs" => log(&value),
        _ => None,
    };
    known.unwrap_or_else(|| outline(&value))
}

fn file(told: &ToolReport<'_>) -> String {
    let path = code(told.arguments["path"].as_str().unwrap_or("the file"));
    if told.text.trim().is_empty() {
        return format!("{path} is empty.");
    }
    format!("{path}:\n\n{}", block(told.text, MAX_SHOWN))
}

fn sum(told: &ToolReport<'_>, value: &Value) -> Option<String> {
    let result = value.get("result").or_else(|| value.get("value")).unwrap_or(value);
    let result = match result {
        Value::Number(n) => n.to_string(),
        Value::String(text) => inline(text),
        _ => return None,
    };
    let rounded = if value.get("exact") == Some(&Value::Bool(false)) { " (rounded)" } else { "" };
    Some(match told.arguments["expression"].as_str() {
        Some(expression) => format!("{} = {result}{rounded}", inline(expression)),
        None => format!("{result}{rounded}"),
    })
}

fn moment(value: &Value) -> Option<String> {
    let (date, rest) = value["time"].as_str()?.split_once('T')?;
    let time = rest.get(..8)?;
    let weekday = value["weekday"].as_str().map(|day| format!("{}, ", inline(day))).unwrap_or_default();
    let zone = value["timezone"].as_str().map(|zone| format!(" ({})", inline(zone))).unwrap_or_default();
    Some(format!("It is {weekday}{} {}{zone}.", inline(date), inline(time)))
}

fn listing(told: &ToolReport<'_>, value: &Value) -> Option<String> {
    let entries = value["entries"].as_array()?;
    let place = told.arguments["path"].as_str().map(|path| format!(" in {}", code(path))).unwrap_or_default();
    if entries.is_empty() {
        return Some(format!("There is nothing{place}."));
    }
    let row = |entry: &Value| {
        let path = entry["path"].as_str().or_else(|| entry["name"].as_str()).or_else(|| entry.as_str())?;
        let size = entry["size_bytes"].as_f64().map(|size| format!(", {}", bytes(size))).unwrap_or_default();
        Some(match entry["kind"].as_str() {
            Some("folder") => format!("- {}", code(&format!("{}/", path.trim_end_matches('/')))),
            _ => format!("- {}{size}", code(path)),
        })
    };
    let rows = rows(entries, row, value)?;
    Some(format!("{}{place}:\n\n{rows}", count(entries.len(), "entry", "entries")))
}

fn matches(told: &ToolReport<'_>, value: &Value) -> Option<String> {
    let matches = value["matches"].as_array()?;
    let sought = told.arguments["pattern"].as_str().or_else(|| told.arguments["query"].as_str());
    let sought = sought.map(|sought| format!(" for {}", code(sought))).unwrap_or_default();
    let searched = value["files_searched"].as_u64().and_then(|n| usize::try_from(n).ok());
    let searched = searched.map(|n| format!(" in {}", count(n, "file", "files"))).unwrap_or_default();
    if matches.is_empty() {
        return Some(format!("No match{sought}{searched}."));
    }
    let row = |found: &Value| {
        let (path, text) = (found["path"].as_str()?, found["text"].as_str()?);
        let line = found["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
        Some(format!("- {}: {}", code(&format!("{path}{line}")), code(text.trim())))
    };
    let rows = rows(matches, row, value)?;
    Some(format!("{}{sought}{searched}:\n\n{rows}", count(matches.len(), "match", "matches")))
}

fn log(value: &Value) -> Option<String> {
    let lines: Option<Vec<&str>> = value["lines"].as_array()?.iter().map(Value::as_str).collect();
    let lines = lines?;
    let note = value["note"].as_str().map(inline).filter(|note| !note.is_empty());
    let note = note.unwrap_or_else(|| "The system's log".to_owned());
    if lines.is_empty() {
        return Some(format!("No lines of the system's log: {note}"));
    }
    // The newest lines are last, and matter most.
    let newest = &lines[lines.len().saturating_sub(MAX_ROWS)..];
    let left = lines.len() - newest.len();
    let left = if left > 0 {
        format!("\n\n({} before these.)", count(left, "line", "lines"))
    } else {
        String::new()
    };
    Some(format!("{note}\n\n{}{left}", block(&newest.join("\n"), MAX_SHOWN)))
}

/// One row for each item, if every item has the shape, and a note about items that are not shown.
fn rows(items: &[Value], row: impl Fn(&Value) -> Option<String>, whole: &Value) -> Option<String> {
    let rows: Option<Vec<String>> = items.iter().take(MAX_ROWS).map(row).collect();
    let mut text = rows?.join("\n");
    if items.len() > MAX_ROWS {
        text.push_str(&format!("\n- … and {} more", items.len() - MAX_ROWS));
    }
    if whole["more"] == true {
        text.push_str("\n\nThere is more than the tool returned; ask for less at once.");
    }
    Some(text)
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
