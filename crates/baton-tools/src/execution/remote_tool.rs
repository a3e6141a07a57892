//! One tool of a service, as the registry calls it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use baton_core::tool::{EffectClass, ToolSpec};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::client::{Connection, RequestError, ServiceResponse};
use super::response::parse_result;
use crate::tool::{CallContext, Output, Tool, ToolError};

/// The header by which a tool that requires context is told what the caller said of the run: JSON, in ASCII.
pub const CONTEXT_HEADER: &str = "x-baton-context";

/// The most that is told that way, in bytes.
const MOST_CONTEXT: usize = 4096;
/// The largest answer that is read.
const MOST_BYTES: usize = 16 << 20;
/// How long the answer to a call with effects is waited for once it should stop: what is known is better than what
/// is not.
const LINGER: Duration = Duration::from_secs(2);
/// The service's own limit ends this much before ours, so that its answer still arrives.
const MARGIN_MS: u64 = 1000;

/// See the module.
pub(super) struct RemoteTool {
    connection: Arc<Connection>,
    /// What the service calls it.
    called: Arc<str>,
    spec: ToolSpec,
}

#[derive(Serialize)]
struct RemoteCall<'a> {
    tool_name: &'a str,
    arguments: &'a Value,
    timeout: f64,
}

impl RemoteTool {
    pub(super) fn new(connection: &Arc<Connection>, called: String, spec: ToolSpec) -> RemoteTool {
        RemoteTool { connection: Arc::clone(connection), called: called.into(), spec }
    }
}

impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        let (connection, called) = (Arc::clone(&self.connection), Arc::clone(&self.called));
        let is_free = self.spec.class == EffectClass::SideEffectFree;
        let margin = (self.spec.timeout_ms / 10).min(MARGIN_MS);
        let timeout = Duration::from_millis(self.spec.timeout_ms - margin).as_secs_f64();
        let more = match self.spec.requires_context {
            true => told(&context.metadata),
            false => Ok(HeaderMap::new()),
        };
        async move {
            let more = more?;
            let body = serde_json::to_vec(&RemoteCall { tool_name: &called, arguments: &arguments, timeout });
            let body = body.map_err(|error| {
                ToolError::asked(format!("The arguments cannot be written as JSON: {error}."))
            })?;
            let posting = connection.post("/execute", &context.key, more, body, MOST_BYTES, context.permit);
            let asking = pin!(posting);
            let answer = until_stopped(asking, &context.cancel, is_free).await?;
            parse_result(answer, &connection)
        }
        .boxed()
    }
}

/// Waits for an answer; a while longer where the call may have taken effect.
async fn until_stopped(
    mut asking: Pin<&mut impl Future<Output = Result<ServiceResponse, RequestError>>>,
    cancel: &CancellationToken,
    is_free: bool,
) -> Result<ServiceResponse, ToolError> {
    let stopped = || ToolError::unknown("The call was stopped before the execution service answered.");
    tokio::select! {
        biased;
        answer = &mut asking => return Ok(answer?),
        () = cancel.cancelled() => {}
    }
    if is_free {
        return Err(stopped());
    }
    match timeout(LINGER, asking).await {
        Ok(answer) => Ok(answer?),
        Err(_elapsed) => Err(stopped()),
    }
}

/// What a tool is told of the run.
fn told(metadata: &Value) -> Result<HeaderMap, ToolError> {
    let text = ascii(&metadata.to_string());
    let value = HeaderValue::from_str(&text).ok().filter(|_| text.len() <= MOST_CONTEXT);
    let value = value.ok_or_else(|| {
        ToolError::asked(format!(
            "This tool is told what the caller said of the run, and that is longer than {MOST_CONTEXT} bytes."
        ))
    })?;
    Ok(HeaderMap::from_iter([(HeaderName::from_static(CONTEXT_HEADER), value)]))
}

/// JSON that any header can carry: beyond ASCII, everything is escaped.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if (' '..='~').contains(&letter) {
            text.push(letter);
        } else {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}
