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

use super::client::{RequestError, ServiceClient, ServiceResponse};
use super::response::parse_result;
use crate::tool::{CallContext, Output, Tool, ToolError};

/// The header that carries the run's metadata to a tool that requires context: JSON, in ASCII.
pub const CONTEXT_HEADER: &str = "x-baton-context";

/// The longest metadata that is sent that way, in bytes.
const MAX_CONTEXT: usize = 4096;
/// The largest response that is read.
const MAX_RESPONSE: usize = 16 << 20;
/// How long a call with effects still waits for its response once it should stop: a known outcome is better than an
/// unknown one.
const LINGER: Duration = Duration::from_secs(2);
/// The service's own limit ends this much before ours, so that its answer still arrives.
const MARGIN_MS: u64 = 1000;

/// See the module.
pub(super) struct RemoteTool {
    connection: Arc<ServiceClient>,
    /// Its name at the service.
    remote_name: Arc<str>,
    spec: ToolSpec,
}

#[derive(Serialize)]
struct RemoteCall<'a> {
    tool_name: &'a str,
    arguments: &'a Value,
    timeout: f64,
}

impl RemoteTool {
    pub(super) fn new(connection: &Arc<ServiceClient>, remote_name: String, spec: ToolSpec) -> RemoteTool {
        RemoteTool { connection: Arc::clone(connection), remote_name: remote_name.into(), spec }
    }
}

impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        let (connection, remote_name) = (Arc::clone(&self.connection), Arc::clone(&self.remote_name));
        let is_free = self.spec.class == EffectClass::SideEffectFree;
        let margin = (self.spec.timeout_ms / 10).min(MARGIN_MS);
        let timeout = Duration::from_millis(self.spec.timeout_ms - margin).as_secs_f64();
        let headers = match self.spec.requires_context {
            true => context_header(&context.metadata),
            false => Ok(HeaderMap::new()),
        };
        async move {
            let headers = headers?;
            let body =
                serde_json::to_vec(&RemoteCall { tool_name: &remote_name, arguments: &arguments, timeout });
            let body = body.map_err(|error| {
                ToolError::invalid_call(format!("The arguments cannot be written as JSON: {error}."))
            })?;
            let posting =
                connection.post("/execute", &context.key, headers, body, MAX_RESPONSE, context.permit);
            let response = until_stopped(pin!(posting), &context.cancel, is_free).await?;
            parse_result(response, &connection)
        }
        .boxed()
    }

    fn asks_permit(&self) -> bool {
        true
    }
}

/// Waits for the response until a cancel; a while longer where the call may have taken effect.
async fn until_stopped(
    mut posting: Pin<&mut impl Future<Output = Result<ServiceResponse, RequestError>>>,
    cancel: &CancellationToken,
    is_free: bool,
) -> Result<ServiceResponse, ToolError> {
    let stopped = || ToolError::unknown("The call was stopped before the execution service answered.");
    tokio::select! {
        biased;
        response = &mut posting => return Ok(response?),
        () = cancel.cancelled() => {}
    }
    if is_free {
        return Err(stopped());
    }
    match timeout(LINGER, posting).await {
        Ok(response) => Ok(response?),
        Err(_elapsed) => Err(stopped()),
    }
}

/// The header with the run's metadata.
fn context_header(metadata: &Value) -> Result<HeaderMap, ToolError> {
    let text = ascii_json(&metadata.to_string());
    let value = HeaderValue::from_str(&text).ok().filter(|_| text.len() <= MAX_CONTEXT);
    let value = value.ok_or_else(|| {
        ToolError::invalid_call(format!(
            "This tool is told what the caller said of the run, and that is longer than {MAX_CONTEXT} bytes."
        ))
    })?;
    Ok(HeaderMap::from_iter([(HeaderName::from_static(CONTEXT_HEADER), value)]))
}

/// JSON that any header can carry: everything beyond ASCII is escaped.
fn ascii_json(json: &str) -> String {
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
