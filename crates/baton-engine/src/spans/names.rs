//! The names of spans and attributes, pinned to one version of OpenTelemetry's conventions.

use baton_core::chat::FinishReason;
use baton_core::thread::Closing;

/// The version of the conventions that the names are of: the last one of the common registry that has those
/// for generative AI.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

// What a span is, beside its attributes.

/// The trace: 32 hexadecimal digits.
pub const TRACE_ID: &str = "otel.trace_id";
/// The span: 16 hexadecimal digits.
pub const SPAN_ID: &str = "otel.span_id";
/// The span that it is a part of.
pub const PARENT_SPAN_ID: &str = "otel.parent_span_id";
/// A span of the same trace that it goes on with.
pub const LINK_SPAN_ID: &str = "otel.link_span_id";
/// Its name.
pub const NAME: &str = "otel.name";
/// Its kind: [`INTERNAL`] or [`CLIENT`].
pub const KIND: &str = "otel.kind";
/// When it began, in nanoseconds since 1970, if that was before it was made.
pub const SINCE: &str = "otel.since";

/// Work of our own.
pub const INTERNAL: &str = "internal";
/// A request to somebody else.
pub const CLIENT: &str = "client";

// The conventions' attributes.

/// What is done: `invoke_agent`, `chat` or `execute_tool`.
pub const OPERATION: &str = "gen_ai.operation.name";
/// Who works.
pub const AGENT: &str = "gen_ai.agent.name";
/// On which thread.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// Whose model is asked.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// Which model is asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// How much it may write.
pub const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// How freely it chooses its words.
pub const TEMPERATURE: &str = "gen_ai.request.temperature";
/// Whether the answer is streamed.
pub const STREAM: &str = "gen_ai.request.stream";
/// Why it stopped. A list, of one here.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// What it read.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// What it wrote.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The instructions. Content.
pub const SYSTEM: &str = "gen_ai.system_instructions";
/// What it was shown. Content.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// What it answered. Content.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// Which tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// Which call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// What kind of tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// What it was called with. Content.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// What it returned. Content.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";
/// The host that is asked.
pub const SERVER_ADDRESS: &str = "server.address";
/// Its port.
pub const SERVER_PORT: &str = "server.port";
/// What kind of failure it was: a code, never its words.
pub const ERROR_TYPE: &str = "error.type";

// Our own.

/// The run.
pub const RUN_ID: &str = "baton.run.id";
/// Which claim of the run.
pub const EPOCH: &str = "baton.epoch";
/// How much the caller allowed.
pub const MODE: &str = "baton.mode";
/// Where the request came in.
pub const CHANNEL: &str = "baton.channel";
/// How the run stands.
pub const STATUS: &str = "baton.status";
/// In which role a model was asked.
pub const ROLE: &str = "baton.model_role";
/// Which try of an effect it is: another one follows only a crash.
pub const ATTEMPT: &str = "baton.attempt";
/// What came of a call that neither worked nor failed.
pub const OUTCOME: &str = "baton.outcome";
/// Which transition.
pub const STEP: &str = "baton.step";
/// What kind of answer a person is asked for.
pub const WAITING_FOR: &str = "baton.waiting.kind";
/// The approval or the call that waits.
pub const WAITING_ID: &str = "baton.waiting.id";

/// The name of a run's span.
pub const RUN: &str = "invoke_agent baton";
/// How the agent is called.
pub const AGENT_NAME: &str = "baton";
/// The error of what ended before anybody knew what came of it.
pub const INTERRUPTED: &str = "interrupted";

/// A reason to stop as the conventions have it.
pub(crate) fn finish(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Length => "length",
        FinishReason::Refused => "content_filter",
    }
}

/// How a call was closed, as a kind of failure.
pub(crate) fn closing(status: Closing) -> &'static str {
    match status {
        Closing::Ok => "ok",
        Closing::Error => "tool_failed",
        Closing::Denied => "denied",
        Closing::Expired => "expired",
        Closing::Cancelled => "cancelled",
        Closing::Unknown => "unknown",
    }
}
