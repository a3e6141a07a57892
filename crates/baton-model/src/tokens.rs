//! The token count of a text.
//!
//! Exact for OpenAI's own models, whose vocabularies are published; for everything else a simple
//! estimate: four characters are one token. The actual usage of a call comes from the provider.

use bpe_openai::Tokenizer;

/// The models of the older of the two vocabularies, by the beginning of their names.
const CL100K: [&str; 5] = ["gpt-3.5", "gpt-35", "gpt-4-", "text-embedding-3", "text-embedding-ada"];

/// Counts the tokens of a text for a model.
pub(crate) fn count(is_openais: bool, model: &str, text: &str) -> u64 {
    match tokenizer(is_openais, model) {
        Some(tokenizer) => tokenizer.count(text) as u64,
        None => (text.chars().count() as u64).div_ceil(4),
    }
}

/// The tokenizer of a model, where its vocabulary is known.
fn tokenizer(is_openais: bool, model: &str) -> Option<&'static Tokenizer> {
    if !is_openais {
        return None;
    }
    // A fine-tuned model is named after its base: `ft:gpt-4o:…`.
    let model = model.strip_prefix("ft:").unwrap_or(model);
    let old = model == "gpt-4" || CL100K.iter().any(|family| model.starts_with(family));
    Some(if old { bpe_openai::cl100k_base() } else { bpe_openai::o200k_base() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_s_models_are_counted_by_their_own_vocabulary() {
        // A word that is one token in the newer vocabulary and more in the older one tells them apart.
        let text = "ありがとうございます";
        let counts = |is_openais, model| count(is_openais, model, text);
        let (old, new) =
            (bpe_openai::cl100k_base().count(text) as u64, bpe_openai::o200k_base().count(text) as u64);
        assert_ne!(old, new);
        let table = [
            (true, "gpt-4", old),
            (true, "gpt-4-turbo", old),
            (true, "gpt-3.5-turbo", old),
            (true, "ft:gpt-3.5-turbo:me", old),
            (true, "gpt-4o-mini", new),
            (true, "gpt-4.1", new),
            (true, "o4-mini", new),
            (true, "gpt-99", new),
            (false, "gpt-4o", 3),
            (false, "claude", 3),
        ];
        for (is_openais, model, expected) in table {
            assert_eq!(counts(is_openais, model), expected, "{model}");
        }
    }

    #[test]
    fn known_counts_are_exact() {
        assert_eq!(count(true, "gpt-4o", "hello world"), 2);
        assert_eq!(count(true, "gpt-4o", ""), 0);
        assert_eq!(count(false, "x", ""), 0);
        assert_eq!(count(false, "x", "12345"), 2);
    }
}
