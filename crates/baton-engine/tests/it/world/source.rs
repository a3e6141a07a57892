//! A tool that reads content: it takes any arguments, as a search or a page does.

use std::sync::Arc;

use baton_core::tool::{EffectClass, ToolSpec, Trust};
use baton_tools::{CallContext, Output, Tool, ToolError};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::Ledger;

struct Source {
    spec: ToolSpec,
    ledger: Arc<Ledger>,
}

/// A tool that records its call and then holds until the gate opens.
pub(crate) fn source(name: &str, class: EffectClass, trust: Trust, ledger: &Arc<Ledger>) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: "a source of the tests".to_owned(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class,
        timeout_ms: 60_000,
        trust,
        ..ToolSpec::default()
    };
    Arc::new(Source { spec, ledger: ledger.clone() })
}

impl Tool for Source {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, _: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        let (ledger, spec) = (self.ledger.clone(), self.spec.clone());
        Box::pin(async move {
            ledger.note(&context.key, &spec.name, spec.class);
            tokio::select! {
                () = ledger.held() => Ok(Output::Text("what a source said".to_owned())),
                () = context.cancel.cancelled() => Err(ToolError::new("stopped")),
            }
        })
    }
}
