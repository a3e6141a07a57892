//! The limits of a run.

use schemars::JsonSchema;
use serde::Deserialize;

/// The limits of a run's use; an absent one does not apply.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    iterations: u32,
    active_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    answer_tokens: u64,
}
