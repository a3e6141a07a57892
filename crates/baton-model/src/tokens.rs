//! The token count of a text.
//!
//! Exact for OpenAI's own models, whose vocabularies are published, for up to 256 KiB; for everything else a simple
//! estimate: four characters are one token. The actual usage of a call comes from the provider.

use std::sync::LazyLock;

use tiktoken::{CoreBpe, encoding};

/// The vocabularies are unpacked when a model that uses them is first counted for: most processes never ask.
static CL100K: LazyLock<CoreBpe> = LazyLock::new(encoding::cl100k_base);
static O200K: LazyLock<CoreBpe> = LazyLock::new(encoding::o200k_base);

/// The models of the older of the two vocabularies, by the beginning of their names.
const CL100K_FAMILIES: [&str; 5] = ["gpt-3.5", "gpt-35", "gpt-4-", "text-embedding-3", "text-embedding-ada"];

/// The bytes that the tokenizer gets at a time. Its worst case is quadratic in the length of a text.
const PART: usize = 16 * 1024;

/// The bytes of a text that are counted exactly; the count of a longer one is scaled up from these. Random Unicode costs
/// the tokenizer about a second for this much.
const EXACT: usize = 256 * 1024;

/// Counts the tokens of a text for a model.
pub(crate) fn count(is_openais: bool, model: &str, text: &str) -> u64 {
    match tokenizer(is_openais, model) {
        Some(tokenizer) => count_with(tokenizer, text),
        None => (text.chars().count() as u64).div_ceil(4),
    }
}

/// The tokenizer of a model, where its vocabulary is known.
fn tokenizer(is_openais: bool, model: &str) -> Option<&'static CoreBpe> {
    if !is_openais {
        return None;
    }
    // A fine-tuned model is named after its base: `ft:gpt-4o:…`.
    let model = model.strip_prefix("ft:").unwrap_or(model);
    let old = model == "gpt-4" || CL100K_FAMILIES.iter().any(|family| model.starts_with(family));
    Some(if old { &CL100K } else { &O200K })
}

fn count_with(tokenizer: &CoreBpe, text: &str) -> u64 {
    let (mut rest, mut tokens) = (&text[..text.floor_char_boundary(EXACT)], 0);
    let counted = rest.len();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(end_of_part(rest));
        tokens += tokenizer.count(part) as u64;
        rest = after;
    }
    if counted < text.len() {
        tokens = (tokens as u128 * text.len() as u128 / counted as u128) as u64;
    }
    tokens
}

/// The end of the first part of a text. No token of either vocabulary spans a line's end before a letter or a digit, so the counts
/// of the parts add up to that of the whole; a line that is longer than a part costs a token or two too many.
fn end_of_part(text: &str) -> usize {
    if text.len() <= PART {
        return text.len();
    }
    let longest = text.floor_char_boundary(PART);
    let is_safe = |&(at, _): &(usize, &str)| text[at + 1..].starts_with(char::is_alphanumeric);
    let safe = text[..longest].rmatch_indices('\n').find(is_safe);
    safe.map_or(longest, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_s_models_are_counted_by_their_own_vocabulary() {
        // A word that is one token in the newer vocabulary and more in the older one tells them apart.
        let text = "ありがとうございます";
        let counts = |is_openais, model| count(is_openais, model, text);
        let (old, new) = (CL100K.count(text) as u64, O200K.count(text) as u64);
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

    #[test]
    fn a_text_of_many_parts_has_the_count_of_the_whole() {
        let line = "fn main() { println!(\"päivää {}\", 12345); } // ありがとう\n";
        let text = format!("{}\n\n  {}", line.repeat(1500), line.repeat(600));
        assert!(text.len() > 8 * PART && text.len() < EXACT);
        for (model, whole) in [("gpt-4", CL100K.count(&text)), ("gpt-4o", O200K.count(&text))] {
            assert_eq!(count(true, model, &text), whole as u64, "{model}");
        }
    }

    #[test]
    fn a_line_longer_than_a_part_is_at_most_a_token_a_cut_off() {
        let text = "lorem ipsum ".repeat(PART / 4);
        let (counted, whole) = (count(true, "gpt-4o", &text), O200K.count(&text) as u64);
        assert!(counted >= whole && counted - whole <= text.len().div_ceil(PART) as u64, "{counted} {whole}");
    }

    #[test]
    fn a_text_beyond_the_exact_length_is_scaled() {
        let text = "one two three\n".repeat(EXACT / 7);
        let (counted, whole) = (count(true, "gpt-4o", &text), O200K.count(&text) as u64);
        assert!(counted.abs_diff(whole) * 100 <= whole, "{counted} {whole}");
    }
}
