//! What the two formats that OpenAI made have in common.

use serde_json::{Value, json};

use super::Call;

/// Whether the server is OpenAI's own. It refuses fields that it has replaced, and compatible servers
/// refuse fields that they do not know yet.
pub(super) fn is_own_server(call: &Call<'_>) -> bool {
    call.name.starts_with("openai/")
}

/// A tool's parameters. OpenAI refuses an object whose schema does not list its properties, even if it has
/// none.
pub(super) fn parameters(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut()
        && fields.get("type").is_some_and(|kind| kind == "object")
    {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}
