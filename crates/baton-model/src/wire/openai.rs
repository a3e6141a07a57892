//! What the two formats that OpenAI made have in common.

use baton_core::chat::TokenUsage;
use baton_core::fault::{Code, Fault};
use baton_core::tool::ToolSpec;
use serde_json::{Value, json};

use super::body::RequestBody;
use super::json::BorrowedJson;
use super::{Wire, WireRequest};
use crate::port::{Delta, ToolChoice};

/// The most calls that are kept track of while an answer is read. It only bounds what is remembered: how
/// many calls an answer may have is for [`crate::ReplyCollector`] to say, which is fed what was read and has
/// given up long before.
pub(super) const MAX_TRACKED_CALLS: usize = 1024;

/// A call keeps the number that its server gives it only if that is below this. Otherwise it is counted on
/// from those before it, so that there always is a next number.
pub(super) const INDEX_LIMIT: u32 = 1024;

/// An answer that begins more of them than that.
pub(super) fn too_many_calls() -> Fault {
    Fault::new(Code::LlmInvalidResponse, "the model's answer begins calls without end")
}

/// Puts in what both have under the same names: how freely words are chosen, the tools, and whether one
/// has to be called. What both say of a tool is given to `tool`, which makes it the format's own.
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

/// A text that is there and says something.
pub(super) fn text<'a>(value: &'a BorrowedJson<'_>) -> Option<&'a str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// What was used, if it says so. The fields are for what was read and what was written.
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
