//! `update_plan`: the model writes down its plan.
//!
//! It returns the plan unchanged, and keeps nothing: the flow records it on the thread.

use std::sync::Arc;

use baton_core::tool::{EffectClass, Trust, UPDATE_PLAN};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::{Tool, ToolError};
use crate::typed::{Structured, ToolInfo, typed};

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanArguments {
    /// All steps, in order.
    #[schemars(length(min = 1, max = 30))]
    plan: Vec<PlanStep>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanStep {
    /// The task, in a few words.
    #[schemars(length(min = 1, max = 200))]
    step: String,
    status: PlanStepStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PlanStepStatus {
    Pending,
    InProgress,
    Done,
}

pub(crate) fn tool() -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: UPDATE_PLAN,
        description: "Writes down the plan for work of several steps, and how far it has come. Send the whole plan \
                      each time, with at most one step in progress. Leave it out for anything simple.",
        class: EffectClass::SideEffectFree,
        timeout_ms: 1_000,
        trust: Trust::BUILT_IN,
    };
    typed(about, |plan: PlanArguments, _| std::future::ready(checked(plan).map(Structured)))
}

fn checked(plan: PlanArguments) -> Result<PlanArguments, ToolError> {
    match plan.plan.iter().filter(|step| step.status == PlanStepStatus::InProgress).count() {
        0 | 1 => Ok(plan),
        several => Err(ToolError::invalid_call(format!(
            "{several} steps are in progress. Send the plan with at most one of them."
        ))),
    }
}
