//! Suggestions for a misspelt word. No suggestion is better than a wild guess.

/// The known word nearest to an unknown one, if at most half of its letters are wrong. Two transposed letters count as
/// one.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    // A word more than twice as long as a known one is not measured against it: it may be a megabyte.
    let comparable = known.into_iter().filter(|known| letters <= 2 * known.chars().count());
    let measured = comparable.map(|known| (strsim::osa_distance(word, known), known));
    let (wrong, known) = measured.min_by_key(|(wrong, _)| *wrong)?;
    (wrong * 2 <= letters).then_some(known)
}

/// The nearest word as a question, to append to an error.
pub(crate) fn question<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(asked).unwrap_or_default()
}

/// A word as the question whether it was meant.
pub(super) fn asked(meant: impl std::fmt::Display) -> String {
    format!("; did you mean `{meant}`?")
}

/// The provider that probably serves a model which was named without one.
pub(super) fn maker(model: &str) -> Option<&'static str> {
    let begins = |words: &[&str]| words.iter().any(|word| model.starts_with(word));
    if model.contains(':') || begins(&["llama", "qwen", "gemma", "mistral", "deepseek", "phi"]) {
        return Some("ollama");
    }
    if begins(&["gpt-", "o1", "o3", "o4"]) {
        return Some("openai");
    }
    begins(&["claude-"]).then_some("anthropic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_named() {
        let known = ["base_url", "api", "key_env"];
        assert_eq!(nearest("base-url", known), Some("base_url"));
        assert_eq!(nearest("key_en", known), Some("key_env"));
        assert_eq!(nearest("url", known), None);
        assert_eq!(nearest("aip", known), Some("api"));
        assert_eq!(nearest("", known), None);
        assert_eq!(question("apy", known), "; did you mean `api`?");
        assert_eq!(question("colour", known), "");
    }

    #[test]
    fn a_bare_name_tells_its_maker() {
        let makers = ["llama3.2:3b", "my:latest", "gpt-5-mini", "claude-sonnet-4-5", "gpt", "x"].map(maker);
        let expected = [Some("ollama"), Some("ollama"), Some("openai"), Some("anthropic"), None, None];
        assert_eq!(makers, expected);
    }
}
