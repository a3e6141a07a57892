//! The fast path for lines that have only text, parsed without building a document.
//!
//! An answer is hundreds of such lines. Any other line is left to the general decoder, which alone reports
//! errors: a call, an error, the end, an unexpected list or object, and invalid JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The texts of a message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct LineText<'a> {
    pub(super) thinking: Option<Cow<'a, str>>,
    /// The field of compatible servers for `thinking`.
    pub(super) reasoning: Option<Cow<'a, str>>,
    pub(super) content: Option<Cow<'a, str>>,
}

/// The text of a line; none: it has more than text.
pub(super) fn parse(line: &str) -> Option<LineText<'_>> {
    let TextLine(text) = serde_json::from_str(line).ok()?;
    Some(text)
}

struct TextLine<'a>(LineText<'a>);

impl<'de> Deserialize<'de> for TextLine<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextLineVisitor).map(TextLine)
    }
}

/// Parses a line. Of a repeated field the last counts.
struct TextLineVisitor;

impl<'de> Visitor<'de> for TextLineVisitor {
    type Value = LineText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of words")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut line: A) -> Result<LineText<'de>, A::Error> {
        let mut words = LineText::default();
        while let Some(field) = line.next_key()? {
            match field {
                LineField::Message => TextMessage(words) = line.next_value()?,
                LineField::Done if !line.next_value()? => {}
                LineField::Done | LineField::Special => return Err(A::Error::custom("more than words")),
                LineField::Thinking | LineField::Reasoning | LineField::Content | LineField::Other => {
                    line.next_value::<ScalarText<'_>>()?;
                }
            }
        }
        Ok(words)
    }
}

struct TextMessage<'a>(LineText<'a>);

impl<'de> Deserialize<'de> for TextMessage<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextMessageVisitor).map(TextMessage)
    }
}

struct TextMessageVisitor;

impl<'de> Visitor<'de> for TextMessageVisitor {
    type Value = LineText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of words")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut message: A) -> Result<LineText<'de>, A::Error> {
        let mut words = LineText::default();
        while let Some(field) = message.next_key()? {
            let value = |ScalarText(text)| text;
            match field {
                LineField::Thinking => words.thinking = message.next_value().map(value)?,
                LineField::Reasoning => words.reasoning = message.next_value().map(value)?,
                LineField::Content => words.content = message.next_value().map(value)?,
                LineField::Special => return Err(A::Error::custom("more than words")),
                LineField::Message | LineField::Done | LineField::Other => {
                    message.next_value::<ScalarText<'_>>()?;
                }
            }
        }
        Ok(words)
    }
}

/// The fields of a line or of its message that matter.
enum LineField {
    Message,
    Done,
    Thinking,
    Reasoning,
    Content,
    /// A field that is more than text, or has a name that `serde_json` might reserve.
    Special,
    Other,
}

impl<'de> Deserialize<'de> for LineField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(LineFieldVisitor)
    }
}

struct LineFieldVisitor;

impl Visitor<'_> for LineFieldVisitor {
    type Value = LineField;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<LineField, E> {
        Ok(match name {
            "message" => LineField::Message,
            "done" => LineField::Done,
            "thinking" => LineField::Thinking,
            "reasoning_content" => LineField::Reasoning,
            "content" => LineField::Content,
            "error" | "tool_calls" => LineField::Special,
            name if name.starts_with('$') => LineField::Special,
            _ => LineField::Other,
        })
    }
}

/// A value that is neither a list nor an object, with its text if it is one.
struct ScalarText<'a>(Option<Cow<'a, str>>);

impl<'de> Deserialize<'de> for ScalarText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(ScalarText)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value by itself")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }
}
