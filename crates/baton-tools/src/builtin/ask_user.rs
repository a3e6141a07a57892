//! `ask_user`: in the registry for its schema only. The flow answers the call, by waiting for the person.

use std::sync::Arc;

use baton_core::tool::{ASK_USER, EffectClass, Trust};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Tool, ToolError};
use crate::typed::{ToolInfo, typed};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AskUserArguments {
    #[expect(dead_code, reason = "the flow reads it; the schema comes from here")]
    /// The question, complete in itself: the person may read it hours later.
    #[schemars(length(min = 1, max = 4000))]
    question: String,
}

pub(crate) fn tool() -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: ASK_USER,
        description: "Asks the person a question and waits for the answer. Use it when something only the person \
                      knows, or has to choose or confirm, is missing.",
        class: EffectClass::SideEffectFree,
        timeout_ms: 1_000,
        trust: Trust::BUILT_IN,
    };
    typed(about, |_: AskUserArguments, _| async {
        Err::<String, _>(ToolError::invalid_call(
            "The run waits for the person's answer; there is nothing to call.",
        ))
    })
}
