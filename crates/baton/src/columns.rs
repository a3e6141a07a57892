//! Lists for people: columns that stand below one another, without frames or colours.

/// Lines with a heading; columns are as wide as their longest cell, and the last one ends ragged.
pub(crate) fn columns<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
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

/// A moment for people: to the second, in UTC.
pub(crate) fn moment(at: baton_core::time::Timestamp) -> String {
    let text = at.to_string();
    match text.split_once('T') {
        Some((day, time)) => format!("{day} {}Z", time.split('.').next().unwrap_or(time)),
        None => text,
    }
}

/// A number of things.
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
    fn moments_and_counts_read_well() {
        assert_eq!(moment(Timestamp(1_767_225_600_123)), "2026-01-01 00:00:00Z");
        assert_eq!(
            (count(1, "entry", "entries"), count(2, "entry", "entries")),
            ("1 entry".into(), "2 entries".into())
        );
    }
}
