//! What a tool says of itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What may happen to a call that had started and has no recorded outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// It changes nothing: it may run again.
    SideEffectFree,
    /// It honours the key that it is given: it may run again with the same key.
    Idempotent,
    /// Neither: it does not run again, and its outcome is unknown.
    #[default]
    Unsafe,
}

impl EffectClass {
    /// Whether a second run does no harm.
    pub fn may_run_again(self) -> bool {
        self != EffectClass::Unsafe
    }
}

/// A tool as models, policies and people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name, unique in a registry.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its result, where it promises one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What a crash or a timeout means for it.
    #[serde(default)]
    pub class: EffectClass,
    /// How long one call may take.
    pub timeout_ms: u64,
}

/// The name of the tool that asks the person. The flow itself answers it, by waiting.
pub const ASK_USER: &str = "ask_user";
