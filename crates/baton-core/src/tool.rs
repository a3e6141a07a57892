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

/// Whether a call sends something out that its arguments say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Egress {
    /// It does not.
    #[default]
    No,
    /// It does, unless the address that it asks for was among the results of a search of the same run.
    UnlessFound,
    /// It does.
    Yes,
}

/// What has to be known of a tool before it is trusted with anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trust {
    /// It comes with Baton; every other tool is there because the operator configured it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub built_in: bool,
    /// What it returns was written by people whom nobody here chose: pages, other services.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted_output: bool,
    /// What it returns is private: files, logs, long outputs that were kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private_output: bool,
    /// Whether its calls send something out.
    #[serde(skip_serializing_if = "crate::json::is_default")]
    pub egress: Egress,
    /// Its calls send their words to a service that the operator chose, and to nobody else: a search.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub to_service: bool,
    /// The operator wants every call of it asked about.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

impl Trust {
    /// What most of the tools that come with Baton are.
    pub const BUILT_IN: Trust = Trust {
        built_in: true,
        untrusted_output: false,
        private_output: false,
        egress: Egress::No,
        to_service: false,
        approve: false,
    };

    /// The trust of a tool that shows what this machine keeps: private, and perhaps written by strangers.
    pub const LOCAL_DATA: Trust = Trust { untrusted_output: true, private_output: true, ..Trust::BUILT_IN };

    /// Whether anything at all leaves this machine with its calls.
    pub fn sends_out(&self) -> bool {
        self.to_service || self.egress != Egress::No
    }
}

/// Where the cause of a failure lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// In what was asked: the same call fails again.
    Asked,
    /// In the tool or what it needs: another try may work.
    Tool,
}

impl Cause {
    /// What a model is told after a failure.
    pub fn advice(self) -> &'static str {
        match self {
            Cause::Asked => {
                "The cause lies in what was asked: call it with other arguments, or ask the person to change the request."
            }
            Cause::Tool => "It does not work now: go on without it, and say what is missing.",
        }
    }
}

/// A tool as models, policies and people see it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// What has to be known of it.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub trust: Trust,
    /// Whether it is told what the caller said of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_context: bool,
    /// The configured service that it comes from; none: it is part of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// The name of the tool that asks the person. The flow itself answers it, by waiting.
pub const ASK_USER: &str = "ask_user";
/// The name of the tool that writes a plan down.
pub const UPDATE_PLAN: &str = "update_plan";
/// The name of the tool that searches the web.
pub const WEB_SEARCH: &str = "web_search";
/// The tools that show more of a long output that was kept.
pub const BLOB_TOOLS: [&str; 2] = ["read_blob", "search_blob"];
