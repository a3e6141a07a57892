//! A JSON document that borrows from its text.
//!
//! Frames are many and small, and most of their fields are unused. So names and texts are neither
//! copied nor sorted; only one with an escape in it is copied. Look-ups are those of [`Value`]: a missing field
//! is null, and of a repeated one the last counts.
//!
//! Two things are refused that `serde_json` accepts: nesting of more than [`MAX_DEPTH`] levels, and fields with
//! the names that `serde_json` reserves. Such a field means nothing here, but parsed again as a [`Value`] the
//! stored document would have something else in its place, or nothing at all.
//!
//! A document is read-only. Parts that outlive its text become a [`Value`].

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

use baton_core::json::MAX_DEPTH;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// The prefix of the names that `serde_json` reserves.
const RESERVED: &str = "$serde_json::private::";

/// A document, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BorrowedJson<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<BorrowedJson<'a>>),
    /// The fields in their written order, repeated ones included.
    Object(Vec<(Cow<'a, str>, BorrowedJson<'a>)>),
}

impl<'a> BorrowedJson<'a> {
    /// Parses a text that is exactly one document.
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let document = JsonVisitor { levels: MAX_DEPTH }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(document)
    }

    /// The field of an object.
    pub(super) fn get(&self, field: &str) -> Option<&BorrowedJson<'a>> {
        let BorrowedJson::Object(fields) = self else { return None };
        fields.iter().rev().find(|(name, _)| name == field).map(|(_, value)| value)
    }

    /// The text, if this is one.
    pub(super) fn as_str(&self) -> Option<&str> {
        if let BorrowedJson::String(text) = self { Some(text) } else { None }
    }

    /// The whole number, if this is one that fits.
    pub(super) fn as_u64(&self) -> Option<u64> {
        if let BorrowedJson::Number(number) = self { number.as_u64() } else { None }
    }

    /// The items, if this is an array.
    pub(super) fn as_array(&self) -> Option<&[BorrowedJson<'a>]> {
        if let BorrowedJson::Array(items) = self { Some(items) } else { None }
    }

    /// Whether this is null, as a missing field is.
    pub(super) fn is_null(&self) -> bool {
        matches!(self, BorrowedJson::Null)
    }

    /// Whether this is an array.
    pub(super) fn is_array(&self) -> bool {
        matches!(self, BorrowedJson::Array(_))
    }

    /// Whether this is an object.
    pub(super) fn is_object(&self) -> bool {
        matches!(self, BorrowedJson::Object(_))
    }

    /// An owned copy, independent of the text.
    pub(super) fn to_value(&self) -> Value {
        match self {
            BorrowedJson::Null => Value::Null,
            BorrowedJson::Bool(value) => Value::Bool(*value),
            BorrowedJson::Number(number) => Value::Number(number.clone()),
            BorrowedJson::String(text) => Value::String(text.clone().into_owned()),
            BorrowedJson::Array(items) => items.iter().map(BorrowedJson::to_value).collect(),
            BorrowedJson::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone().into_owned(), value.to_value())).collect()
            }
        }
    }
}

/// A missing field is null.
impl<'a> Index<&str> for BorrowedJson<'a> {
    type Output = BorrowedJson<'a>;

    fn index(&self, field: &str) -> &BorrowedJson<'a> {
        self.get(field).unwrap_or(&BorrowedJson::Null)
    }
}

impl PartialEq<&str> for BorrowedJson<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

/// As [`Value`] writes it.
impl fmt::Display for BorrowedJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

/// Parses a document of at most so many levels.
#[derive(Clone, Copy)]
struct JsonVisitor {
    levels: usize,
}

impl JsonVisitor {
    /// The visitor of the next level.
    fn inside<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1).ok_or_else(|| E::custom("nested too deeply"))?;
        Ok(JsonVisitor { levels })
    }
}

impl<'de> DeserializeSeed<'de> for JsonVisitor {
    type Value = BorrowedJson<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<BorrowedJson<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = BorrowedJson<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON document")
    }

    fn visit_unit<E>(self) -> Result<BorrowedJson<'de>, E> {
        Ok(BorrowedJson::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<BorrowedJson<'de>, E> {
        Ok(BorrowedJson::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<BorrowedJson<'de>, E> {
        Ok(BorrowedJson::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<BorrowedJson<'de>, E> {
        Ok(BorrowedJson::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<BorrowedJson<'de>, E> {
        Ok(Number::from_f64(value).map_or(BorrowedJson::Null, BorrowedJson::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<BorrowedJson<'de>, E> {
        Ok(BorrowedJson::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<BorrowedJson<'de>, E> {
        Ok(BorrowedJson::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<BorrowedJson<'de>, A::Error> {
        let (inside, mut all) = (self.inside()?, Vec::new());
        while let Some(item) = items.next_element_seed(inside)? {
            all.push(item);
        }
        Ok(BorrowedJson::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<BorrowedJson<'de>, A::Error> {
        let (inside, mut all) = (self.inside()?, Vec::new());
        while let Some(FieldName(name)) = fields.next_key()? {
            if name.starts_with(RESERVED) {
                return Err(A::Error::custom("a field has a reserved name"));
            }
            all.push((name, fields.next_value_seed(inside)?));
        }
        Ok(BorrowedJson::Object(all))
    }
}

/// The name of a field. A `Cow` by itself is always read as a copy.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests;
