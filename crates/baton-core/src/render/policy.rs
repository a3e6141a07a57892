//! How a thread is rendered: what somebody may ask for. What that comes to is decided in
//! [`window`](super::window).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a thread is rendered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendering {
    /// How much of it.
    #[serde(default)]
    pub policy: RenderPolicy,
    /// Entry types that are left out, beside those that always are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// What is done with the messages afterwards, in order, by policies that somebody registered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Registered>,
}

impl Rendering {
    /// Whether nothing was said about it.
    pub fn is_plain(&self) -> bool {
        *self == Rendering::default()
    }
}

/// How much of a thread a model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenderPolicy {
    /// As much as fits its context window, if that is known; the oldest is left out first.
    #[default]
    TokenBudget,
    /// The same, but a summary stands for what is left out.
    Summary,
    /// All of it, whether it fits or not.
    Full,
}

/// A policy that somebody registered, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// What it is told.
    #[serde(default)]
    pub options: Value,
}
