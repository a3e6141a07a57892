//! A secret, such as a provider's key: held, sent, and never shown.
//!
//! It has no `Display`, its `Debug` hides it, and it is not serialized. A server's text may echo it, so such
//! text passes through [`Secret::redact`] before a person or a log sees it.

use std::fmt;

use baton_core::redact::{MIN_SECRET, Redactor};

/// A secret text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text. White space around it, such as the last newline of a file, is dropped.
    pub fn new(text: &str) -> Self {
        Secret(text.trim().to_owned())
    }

    /// The text itself, for the code that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A text without the secret, in any of the forms in which servers repeat it.
    pub fn redact(&self, text: &str) -> String {
        Redactor::new(&self.0).redact(text)
    }

    /// Whether the secret is too short to be redacted.
    pub fn is_too_short(&self) -> bool {
        self.0.len() < MIN_SECRET
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
    fn a_secret_is_redacted_unless_it_is_too_short() {
        let table = [
            ("sk-12345", "no key here", "no key here", false),
            ("sk-12345\n", "bad key: sk-12345, \"sk-12345\".", "bad key: [redacted], \"[redacted]\".", false),
            ("x", "an example", "an example", true),
            ("", "an empty key hides nothing", "an empty key hides nothing", true),
        ];
        for (secret, text, expected, short) in table {
            let secret = Secret::new(secret);
            assert_eq!((secret.redact(text).as_str(), secret.is_too_short()), (expected, short));
        }
    }
}
