//! A secret, such as the key of a search service: held, sent, and never shown.
//!
//! It has no `Display`, its `Debug` hides the text, and it is not serialized.

use std::fmt;

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text. White space around it, such as the last newline of a file, is no part of it.
    pub fn new(text: &str) -> Self {
        Secret(text.trim().to_owned())
    }

    /// The text itself, for the code that sends it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
