//! Arithmetic inside a sentence: `how much is 12 × 3.5?` holds `12 * 3.5`.
//!
//! The expression is only found here; the calculator evaluates it.

/// Words that say that something is to be calculated.
const INTENT: [&str; 9] =
    ["what", "what's", "calculate", "compute", "evaluate", "much", "equals", "solve", "calc"];

/// The longest run of arithmetic in a request.
pub(super) fn sum(request: &str) -> Option<String> {
    let text = spelled(request);
    let intent = text.split_whitespace().any(|word| INTENT.contains(&word));
    runs(&text)
        .into_iter()
        .filter(|run| {
            is_sum(run) && (intent || is_clear(run) || text.trim().trim_end_matches(['?', '=']) == *run)
        })
        .max_by_key(|run| run.len())
        .map(|run| run.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Lower case, signs instead of words, no commas inside numbers.
fn spelled(request: &str) -> String {
    let mut text = request.to_lowercase();
    for (from, to) in [
        ("multiplied by", "*"),
        ("divided by", "/"),
        ("to the power of", "^"),
        ("% of ", " / 100 * "),
        (" percent of ", " / 100 * "),
        ("×", "*"),
        ("·", "*"),
        ("÷", "/"),
        ("−", "-"),
        ("**", "^"),
    ] {
        text = text.replace(from, to);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: Option<usize>| {
        at.and_then(|at| words.get(at)).is_some_and(|word| word.contains(|c: char| c.is_ascii_digit()))
    };
    let spelled = words.iter().enumerate().map(|(at, word)| {
        let between = number(at.checked_sub(1)) && number(Some(at + 1));
        match *word {
            "plus" if between => "+",
            "minus" if between => "-",
            "times" | "x" if between => "*",
            "over" if between => "/",
            word => word,
        }
    });
    ungrouped(&spelled.collect::<Vec<_>>().join(" "))
}

/// `1,000` is one number.
fn ungrouped(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let grouping = |at: usize| at > 0 && digit(at - 1) && (1..=3).all(|n| digit(at + n)) && !digit(at + 4);
    text.char_indices().filter(|&(at, c)| c != ',' || !grouping(at)).map(|(_, c)| c).collect()
}

/// The runs of arithmetic signs that are no part of a word.
fn runs(text: &str) -> Vec<&str> {
    let part = |c: char| c.is_ascii_digit() || "+-*/^%(). ".contains(c);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(part).map(|at| from + at) {
        let end = text[start..].find(|c| !part(c)).map_or(text.len(), |at| start + at);
        from = end;
        let run = text[start..end].trim_matches(' ').trim_end_matches(['.', '+', '-', '*', '/', '^', ' ']);
        let begins = start + text[start..end].find(|c| c != ' ').unwrap_or(0);
        let free = |c: char| !c.is_alphanumeric() && c != '_' && c != ':';
        let alone = text[..begins].chars().next_back().is_none_or(free)
            && text[begins + run.len()..].chars().next().is_none_or(free);
        if alone {
            found.push(balanced(run));
        }
    }
    found
}

/// Without a bracket that belongs to the sentence around it.
fn balanced(run: &str) -> &str {
    let count = |sign| run.matches(sign).count();
    match count('(').cmp(&count(')')) {
        std::cmp::Ordering::Less => run.strip_suffix(')').unwrap_or(run).trim(),
        std::cmp::Ordering::Greater => run.strip_prefix('(').unwrap_or(run).trim(),
        std::cmp::Ordering::Equal => run,
    }
}

/// Two numbers with something to do between them, and no date.
fn is_sum(run: &str) -> bool {
    let numbers: Vec<&str> =
        run.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|n| !n.is_empty()).collect();
    let date =
        numbers.len() == 3 && numbers[0].len() == 4 && run.matches('-').count() == 2 && !run.contains(' ');
    let well_made = run.matches('(').count() == run.matches(')').count()
        && numbers.iter().all(|n| n.contains(|c: char| c.is_ascii_digit()) && n.matches('.').count() <= 1);
    numbers.len() >= 2 && well_made && !date && run.contains(['+', '-', '*', '/', '^', '%'])
}

/// `1-20` and `24/7` may mean anything; `1 - 20` and `3*4` do not.
fn is_clear(run: &str) -> bool {
    run.contains(['+', '*', '^', '(', ' '])
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn sums_are_found_in_sentences() {
        let table = [
            ("what is 2+2?", Some("2+2")),
            ("12 × 3.5", Some("12 * 3.5")),
            ("Calculate (1 + 2) * 3.", Some("(1 + 2) * 3")),
            ("how much is 1,250.5 plus 3", Some("1250.5 + 3")),
            ("what is 15% of 80", Some("15 / 100 * 80")),
            ("9 divided by 4, please", Some("9 / 4")),
            ("3 times 4 minus 5", Some("3 * 4 - 5")),
            ("2 ** 10", Some("2 ^ 10")),
            ("what is 10/4", Some("10/4")),
            ("(see 3*4)", Some("3*4")),
            ("-3 + 5", Some("-3 + 5")),
            ("10/4", Some("10/4")),
            ("open 24/7", None),
            ("lines 1-20 of x", None),
            ("on 2024-05-01 it rained", None),
            ("what happened on 2024-05-01", None),
            ("read a/1-2.txt", None),
            ("what about 10:30 - 11:30", None),
            ("version 1.2.3 + 4", None),
            ("add 2 and 3", None),
            ("()", None),
            ("", None),
        ];
        for (request, expected) in table {
            assert_eq!(sum(request).as_deref(), expected, "{request}");
        }
    }
}
