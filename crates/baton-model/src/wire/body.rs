//! The body of a request whose tools are text already.
//!
//! It is written as one object with its fields in the order of their names, which is how a [`Value`] is
//! written: whether the tools were kept or not makes no difference to a server, or to its cache of prompts.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The field that holds the tools.
const TOOLS: &str = "tools";

/// See the module.
#[derive(Debug)]
pub(super) struct RequestBody<'a> {
    /// An object. It has tools itself only where there is no text of them.
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
