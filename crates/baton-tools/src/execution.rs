//! The tools of a service that the operator named: found with `GET /tools`, called with `POST /execute`.
//!
//! The service is trusted as written, as a search service is: it does not pass the guard of [`crate::egress`]. Its own
//! token is sent to its own address only, redirects are errors, and of the caller of a run only the run's metadata is
//! passed on, to tools that require context ([`CONTEXT_HEADER`]).
//!
//! A failed call says how sure it is: [`ToolError::before_start`] where nothing was sent, [`ToolError::unknown`] where
//! it was sent and no whole response came. Nothing is retried here. Tools that cannot be used are left out of a list
//! and reported; the services of the binary decide how often the list is fetched.

mod client;
mod offer;
mod permitted_body;
mod pin;
mod remote_tool;
mod response;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::registry::Registry;
use crate::secret::Secret;
use crate::tool::{Tool, ToolError};
pub use client::{BadService, RequestError, ServiceClient, ServiceResponse};
pub use offer::{SkippedTool, ToolOffer};
pub use pin::{PIN_PREFIX, apply_pins, pin};
pub use remote_tool::CONTEXT_HEADER;
use remote_tool::RemoteTool;

/// The `service` of the specs of these tools.
pub const SERVICE: &str = "execution";

/// The prefix of a tool whose name another tool has already.
const PREFIX: &str = "exec.";
/// The timeout and the maximum size of a list of tools.
const LIST_TIME: Duration = Duration::from_secs(10);
const LIST_BYTES: usize = 4 << 20;

/// The settings of a service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Its address, as `http://127.0.0.1:8002`.
    pub url: String,
    /// Baton's own token for it.
    pub token: Option<Secret>,
    /// The timeout of a call, for tools that state none.
    pub timeout: Duration,
}

/// A service with tools. Cheap to clone; its connections are shared.
#[derive(Debug, Clone)]
pub struct ExecutionService {
    connection: Arc<ServiceClient>,
    timeout: Duration,
}

/// Why there is no list of tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiscoveryError(pub String);

impl ExecutionService {
    /// A service at an address. Nothing is sent yet.
    pub fn new(options: ServiceOptions) -> Result<ExecutionService, BadService> {
        let connection = Arc::new(ServiceClient::new(&options.url, options.token)?);
        Ok(ExecutionService { connection, timeout: options.timeout })
    }

    /// Fetches the list of tools.
    pub async fn discover(&self) -> Result<ToolOffer, DiscoveryError> {
        let late = |_| DiscoveryError(format!("it did not answer within {} s", LIST_TIME.as_secs()));
        let response = timeout(LIST_TIME, self.connection.get("/tools", LIST_BYTES)).await.map_err(late)?;
        let response = response.map_err(|error| DiscoveryError(error.to_string()))?;
        match response.status {
            200..=299 if response.is_cut => {
                Err(DiscoveryError(format!("its list of tools is longer than {} MiB", LIST_BYTES >> 20)))
            }
            200..=299 => {
                let list = self.connection.redacted(&String::from_utf8_lossy(&response.body));
                offer::read(list.as_bytes(), self.timeout).ok_or_else(|| {
                    DiscoveryError("what it answers is no list of tools: is this its address?".to_owned())
                })
            }
            300..=399 => Err(DiscoveryError(format!(
                "it redirects (status {}): name its final address",
                response.status
            ))),
            401 | 403 => {
                Err(DiscoveryError(format!("it does not accept our token (status {})", response.status)))
            }
            status => Err(DiscoveryError(format!("it answers with status {status}"))),
        }
    }

    /// The tools of an offer, and those that cannot be used. A tool whose name is taken is offered as `exec.NAME`;
    /// `timeout_of` gives the operator's timeout for a name, in milliseconds.
    pub fn tools(
        &self,
        offer: &ToolOffer,
        is_taken: &dyn Fn(&str) -> bool,
        timeout_of: &dyn Fn(&str) -> Option<u64>,
    ) -> (Vec<Arc<dyn Tool>>, Vec<SkippedTool>) {
        let (mut tools, mut skipped, mut names) = (Vec::new(), offer.skipped.clone(), BTreeSet::new());
        for spec in &offer.specs {
            let mut spec = spec.clone();
            let remote_name = spec.name.clone();
            if is_taken(&remote_name) {
                spec.name = format!("{PREFIX}{remote_name}");
            }
            if is_taken(&spec.name) || !names.insert(spec.name.clone()) {
                skipped.push(SkippedTool { name: spec.name, why: "another tool has this name".to_owned() });
                continue;
            }
            spec.timeout_ms = timeout_of(&spec.name).unwrap_or(spec.timeout_ms);
            let tool: Arc<dyn Tool> = Arc::new(RemoteTool::new(&self.connection, remote_name, spec));
            match Registry::new(vec![Arc::clone(&tool)]) {
                Ok(_) => tools.push(tool),
                Err(error) => {
                    skipped.push(SkippedTool { name: tool.spec().name.clone(), why: error.to_string() });
                }
            }
        }
        (tools, skipped)
    }
}

impl From<RequestError> for ToolError {
    fn from(error: RequestError) -> ToolError {
        match error {
            RequestError::NotSent(why) => ToolError::before_start(format!(
                "The execution service cannot be reached, and nothing was done: {why}."
            )),
            RequestError::Unsure(why) => ToolError::unknown(format!(
                "The execution service gave no answer, so nobody knows whether the call took effect: {why}."
            )),
        }
    }
}
