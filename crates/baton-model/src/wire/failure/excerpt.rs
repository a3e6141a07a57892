//! A short plain excerpt of a server's untrusted words.
//!
//! At most 300 characters, one line, no control characters, no tags of a proxy's error page, and nothing
//! that looks like a key. The key itself is redacted by the caller, which knows it.

/// The most characters of an excerpt.
const MAX_CHARS: usize = 300;

/// The bytes that are read for an excerpt: an error page may begin with long styles.
const MAX_READ_BYTES: usize = 64 * 1024;

/// The shortest run of letters and digits that may be a key.
const MIN_KEY_BYTES: usize = 20;

/// The words as one plain line.
pub(super) fn plain(words: &str) -> String {
    let words = &words[..words.floor_char_boundary(MAX_READ_BYTES)];
    let bare = if words.trim_start().starts_with('<') { without_tags(words) } else { words.to_owned() };
    let mut line = String::new();
    for word in bare.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let line = hide(&line, |run| run.starts_with("sk-"));
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The words without anything that could be a key: some servers repeat the key that they refuse.
pub(super) fn without_keys(words: &str) -> String {
    hide(words, |run| run.len() >= MIN_KEY_BYTES && run.contains(|c: char| c.is_ascii_digit() || c == '*'))
}

/// Replaces each run of key characters that is a key by `…`.
fn hide(words: &str, is_key: impl Fn(&str) -> bool) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.' | '+' | '=');
    let mut out = String::with_capacity(words.len());
    let mut rest = words;
    while !rest.is_empty() {
        let run = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(run);
        out.push_str(if is_key(word) { "…" } else { word });
        let other = after.find(is_part).unwrap_or(after.len());
        let (between, after) = after.split_at(other);
        out.push_str(between);
        rest = after;
    }
    out
}

/// The text of an HTML page, roughly: everything between tags except scripts and styles.
fn without_tags(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((text, tag)) = rest.split_once('<') {
        out.push_str(text);
        out.push(' ');
        let end = if is(tag, "script") || is(tag, "style") {
            tag.find("</").map_or(tag.len(), |at| at + 2)
        } else {
            0
        };
        rest = tag[end..].split_once('>').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

fn is(tag: &str, name: &str) -> bool {
    tag.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}
