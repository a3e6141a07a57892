//! A secret, such as a provider's key: held, sent, and never shown.
//!
//! It has no `Display`, its `Debug` says nothing of it, and it is not serialized. What a stranger wrote, and
//! might have echoed it in, passes through [`Secret::redact`] before a person or a log sees it.

use std::fmt;

/// What stands where a secret stood.
const REDACTED: &str = "[redacted]";

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

    /// A text with the secret taken out, wherever it occurs.
    pub fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, REDACTED) }
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
            ("", "an empty key hides nothing", "an empty key hides nothing"),
        ];
        for (secret, text, expected) in table {
            assert_eq!(Secret::new(secret).redact(text), expected, "{text:?}");
        }
    }
}
