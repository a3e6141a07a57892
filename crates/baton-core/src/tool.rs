//! The description of a tool: its effect class, its trust, its schemas.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a call that had started and has no recorded outcome may run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// A call changes nothing: it may run again.
    SideEffectFree,
    /// A call honours its idempotency key: it may run again with the same key.
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

/// Whether a call sends data from its arguments out.
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

/// The properties of a tool that the policy trusts or distrusts it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trust {
    /// It comes with Baton; every other tool is there because the operator configured it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub built_in: bool,
    /// Its output is untrusted: its authors are not known here, as those of web pages and other services.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted_output: bool,
    /// Its output is private: files, logs, long outputs that were stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private_output: bool,
    /// Whether its calls send data out.
    #[serde(skip_serializing_if = "crate::json::is_default")]
    pub egress: Egress,
    /// Its calls send their words only to a service that the operator chose, as a search does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub to_service: bool,
    /// The operator wants to approve every call of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

impl Trust {
    /// The trust of most built-in tools.
    pub const BUILT_IN: Trust = Trust {
        built_in: true,
        untrusted_output: false,
        private_output: false,
        egress: Egress::No,
        to_service: false,
        approve: false,
    };

    /// The trust of a tool that shows data of this machine: private, and untrusted too, as others may have written
    /// it.
    pub const LOCAL_DATA: Trust = Trust { untrusted_output: true, private_output: true, ..Trust::BUILT_IN };

    /// Whether its calls send any data from this machine.
    pub fn sends_out(&self) -> bool {
        self.to_service || self.egress != Egress::No
    }
}

/// Where the cause of a failure lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// In the call's arguments: the same call fails again.
    Asked,
    /// In the tool or one of its dependencies: another try may work.
    Tool,
}

impl Cause {
    /// The advice that a model gets after a failure.
    pub fn advice(self) -> &'static str {
        match self {
            Cause::Asked => {
                "The cause lies in what was asked: call it with other arguments, or ask the person to change the request."
            }
            Cause::Tool => "It does not work now: go on without it, and say what is missing.",
        }
    }
}

/// A tool as models, policies and users see it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name, unique in a registry.
    pub name: String,
    /// Its purpose, and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The JSON Schema of its result, where it promises one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether a call may run again after a crash or a timeout.
    #[serde(default)]
    pub class: EffectClass,
    /// How long one call may take.
    pub timeout_ms: u64,
    /// The properties that the policy trusts or distrusts it by.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub trust: Trust,
    /// Whether its calls get the caller's metadata of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_context: bool,
    /// The configured service that it comes from; none: it is part of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// The name of the tool that asks the user. The flow itself performs it, by waiting.
pub const ASK_USER: &str = "ask_user";
/// The name of the tool that writes a plan down.
pub const UPDATE_PLAN: &str = "update_plan";
/// The name of the tool that searches the web.
pub const WEB_SEARCH: &str = "web_search";
/// The tools that show more of a long output that was stored.
pub const BLOB_TOOLS: [&str; 2] = ["read_blob", "search_blob"];
