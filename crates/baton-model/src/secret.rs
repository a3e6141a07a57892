//! A secret, such as a provider's key: held, sent, and never shown.
//!
//! It has no `Display`, its `Debug` says nothing of it, and it is not serialized. What a stranger wrote, and
//! might have echoed it in, passes through [`Secret::redact`] before a person or a log sees it.

use std::fmt;

/// What stands where a secret stood.
const REDACTED: &str = "[redacted]";

/// The shortest beginning of a secret that gives something away. Many keys begin alike.
const MIN_PART: usize = 8;

/// A text that nobody sees.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text. White space around it, such as the last newline of a file, is no part of it.
    pub fn new(text: &str) -> Self {
        Secret(text.trim().to_owned())
    }

    /// The text itself, for whoever has to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A text with the secret taken out, wherever it occurs, and its beginning, where the text was cut off
    /// in the middle of it.
    pub fn redact(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let text = text.replace(&self.0, REDACTED);
        let whole = text.strip_suffix('…').unwrap_or(&text);
        let beginnings = self.0.char_indices().rev().map(|(end, _)| &self.0[..end]);
        match beginnings.take_while(|part| part.len() >= MIN_PART).find(|part| whole.ends_with(part)) {
            Some(part) => format!("{}{REDACTED}…", &whole[..whole.len() - part.len()]),
            None => text,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?} {:#?}", Secret::new("sk-1"), Some(Secret::new("sk-1"))), {
            "Secret Some(\n    Secret,\n)"
        });
    }

    #[test]
    fn a_secret_is_taken_out_wherever_it_occurs() {
        let table = [
            ("sk-1", "no key here", "no key here"),
            ("sk-1", "sk-1", "[redacted]"),
            ("sk-1\n", "bad key: sk-1sk-1, \"sk-1\".", "bad key: [redacted][redacted], \"[redacted]\"."),
            ("sk-12345678", "cut: sk-12345…", "cut: [redacted]…"),
            ("sk-12345678", "cut: sk-1234567", "cut: [redacted]…"),
            ("sk-12345678", "not cut: sk-1234", "not cut: sk-1234"),
            ("schlüssel", "cut: schlüsse", "cut: [redacted]…"),
            ("", "an empty key hides nothing", "an empty key hides nothing"),
        ];
        for (secret, text, expected) in table {
            assert_eq!(Secret::new(secret).redact(text), expected, "{text:?}");
        }
    }
}
