//! Small pieces of Markdown out of a stranger's text: always bounded, never able to break out of their line
//! or their block.

use baton_core::json::cut;
use serde_json::Value;

/// The longest text inside a line, in bytes.
const MAX_INLINE: usize = 240;

/// A text in one line, without control characters.
pub(super) fn inline(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_INLINE {
            return format!("{}…", cut(&line, MAX_INLINE));
        }
    }
    line
}

/// A text in one line, as code.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", inline(text).replace('`', "'"))
}

/// A block of text that is shown as it is, up to a number of bytes.
pub(super) fn block(text: &str, limit: usize) -> String {
    let shown = cut(text, limit);
    let plain: String = shown.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
    let longest = plain.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let left = text.len() - shown.len();
    let note = if left > 0 { format!("\n\n… and {left} bytes more.") } else { String::new() };
    format!("{fence}\n{}\n{fence}{note}", plain.trim_end_matches('\n'))
}

/// A scalar in one line, with the unit that its name promises.
pub(super) fn scalar(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(n) => match n.as_f64() {
            Some(n) if name.ends_with("_bytes") || name == "bytes" => bytes(n),
            Some(n) if name.ends_with("percent") => percent(n),
            Some(n) if name.ends_with("_seconds") || name.ends_with("_secs") => duration(n),
            _ => n.to_string(),
        },
        Value::String(text) => inline(text),
        Value::Array(_) | Value::Object(_) => inline(&value.to_string()),
    }
}

/// An amount of bytes for a person.
pub(super) fn bytes(n: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut n, mut unit) = (n, 0);
    while n.abs() >= 1024.0 && unit + 1 < units.len() {
        n /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n:.0} bytes") } else { format!("{n:.1} {}", units[unit]) }
}

/// A share of a hundred.
pub(super) fn percent(n: f64) -> String {
    format!("{n:.0} %")
}

/// A time span for a person.
pub(super) fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).floor();
    let (days, hours) = ((minutes / 1440.0).floor(), (minutes % 1440.0 / 60.0).floor());
    match () {
        () if seconds < 60.0 => format!("{seconds:.0} s"),
        () if minutes < 60.0 => format!("{minutes:.0} min"),
        () if days < 1.0 => format!("{hours:.0} h {:.0} min", minutes % 60.0),
        () => format!("{days:.0} d {hours:.0} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(inline(" a\n\tb\u{1b}[31m \u{0} c "), "a b [31m c");
        assert_eq!(inline(&"é".repeat(200)), format!("{}…", "é".repeat(120)));
        assert_eq!(code("a`b`"), "`a'b'`");
    }

    #[test]
    fn a_block_cannot_be_broken_out_of() {
        assert_eq!(block("a\n", 99), "```\na\n```");
        assert_eq!(block("```\nx\n````\u{1b}", 99), "`````\n```\nx\n````\n`````");
        assert_eq!(block("abcdef", 4), "```\nabcd\n```\n\n… and 2 bytes more.");
    }

    #[test]
    fn numbers_have_units() {
        let shown = [bytes(0.0), bytes(1023.0), bytes(1536.0), bytes(17_179_869_184.0), percent(12.6)];
        assert_eq!(shown, ["0 bytes", "1023 bytes", "1.5 KiB", "16.0 GiB", "13 %"]);
        let spans = [5.0, 65.0, 3_700.0, 200_000.0].map(duration);
        assert_eq!(spans, ["5 s", "1 min", "1 h 1 min", "2 d 7 h"]);
    }
}
