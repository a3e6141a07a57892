//! The names of spans and attributes, pinned to one version of OpenTelemetry's conventions.

use baton_core::chat::FinishReason;
use baton_core::thread::Closing;

/// The version of the conventions that the names follow: the last one of the common registry that has those for
/// generative AI.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

// Properties of a span, beside its attributes.

/// The trace: 32 hexadecimal digits.
pub const TRACE_ID: &str = "otel.trace_id";
/// The span: 16 hexadecimal digits.
pub const SPAN_ID: &str = "otel.span_id";
/// The span's parent.
pub const PARENT_SPAN_ID: &str = "otel.parent_span_id";
/// A span of the same trace that this one continues.
pub const LINK_SPAN_ID: &str = "otel.link_span_id";
/// Its name.
pub const NAME: &str = "otel.name";
/// Its kind: [`INTERNAL`] or [`CLIENT`].
pub const KIND: &str = "otel.kind";
/// When it began, in nanoseconds since 1970, if that was before it was made.
pub const SINCE: &str = "otel.since";

/// Work of this process.
pub const INTERNAL: &str = "internal";
/// A request to another service.
pub const CLIENT: &str = "client";

// The conventions' attributes.

/// The operation: `invoke_agent`, `chat` or `execute_tool`.
pub const OPERATION: &str = "gen_ai.operation.name";
/// The name of the agent.
pub const AGENT: &str = "gen_ai.agent.name";
/// The thread.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// The provider of the model.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The model that is called.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The most tokens that it may write.
pub const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// The sampling temperature.
pub const TEMPERATURE: &str = "gen_ai.request.temperature";
/// Whether the answer is streamed.
pub const STREAM: &str = "gen_ai.request.stream";
/// Why the model stopped. A list, of one here.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// The tokens that it read.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// The tokens that it wrote.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The instructions. Content.
pub const SYSTEM: &str = "gen_ai.system_instructions";
/// The messages to the model. Content.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// The model's answer. Content.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// The name of the tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The id of the call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The kind of tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The arguments of the call. Content.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// The result of the call. Content.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";
/// The host that is called.
pub const SERVER_ADDRESS: &str = "server.address";
/// Its port.
pub const SERVER_PORT: &str = "server.port";
/// The kind of failure: a code, never its message.
pub const ERROR_TYPE: &str = "error.type";

// Our own.

/// The run.
pub const RUN_ID: &str = "baton.run.id";
/// The number of the claim.
pub const EPOCH: &str = "baton.epoch";
/// The mode that the caller allowed.
pub const MODE: &str = "baton.mode";
/// The channel of the request.
pub const CHANNEL: &str = "baton.channel";
/// The status of the run.
pub const STATUS: &str = "baton.status";
/// The role in which a model was called.
pub const ROLE: &str = "baton.model_role";
/// The try of an effect: another one follows only a crash.
pub const ATTEMPT: &str = "baton.attempt";
/// The result of a call that neither worked nor failed.
pub const OUTCOME: &str = "baton.outcome";
/// The number of the transition.
pub const STEP: &str = "baton.step";
/// The kind of answer that the user is asked for.
pub const WAITING_FOR: &str = "baton.waiting.kind";
/// The approval or the call that waits.
pub const WAITING_ID: &str = "baton.waiting.id";

/// The name of a run's span.
pub const RUN: &str = "invoke_agent baton";
/// The agent's name.
pub const AGENT_NAME: &str = "baton";
/// The error of a call that ended before its outcome was known.
pub const INTERRUPTED: &str = "interrupted";

/// A finish reason as the conventions name it.
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
