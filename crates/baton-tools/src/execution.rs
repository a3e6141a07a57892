//! The tools of a service that the operator named: found with `GET /tools`, called with `POST /execute`.
//!
//! The service is trusted as written, as a search service is: it does not pass the guard of [`crate::egress`]. Its own
//! token is sent to its own address only, redirects are errors, and nothing of whoever asked for a run is passed on but
//! what a tool that requires context is told of the run ([`CONTEXT_HEADER`]).
//!
//! A call says how sure it is: [`ToolError::before_start`] where nothing was sent, [`ToolError::unknown`] where it was sent
//! and no whole answer came. Nothing is tried again here. What cannot be used of a list is left out and said; how
//! often a list is asked for is decided elsewhere.

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
pub use client::{BadService, Connection, RequestError, ServiceResponse};
pub use offer::{Offer, SkippedTool};
pub use pin::{PINS, accepted, pin};
pub use remote_tool::CONTEXT_HEADER;
use remote_tool::RemoteTool;

/// What the tools of a service say of where they come from.
pub const SERVICE: &str = "execution";

/// What is put before the name of a tool that somebody else has already.
const PREFIX: &str = "exec.";
/// How long a list of tools may take, and how long it may be.
const LIST_TIME: Duration = Duration::from_secs(10);
const LIST_BYTES: usize = 4 << 20;

/// Where a service is, and how it is called.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its address, as `http://127.0.0.1:8002`.
    pub url: String,
    /// Baton's own token for it.
    pub token: Option<Secret>,
    /// How long one call may take, where the tool says nothing.
    pub timeout: Duration,
}

/// A service with tools. Cheap to clone; its connections are shared.
#[derive(Debug, Clone)]
pub struct ExecutionService {
    connection: Arc<Connection>,
    timeout: Duration,
}

/// Why there is no list of tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoOffer(pub String);

impl ExecutionService {
    /// A service at an address. Nothing is sent yet.
    pub fn new(options: Options) -> Result<ExecutionService, BadService> {
        let connection = Arc::new(Connection::new(&options.url, options.token)?);
        Ok(ExecutionService { connection, timeout: options.timeout })
    }

    /// Asks which tools there are.
    pub async fn discover(&self) -> Result<Offer, NoOffer> {
        let late = |_| NoOffer(format!("it did not answer within {} s", LIST_TIME.as_secs()));
        let asked = timeout(LIST_TIME, self.connection.get("/tools", LIST_BYTES)).await.map_err(late)?;
        let answer = asked.map_err(|broken| NoOffer(broken.to_string()))?;
        match answer.status {
            200..=299 if answer.is_cut => {
                Err(NoOffer(format!("its list of tools is longer than {} MiB", LIST_BYTES >> 20)))
            }
            200..=299 => {
                let said = self.connection.redacted(&String::from_utf8_lossy(&answer.body));
                offer::read(said.as_bytes(), self.timeout).ok_or_else(|| {
                    NoOffer("what it answers is no list of tools: is this its address?".to_owned())
                })
            }
            300..=399 => {
                Err(NoOffer(format!("it redirects (status {}): name its final address", answer.status)))
            }
            401 | 403 => Err(NoOffer(format!("it does not accept our token (status {})", answer.status))),
            status => Err(NoOffer(format!("it answers with status {status}"))),
        }
    }

    /// The tools of an offer, and what of it cannot be used. A name that is taken is offered as `exec.NAME`; the
    /// operator may have said how long calls of a name may take, in milliseconds.
    pub fn tools(
        &self,
        offer: &Offer,
        is_taken: &dyn Fn(&str) -> bool,
        patience: &dyn Fn(&str) -> Option<u64>,
    ) -> (Vec<Arc<dyn Tool>>, Vec<SkippedTool>) {
        let (mut tools, mut skipped, mut names) = (Vec::new(), offer.skipped.clone(), BTreeSet::new());
        for spec in &offer.specs {
            let mut spec = spec.clone();
            let called = spec.name.clone();
            if is_taken(&called) {
                spec.name = format!("{PREFIX}{called}");
            }
            if is_taken(&spec.name) || !names.insert(spec.name.clone()) {
                skipped.push(SkippedTool { name: spec.name, why: "another tool has this name".to_owned() });
                continue;
            }
            spec.timeout_ms = patience(&spec.name).unwrap_or(spec.timeout_ms);
            let tool: Arc<dyn Tool> = Arc::new(RemoteTool::new(&self.connection, called, spec));
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
    fn from(broken: RequestError) -> ToolError {
        match broken {
            RequestError::NotSent(why) => ToolError::before_start(format!(
                "The execution service cannot be reached, and nothing was done: {why}."
            )),
            RequestError::Unsure(why) => ToolError::unknown(format!(
                "The execution service gave no answer, so nobody knows whether the call took effect: {why}."
            )),
        }
    }
}
