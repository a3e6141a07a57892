//! What is known of a model call while it lasts, and what one that did not end well has used.

use std::sync::Arc;

use baton_core::chat::TokenUsage;
use baton_model::{Collector, Model, ModelRequest};

/// About how many tokens a request is to read. Four bytes are one: it is for where nobody else counts.
pub(super) fn about_tokens(request: &ModelRequest) -> u64 {
    let bytes: usize = request.messages.iter().map(|message| message.content.len()).sum();
    (bytes as u64).div_ceil(4)
}

/// What is known of a model call while it lasts.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) collector: Collector,
    pub(super) model: Option<Arc<dyn Model>>,
    /// What it was given to read, in tokens.
    read: u64,
    /// Whether a piece of its answer was sent on.
    pub(super) seen: bool,
}

impl Asked {
    pub(super) fn begin(&mut self, model: Arc<dyn Model>, request: &ModelRequest) {
        self.read = about_tokens(request);
        self.model = Some(model);
    }

    pub(super) fn shown(&self) -> String {
        if self.seen { self.collector.text().to_owned() } else { String::new() }
    }

    /// What a call that did not end well used: what its provider said, else a fair guess, else nothing.
    pub(super) fn used(&self) -> Option<TokenUsage> {
        let model = self.model.as_deref()?;
        let said = self.collector.usage();
        if said != TokenUsage::default() {
            return Some(said);
        }
        let text = self.collector.text();
        if text.is_empty() && !self.seen {
            return None;
        }
        let (prompt_tokens, completion_tokens) = (self.read, model.count(text));
        let guess = TokenUsage { prompt_tokens, completion_tokens, cost_micro_usd: None };
        Some(TokenUsage { cost_micro_usd: model.cost(&guess), ..guess })
    }
}
