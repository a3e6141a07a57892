//! The answer of `GET /v1/threads/{id}/render`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The messages that a model would be sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rendered {
    /// In OpenAI's schema, rendered from at most 4 MiB of entries.
    messages: Vec<Map<String, Value>>,
    /// `before` of the request for older messages; absent where nothing older would be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}
