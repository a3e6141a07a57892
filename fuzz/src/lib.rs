//! What has to hold for any bytes whatever, one module a kind of input.
//!
//! Each `check` panics when something does not hold; libFuzzer keeps the input. A target in `targets/` is
//! nothing but the call of one of them. What the bytes should mean is the business of `baton-model`'s own
//! tests; here it is only that nothing panics, hangs, depends on how bytes arrive, or takes half an answer
//! for a whole one.

pub mod failure;
pub mod names;
pub mod stream;
pub mod whole;

mod answer;
mod marker;

use baton_core::tool::{EffectClass, ToolSpec};
use baton_model::wire::{InlineTags, WireNames};

/// Tools that were offered: one whose name is the same everywhere, and two that are called differently.
const TOOLS: [&str; 3] = ["get_time", "exec.calculator", "with space"];

/// The habits and names that the lowest three bits of a byte choose.
fn chosen(settings: u8) -> (InlineTags, WireNames) {
    let habits = InlineTags { think_tags: settings & 1 != 0, tool_call_tags: settings & 2 != 0 };
    let tools = if settings & 4 != 0 { TOOLS.map(tool).to_vec() } else { Vec::new() };
    (habits, WireNames::new(&tools, &[]))
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: serde_json::json!({"type": "object"}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1,
        ..ToolSpec::default()
    }
}
