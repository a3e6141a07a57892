//! A request body whose tools are encoded already.
//!
//! It is serialized as one object with its fields in the order of their names, as a [`Value`] is, so cached
//! and fresh tools give the same bytes, and the server's prompt cache hits for both.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The field that holds the tools.
const TOOLS: &str = "tools";

/// A request body, and its tools where they are encoded already.
#[derive(Debug)]
pub(super) struct RequestBody<'a> {
    /// An object. It has the field `tools` only where `tools` below is none.
    pub(super) fields: Value,
    pub(super) tools: Option<Cow<'a, RawValue>>,
}

impl Serialize for RequestBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (Some(tools), Value::Object(fields)) = (&self.tools, &self.fields) else {
            return self.fields.serialize(serializer);
        };
        let mut object = serializer.serialize_map(Some(fields.len() + 1))?;
        let is_before = |(name, _): &(&String, &Value)| name.as_str() < TOOLS;
        fields
            .iter()
            .take_while(is_before)
            .try_for_each(|(name, value)| object.serialize_entry(name, value))?;
        object.serialize_entry(TOOLS, tools)?;
        fields
            .iter()
            .skip_while(is_before)
            .try_for_each(|(name, value)| object.serialize_entry(name, value))?;
        object.end()
    }
}

#[cfg(test)]
mod tests;
