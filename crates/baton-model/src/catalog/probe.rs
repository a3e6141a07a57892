//! A probe of a model: whether it answers, how fast, and whether it has tools and structured output.
//!
//! Three small calls, each made as a run would make it. A failure is part of the result and not an error.

use std::sync::Arc;
use std::time::Duration;

use baton_core::chat::{ChatMessage, Role, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::tool::{EffectClass, ToolSpec};
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::Instant;

use super::Catalog;
use crate::collect::ReplyCollector;
use crate::port::{Delta, Model, ModelRequest, OutputSchema, ToolChoice};
use crate::respond::{respond, respond_json};

/// The token limit of each call, with room for a model that reasons before its first word.
const MAX_TOKENS: u64 = 1024;

/// The result of probing a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelProbe {
    /// The model's name as the caller gave it.
    pub model: String,
    /// The wire format that it speaks; empty: none, or unknown.
    pub wire: &'static str,
    /// Whether requests stay on this machine.
    pub is_local: bool,
    /// Whether it answers, and how fast.
    pub answer: Result<ProbeAnswer, Fault>,
    /// Whether it calls a tool when one is required.
    pub tools: ProbeFinding,
    /// Whether it answers in the requested JSON Schema.
    pub structured: ProbeFinding,
}

/// The measurements of a model's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The time up to the first piece.
    pub first: Duration,
    /// The time up to the last piece.
    pub total: Duration,
    /// The number of pieces of text; with one the answer was not streamed.
    pub pieces: usize,
    /// The tokens that it used.
    pub usage: TokenUsage,
}

/// The finding about one ability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeFinding {
    /// The model has the ability.
    Yes,
    /// The model does not have it; the text describes its answer.
    No(String),
    /// The call failed.
    Failed(Fault),
    /// There was no call, because the model does not answer at all.
    NotAsked,
}

impl Catalog {
    /// Probes a model with up to three calls.
    pub async fn probe(&self, name: &str) -> ModelProbe {
        let is_local = self.is_local(name).unwrap_or(false);
        let probe = |wire, answer| {
            let (tools, structured) = (ProbeFinding::NotAsked, ProbeFinding::NotAsked);
            ModelProbe { model: name.to_owned(), wire, is_local, answer, tools, structured }
        };
        let model = match self.model(name) {
            Ok(model) => model,
            Err(fault) => return probe("", Err(fault)),
        };
        match probe_answer(model.as_ref()).await {
            // The wire format may have been detected only by this call.
            Err(fault) => probe(model.wire(), Err(fault)),
            Ok(answered) => ModelProbe {
                tools: probe_tools(model.as_ref()).await,
                structured: probe_schema(model.as_ref()).await,
                ..probe(model.wire(), Ok(answered))
            },
        }
    }
}

async fn probe_answer(model: &dyn Model) -> Result<ProbeAnswer, Fault> {
    let began = Instant::now();
    let counting = question("Count from one to five, in words.");
    let mut stream = model.stream(ModelRequest { is_piecemeal: true, ..counting });
    let (mut collector, mut first, mut pieces) = (ReplyCollector::new(), None, 0);
    while let Some(delta) = stream.next().await {
        let delta = delta?;
        first.get_or_insert_with(|| began.elapsed());
        pieces += usize::from(matches!(delta, Delta::Text(_)));
        collector.push(&delta)?;
    }
    let total = began.elapsed();
    let usage = collector.finish()?.usage;
    Ok(ProbeAnswer { first: first.unwrap_or(total), total, pieces, usage })
}

async fn probe_tools(model: &dyn Model) -> ProbeFinding {
    let tool = ToolSpec {
        name: "report_colour".to_owned(),
        description: "Reports the colour that was asked for. Call it with colour: green.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["red", "green"]}},
            "required": ["colour"],
            "additionalProperties": false
        }),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1000,
        ..ToolSpec::default()
    };
    let name = tool.name.clone();
    let request = ModelRequest {
        tools: Arc::new([tool]),
        tool_choice: ToolChoice::Required,
        ..question("Report the colour green. Use the tool report_colour.")
    };
    match respond(model, request).await {
        Ok(reply) if reply.calls.iter().any(|call| call.name == name) => ProbeFinding::Yes,
        Ok(reply) if reply.calls.is_empty() => {
            ProbeFinding::No("it answered in words and called no tool".to_owned())
        }
        Ok(_) => ProbeFinding::No("it called a tool that there is not".to_owned()),
        Err(fault) => ProbeFinding::Failed(fault),
    }
}

async fn probe_schema(model: &dyn Model) -> ProbeFinding {
    let schema = json!({
        "type": "object",
        "properties": {"is_green": {"type": "boolean"}},
        "required": ["is_green"],
        "additionalProperties": false
    });
    let schema = Some(OutputSchema { name: "leaf".to_owned(), schema });
    let request = ModelRequest { schema, ..question("Is a leaf green in spring? Answer in JSON.") };
    match respond_json(model, request).await {
        Ok(_) => ProbeFinding::Yes,
        Err(fault) if fault.code == Code::LlmInvalidResponse => ProbeFinding::No(fault.message),
        Err(fault) => ProbeFinding::Failed(fault),
    }
}

fn question(text: &str) -> ModelRequest {
    let messages = vec![ChatMessage::text(Role::User, text)];
    ModelRequest { max_tokens: MAX_TOKENS, ..ModelRequest::new("router", messages) }
}
