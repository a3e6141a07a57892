//! The quoted texts of a request, and the rest of it.

/// The request without its quoted parts, and those parts. A quote opens only where a word could begin, so the
/// apostrophe of "it's" opens nothing.
pub(super) fn split(request: &str) -> (String, Vec<String>) {
    let chars: Vec<char> = request.chars().collect();
    let (mut rest, mut quoted) = (String::new(), Vec::new());
    let mut at = 0;
    while at < chars.len() {
        let opens = at == 0 || !chars[at - 1].is_alphanumeric();
        match closing(chars[at]).filter(|_| opens).and_then(|close| end(&chars, at, close)) {
            Some(end) => {
                let inside: String = chars[at + 1..end].iter().collect();
                quoted.push(inside.trim().to_owned());
                rest.push(' ');
                at = end + 1;
            }
            None => {
                rest.push(chars[at]);
                at += 1;
            }
        }
    }
    quoted.retain(|inside| !inside.is_empty());
    (rest, quoted)
}

fn closing(open: char) -> Option<char> {
    match open {
        '"' | '\'' | '`' => Some(open),
        '“' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        _ => None,
    }
}

/// The first fitting quote that no letter follows.
fn end(chars: &[char], open: usize, close: char) -> Option<usize> {
    (open + 1..chars.len())
        .find(|&at| chars[at] == close && chars.get(at + 1).is_none_or(|next| !next.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_are_distinguished_from_apostrophes() {
        let table: [(&str, &str, &[&str]); 6] = [
            ("what's \"in\" it", "what's   it", &["in"]),
            ("don't and won't", "don't and won't", &[]),
            ("find 'it's here' now", "find   now", &["it's here"]),
            ("`a` «b» ‘c’", "     ", &["a", "b", "c"]),
            ("an \"open one", "an \"open one", &[]),
            ("\"\" x", "  x", &[]),
        ];
        for (text, rest, quoted) in table {
            let found = split(text);
            assert_eq!((found.0.as_str(), found.1), (rest, quoted.iter().map(|q| q.to_string()).collect()));
        }
    }
}
