//! The usage of a run, as a schema.

#![allow(dead_code, reason = "described, never made")]

use schemars::JsonSchema;
use serde::Deserialize;

/// The tokens and the cost of a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    tokens: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    /// Null where a price is not known, never 0.
    cost_usd: Option<f64>,
    /// There and true if some of the tokens were estimated, because a provider did not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated: Option<bool>,
}
