//! The words of a line that has nothing else to say, read without a document in between.
//!
//! An answer is hundreds of such lines. Whatever is not one of them to the letter is not judged here: a call,
//! an error, the end, a list or an object that is not expected, and what is no JSON at all. Those are read
//! the long way, which alone says what is wrong with a line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// The texts of a message.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Words<'a> {
    pub(super) thinking: Option<Cow<'a, str>>,
    /// What compatible servers write in the place of it.
    pub(super) reasoning: Option<Cow<'a, str>>,
    pub(super) content: Option<Cow<'a, str>>,
}

/// The words of a line; none: there is more to it.
pub(super) fn words(line: &str) -> Option<Words<'_>> {
    let Line(words) = serde_json::from_str(line).ok()?;
    Some(words)
}

struct Line<'a>(Words<'a>);

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader).map(Line)
    }
}

/// Reads a line. Of a field that is there twice the last counts.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Words<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of words")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut line: A) -> Result<Words<'de>, A::Error> {
        let mut words = Words::default();
        while let Some(field) = line.next_key()? {
            match field {
                Field::Message => Message(words) = line.next_value()?,
                Field::Done if !line.next_value()? => {}
                Field::Done | Field::Special => return Err(A::Error::custom("more than words")),
                Field::Thinking | Field::Reasoning | Field::Content | Field::Other => {
                    line.next_value::<Plain<'_>>()?;
                }
            }
        }
        Ok(words)
    }
}

struct Message<'a>(Words<'a>);

impl<'de> Deserialize<'de> for Message<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageReader).map(Message)
    }
}

struct MessageReader;

impl<'de> Visitor<'de> for MessageReader {
    type Value = Words<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of words")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut message: A) -> Result<Words<'de>, A::Error> {
        let mut words = Words::default();
        while let Some(field) = message.next_key()? {
            let value = |Plain(text)| text;
            match field {
                Field::Thinking => words.thinking = message.next_value().map(value)?,
                Field::Reasoning => words.reasoning = message.next_value().map(value)?,
                Field::Content => words.content = message.next_value().map(value)?,
                Field::Special => return Err(A::Error::custom("more than words")),
                Field::Message | Field::Done | Field::Other => {
                    message.next_value::<Plain<'_>>()?;
                }
            }
        }
        Ok(words)
    }
}

/// The fields that matter, in a line or in its message.
enum Field {
    Message,
    Done,
    Thinking,
    Reasoning,
    Content,
    /// One that is never only words, or has a name that `serde_json` might keep for itself.
    Special,
    Other,
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(FieldReader)
    }
}

struct FieldReader;

impl Visitor<'_> for FieldReader {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Field, E> {
        Ok(match name {
            "message" => Field::Message,
            "done" => Field::Done,
            "thinking" => Field::Thinking,
            "reasoning_content" => Field::Reasoning,
            "content" => Field::Content,
            "error" | "tool_calls" => Field::Special,
            name if name.starts_with('$') => Field::Special,
            _ => Field::Other,
        })
    }
}

/// A value that is no list and no object, and the text that it is.
struct Plain<'a>(Option<Cow<'a, str>>);

impl<'de> Deserialize<'de> for Plain<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainReader).map(Plain)
    }
}

struct PlainReader;

impl<'de> Visitor<'de> for PlainReader {
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
