//! The progress of one model call, and its usage: as its provider reports it, else as it is estimated here.

use std::sync::Arc;

use baton_core::chat::{ChatMessage, TokenUsage};
use baton_core::tool::ToolSpec;
use baton_model::{Model, ModelRequest, ReplyCollector};
use serde_json::Value;

/// The bytes that count as one token where no better count exists.
const BYTES_A_TOKEN: usize = 4;

/// About how many tokens a request has, at four bytes each: used where no better count exists.
pub(super) fn about_tokens(request: &ModelRequest) -> u64 {
    tokens(request.messages.iter().map(|message| message.content.len()).sum())
}

fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_A_TOKEN) as u64
}

/// The progress of one model call.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) collector: ReplyCollector,
    pub(super) model: Option<Arc<dyn Model>>,
    /// The bytes of the messages that it was given to read.
    read: usize,
    /// The tools that it was offered, which it reads, too.
    tools: Arc<[ToolSpec]>,
    /// Whether a piece of its answer was sent on.
    pub(super) seen: bool,
}

impl Asked {
    pub(super) fn begin(&mut self, model: Arc<dyn Model>, request: &ModelRequest) {
        self.read = request.messages.iter().map(message_bytes).sum();
        self.tools = request.tools.clone();
        self.model = Some(model);
    }

    pub(super) fn shown(&self) -> String {
        if self.seen { self.collector.text().to_owned() } else { String::new() }
    }

    /// The usage of a call that did not end well: as its provider reported it, else an estimate of the tokens read and
    /// written, else none.
    pub(super) fn used(&self) -> Option<TokenUsage> {
        let model = self.model.as_deref()?;
        let told = self.collector.usage();
        if told != TokenUsage::default() {
            return Some(self.completed(model, told));
        }
        self.has_written().then(|| self.estimated(model, told))
    }

    /// The usage of an answer that ended well. A model without a wire protocol that reports no usage used nothing.
    pub(super) fn used_in_all(&self) -> TokenUsage {
        let told = self.collector.usage();
        self.model.as_deref().map_or(told, |model| self.completed(model, told))
    }

    /// A reported usage, with missing parts estimated: a provider that was called over a wire always reads something.
    fn completed(&self, model: &dyn Model, told: TokenUsage) -> TokenUsage {
        let is_whole = told.prompt_tokens > 0 && (told.completion_tokens > 0 || !self.has_written());
        if is_whole || model.wire().is_empty() { told } else { self.estimated(model, told) }
    }

    fn estimated(&self, model: &dyn Model, told: TokenUsage) -> TokenUsage {
        let either = |told: u64, estimate: &dyn Fn() -> u64| if told > 0 { told } else { estimate() };
        let prompt_tokens = either(told.prompt_tokens, &|| self.prompt_estimate());
        let completion_tokens = either(told.completion_tokens, &|| self.written_estimate(model));
        let usage = TokenUsage { prompt_tokens, completion_tokens, cost_micro_usd: None, estimated: true };
        TokenUsage { cost_micro_usd: model.cost(&usage), ..usage }
    }

    /// Whether the call has produced any output yet.
    fn has_written(&self) -> bool {
        self.seen || !self.collector.text().is_empty() || self.collector.bytes_beside_text() > 0
    }

    fn prompt_estimate(&self) -> u64 {
        let tool =
            |tool: &ToolSpec| tool.name.len() + tool.description.len() + json_bytes(&tool.input_schema);
        tokens(self.read + self.tools.iter().map(tool).sum::<usize>())
    }

    fn written_estimate(&self, model: &dyn Model) -> u64 {
        model.count(self.collector.text()) + tokens(self.collector.bytes_beside_text())
    }
}

/// The bytes of a message that a model reads: its text and its calls.
fn message_bytes(message: &ChatMessage) -> usize {
    let calls = message.tool_calls.iter().map(|call| call.name.len() + json_bytes(&call.arguments));
    message.content.len() + calls.sum::<usize>()
}

/// About how long a value is as JSON, without writing it.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| json_bytes(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + json_bytes(value)).sum::<usize>()
        }
    }
}
