//! The common parts of OpenAI's two formats.

use baton_core::chat::TokenUsage;
use baton_core::fault::{Code, Fault};
use baton_core::tool::ToolSpec;
use serde_json::{Value, json};

use super::body::RequestBody;
use super::json::BorrowedJson;
use super::{Wire, WireRequest};
use crate::port::{Delta, ToolChoice};

/// The most calls that a decoder tracks. It only bounds memory: [`crate::ReplyCollector`] limits the calls of an
/// answer, and has failed long before.
pub(super) const MAX_TRACKED_CALLS: usize = 1024;

/// The bound of a server's number of a call. A call with a larger one gets the next number, so that there always
/// is one.
pub(super) const INDEX_LIMIT: u32 = 1024;

/// The fault of an answer with more calls than are tracked.
pub(super) fn too_many_calls() -> Fault {
    Fault::new(Code::LlmInvalidResponse, "the model's answer begins calls without end")
}

/// Adds the fields that both formats share: temperature, tools, and whether one has to be called. `tool` turns
/// the common description of a tool into the format's own.
pub(super) fn common_body<'a>(
    call: &WireRequest<'a>,
    wire: Wire,
    mut body: Value,
    tool: impl Fn(Value) -> Value,
) -> RequestBody<'a> {
    let request = call.request;
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if request.tools.is_empty() {
        return RequestBody { fields: body, tools: None };
    }
    if request.tool_choice == ToolChoice::Required {
        body["tool_choice"] = "required".into();
    }
    let write = || request.tools.iter().map(|spec| tool(function(call, spec))).collect::<Value>();
    RequestBody { fields: body, tools: Some(call.names.offered.text(wire, &request.tools, write)) }
}

fn function(call: &WireRequest<'_>, spec: &ToolSpec) -> Value {
    json!({
        "name": call.names.to_provider(&spec.name),
        "description": spec.description,
        "parameters": parameters(&spec.input_schema),
    })
}

/// A tool's parameters. OpenAI refuses an object whose schema does not list its properties, even if it has
/// none.
fn parameters(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut()
        && fields.get("type").is_some_and(|kind| kind == "object")
    {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// A text that is not empty.
pub(super) fn text<'a>(value: &'a BorrowedJson<'_>) -> Option<&'a str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The usage, if it has counters. The fields are those of the tokens read and written.
pub(super) fn usage(usage: &BorrowedJson<'_>, fields: [&str; 2]) -> Option<Delta> {
    let [prompt, completion] = fields.map(|field| usage[field].as_u64());
    (prompt.is_some() || completion.is_some()).then(|| {
        Delta::Usage(TokenUsage {
            prompt_tokens: prompt.unwrap_or(0),
            completion_tokens: completion.unwrap_or(0),
            cost_micro_usd: None,
            estimated: false,
        })
    })
}
