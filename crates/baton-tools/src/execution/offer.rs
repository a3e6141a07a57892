//! Parsing of a list of tools, in the shapes that services write it in. Pure.
//!
//! A list is below `tools` or is the whole document. A tool may be wrapped as in OpenAI's interface
//! (`{"type": "function", "function": {…}}`); its schema is below `input_schema`, `inputSchema` or `parameters`. A
//! flag that is missing is false: a tool without flags is never run twice.

use std::time::Duration;

use baton_core::id::excerpt;
use baton_core::json::{MAX_DEPTH, is_deeper_than};
use baton_core::tool::{EffectClass, ToolSpec, Trust};
use serde_json::{Map, Value, json};

use super::SERVICE;

/// The most tools that are read of one list.
const MOST_TOOLS: usize = 1000;
/// The longest description and the longest schema of a tool: each model call carries them.
const LONGEST_DESCRIPTION: usize = 8 << 10;
const LONGEST_SCHEMA: usize = 64 << 10;
/// The longest time that a tool may take by its own word.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The tools of a service, by its own names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOffer {
    /// The specs of the usable tools.
    pub specs: Vec<ToolSpec>,
    /// The tools that cannot be used.
    pub skipped: Vec<SkippedTool>,
}

/// A tool that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedTool {
    /// Its name, or its place in the list.
    pub name: String,
    /// Why not.
    pub why: String,
}

/// Reads a list; none if it is no list.
pub(super) fn read(body: &[u8], timeout: Duration) -> Option<ToolOffer> {
    let mut document: Value = serde_json::from_slice(body).ok()?;
    let list = match &mut document {
        Value::Array(list) => std::mem::take(list),
        Value::Object(fields) => match fields.remove("tools")? {
            Value::Array(list) => list,
            _ => return None,
        },
        _ => return None,
    };
    let mut offer = ToolOffer::default();
    for (nth, item) in list.into_iter().enumerate() {
        if nth == MOST_TOOLS {
            let why = format!("only {MOST_TOOLS} tools of one service are taken");
            offer.skipped.push(SkippedTool { name: "the rest".to_owned(), why });
            break;
        }
        match tool(item, nth, timeout) {
            Ok(spec) => offer.specs.push(spec),
            Err(skipped) => offer.skipped.push(skipped),
        }
    }
    Some(offer)
}

fn tool(item: Value, nth: usize, timeout: Duration) -> Result<ToolSpec, SkippedTool> {
    let place = format!("number {}", nth + 1);
    let skipped = |name: &str, why: &str| SkippedTool { name: excerpt(name), why: why.to_owned() };
    let Value::Object(mut fields) = item else { return Err(skipped(&place, "it is no object")) };
    // Fields beside the wrapping count, too: OpenAI's wrapping has no field for flags.
    if let Some(Value::Object(inner)) = fields.remove("function") {
        fields.extend(inner);
    }
    let Some(Value::String(name)) = fields.remove("name") else {
        return Err(skipped(&place, "it has no name"));
    };
    let input_schema = match first_of(&mut fields, ["input_schema", "inputSchema", "parameters"]) {
        None => json!({ "type": "object", "properties": {} }),
        Some(schema) => arguments_schema(schema).map_err(|why| skipped(&name, why))?,
    };
    let output_schema = first_of(&mut fields, ["output_schema", "outputSchema"]);
    if output_schema.as_ref().is_some_and(|schema| is_deeper_than(schema, MAX_DEPTH)) {
        return Err(skipped(&name, "its output schema is nested too deep"));
    }
    let is_long = |schema: &Value| schema.to_string().len() > LONGEST_SCHEMA;
    if is_long(&input_schema) || output_schema.as_ref().is_some_and(is_long) {
        return Err(skipped(&name, &format!("its schema is longer than {} KiB", LONGEST_SCHEMA >> 10)));
    }
    let is = |flag: &str| fields.get(flag) == Some(&Value::Bool(true));
    let class = match (is("side_effect_free"), is("idempotent")) {
        (true, _) => EffectClass::SideEffectFree,
        (false, true) => EffectClass::Idempotent,
        (false, false) => EffectClass::Unsafe,
    };
    let own = fields.get("timeout_s").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0);
    let own = own.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST));
    let timeout_ms = u64::try_from(own.unwrap_or(timeout).as_millis()).unwrap_or(u64::MAX).max(1);
    let description = fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    if description.len() > LONGEST_DESCRIPTION {
        let why = format!("its description is longer than {} KiB", LONGEST_DESCRIPTION >> 10);
        return Err(skipped(&name, &why));
    }
    Ok(ToolSpec {
        requires_context: is("requires_context"),
        name,
        description,
        input_schema,
        output_schema,
        class,
        timeout_ms,
        // The operator's own service: neither untrusted nor egress, unless the operator says so.
        trust: Trust::default(),
        service: Some(SERVICE.to_owned()),
    })
}

/// The first of some fields that is not null.
fn first_of<const N: usize>(fields: &mut Map<String, Value>, names: [&str; N]) -> Option<Value> {
    names.into_iter().filter_map(|name| fields.remove(name)).find(|value| !value.is_null())
}

/// The schema of the arguments, made explicit: models send objects, and providers require `type` and `properties`.
fn arguments_schema(mut schema: Value) -> Result<Value, &'static str> {
    if is_deeper_than(&schema, MAX_DEPTH) {
        return Err("its schema is nested too deep");
    }
    let Some(fields) = schema.as_object_mut() else { return Err("its schema is no object") };
    match fields.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return Err("its schema is not that of an object"),
        None => {
            fields.insert("type".to_owned(), "object".into());
        }
    }
    fields.entry("properties").or_insert_with(|| json!({}));
    Ok(schema)
}

#[cfg(test)]
mod tests;
