//! Tables for a terminal: aligned columns without frames or colours; on a terminal too narrow for them, the values of a
//! row stand one below the other.

use crate::terminal;

/// The gap between a heading and its value when they stand side by side.
const GAP: usize = 2;
/// The narrowest width given to a value before its words are broken.
const NARROWEST: usize = 12;

/// Lays out a heading and rows; columns are as wide as their longest cell, and the last one ends ragged. On a narrower
/// terminal the values of each row stand one below the other, and words stay whole.
pub(crate) fn columns<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    within(terminal::width(), heading, rows)
}

fn within<const N: usize>(most: Option<usize>, heading: [&str; N], rows: &[[String; N]]) -> String {
    let table = table(heading, rows);
    match most {
        Some(most) if table.lines().any(|line| width(line) > most) => {
            rows.iter().map(|row| stacked(most, &heading, row)).collect::<Vec<_>>().join("\n\n")
        }
        _ => table,
    }
}

/// A row with one value a line. Empty values and `-` are left out.
fn stacked<const N: usize>(most: usize, heading: &[&str; N], row: &[String; N]) -> String {
    let widest = heading.iter().map(|name| width(name)).max().unwrap_or_default();
    let room = most.saturating_sub(widest + GAP).max(NARROWEST);
    let said = heading.iter().zip(row).filter(|(_, value)| !matches!(value.as_str(), "" | "-"));
    let lines = said.flat_map(|(name, value)| {
        let value = wrapped(value, room);
        value.into_iter().enumerate().map(move |(nth, line)| {
            let name = if nth == 0 { *name } else { "" };
            format!("{name:<widest$}{:GAP$}{line}", "")
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Wraps a text into lines of at most that many characters: between words, and inside a word only if the word itself is
/// longer.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let Some(line) = lines.last_mut() else { return lines };
            let gap = usize::from(!line.is_empty());
            if width(line) + gap + width(&word) <= most {
                line.push_str(&" ".repeat(gap));
                line.push_str(&word);
                break;
            }
            if line.is_empty() {
                let rest = word.chars().skip(most).collect();
                line.extend(word.chars().take(most));
                word = rest;
            }
            lines.push(String::new());
        }
    }
    lines
}

fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = heading.map(width);
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut lines = vec![aligned(&heading.map(str::to_owned), &widths)];
    lines.extend(rows.iter().map(|row| aligned(row, &widths)));
    lines.join("\n")
}

/// A timestamp for display: to the second, in UTC.
pub(crate) fn moment(at: baton_core::time::Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, time)) => format!("{day} {}Z", time.split('.').next().unwrap_or(time)),
        None => text,
    }
}

/// A number with its noun, in the singular or the plural.
pub(crate) fn count(n: i64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn aligned<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, widest)| {
        let gap = " ".repeat(widest.saturating_sub(width(cell)));
        format!("{cell}{gap}")
    });
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::time::Timestamp;

    #[test]
    fn columns_stand_below_one_another() {
        let rows = [["a".to_owned(), "one".to_owned()], ["bé".to_owned(), "two three".to_owned()]];
        assert_eq!(columns(["ID", "WHAT"], &rows), "ID  WHAT\na   one\nbé  two three");
        assert_eq!(columns(["ID", "WHAT"], &[]), "ID  WHAT");
    }

    #[test]
    fn a_table_that_is_too_wide_stands_one_value_below_the_other() {
        let id = "019a9d5c-0000-7000-8000-00005d0c7b1e".to_owned();
        let rows = [
            [id, "How is this machine doing today".to_owned(), "-".to_owned()],
            ["trip".to_owned(), "Rome".to_owned(), "0.01 USD".to_owned()],
        ];
        let heading = ["THREAD", "TITLE", "COST"];
        let narrow = "\
THREAD  019a9d5c-0000-7000-8000-00005d0c
        7b1e
TITLE   How is this machine doing today

THREAD  trip
TITLE   Rome
COST    0.01 USD";
        assert_eq!(within(Some(40), heading, &rows), narrow);
        assert!(narrow.lines().all(|line| width(line) <= 40));
        assert_eq!(within(Some(120), heading, &rows), table(heading, &rows));
        assert_eq!(within(None, heading, &rows), table(heading, &rows));
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
    }

    #[test]
    fn moments_and_counts_read_well() {
        assert_eq!(moment(Timestamp(1_767_225_600_123)), "2026-01-01 00:00:00Z");
        assert_eq!(
            (count(1, "entry", "entries"), count(2, "entry", "entries")),
            ("1 entry".into(), "2 entries".into())
        );
    }
}
