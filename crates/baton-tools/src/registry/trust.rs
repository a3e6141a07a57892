//! The operator's settings for a tool, which override the tool's own spec.
//!
//! A tool with overrides is wrapped, so that every reader of its spec sees the same. Its calls and its effect class
//! stay its own.

use std::sync::Arc;

use baton_core::tool::{EffectClass, Egress, ToolSpec};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::tool::{CallContext, Output, Tool, ToolError};

/// The operator's settings for one tool; a field that is left out keeps the tool's own value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrustOverride {
    /// Whether the tool exists at all.
    pub enabled: Option<bool>,
    /// Whether its output was written by strangers.
    pub untrusted_output: Option<bool>,
    /// Whether its output is private data.
    pub private_output: Option<bool>,
    /// Whether its calls send data out.
    pub egress: Option<bool>,
    /// Whether every call of it needs an approval.
    pub approve: Option<bool>,
    /// How long one call may take.
    pub timeout_ms: Option<u64>,
}

impl TrustOverride {
    /// The tool with these settings; none if they disable it.
    pub(super) fn apply_to(self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        if self.enabled == Some(false) {
            return None;
        }
        let mut spec = tool.spec().clone();
        let trust = &mut spec.trust;
        trust.untrusted_output = self.untrusted_output.unwrap_or(trust.untrusted_output);
        trust.private_output = self.private_output.unwrap_or(trust.private_output);
        trust.approve = self.approve.unwrap_or(trust.approve);
        if let Some(sends) = self.egress {
            trust.egress = if sends { Egress::Yes } else { Egress::No };
            trust.to_service = false;
        }
        spec.timeout_ms = self.timeout_ms.unwrap_or(spec.timeout_ms);
        Some(Arc::new(OverriddenTool { spec, tool }))
    }
}

struct OverriddenTool {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

impl Tool for OverriddenTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        self.tool.call(arguments, context)
    }

    fn class(&self, arguments: &Value) -> EffectClass {
        self.tool.class(arguments)
    }

    fn asks_permit(&self) -> bool {
        self.tool.asks_permit()
    }
}
