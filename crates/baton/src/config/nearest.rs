//! What somebody may have meant who wrote something that there is not. Nothing is better than a wild guess.

/// The known word that is most like an unknown one, if at most half of its letters are wrong. Two letters that changed
/// places count as one.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    // One that is more than twice as long as what is known is not measured: it may be a megabyte.
    let comparable = known.into_iter().filter(|known| letters <= 2 * known.chars().count());
    let measured = comparable.map(|known| (strsim::osa_distance(word, known), known));
    let (wrong, known) = measured.min_by_key(|(wrong, _)| *wrong)?;
    (wrong * 2 <= letters).then_some(known)
}

/// The same as a question, which may stand behind what is wrong.
pub(crate) fn question<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(asked).unwrap_or_default()
}

/// Whether this was meant, as a question.
pub(super) fn asked(meant: impl std::fmt::Display) -> String {
    format!("; did you mean `{meant}`?")
}

/// Whose a model probably is that was named without its provider.
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
