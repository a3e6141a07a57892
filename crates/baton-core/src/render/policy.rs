//! The rendering that a caller may ask for. [`window`](super::window) decides which entries a call sees under
//! it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a thread is rendered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendering {
    /// How much of the thread is rendered.
    #[serde(default)]
    pub policy: RenderPolicy,
    /// Entry types that are left out, beside those that always are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Registered policies that transform the messages afterwards, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Registered>,
}

impl Rendering {
    /// Whether it is the default.
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
    /// The same, but a summary stands for the entries that are left out.
    Summary,
    /// All of it, whether it fits or not.
    Full,
}

/// A registered policy, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// Its options.
    #[serde(default)]
    pub options: Value,
}
