//! Calling a tool: with its exact arguments, under the current policy, and only while the run is held.

use std::path::PathBuf;
use std::task::Poll;

use baton_core::effect::{EffectKind, Outcome, ToolOutcome};
use baton_core::id::EffectId;
use baton_core::thread::{Closing, Entry};
use baton_core::tool::{BLOB_TOOLS, EffectClass};
use baton_store::failpoint::point;
use baton_store::{Intent, Slice, StoreError};
use baton_tools::{CallContext, ToolCallResult};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::found::RESULTS_PAGE;
use super::hold::{Held, Hold};
use super::{Performer, given_up};
use crate::patience::patiently;
use crate::spans::CallSpan;

impl Performer {
    /// Calls a tool; none: it may not be called twice, and another process may own the run by now.
    pub(super) async fn call(
        &self,
        intent: &Intent,
        cancel: &CancellationToken,
        span: &CallSpan,
        hold: Hold,
    ) -> Option<Outcome> {
        let EffectKind::Tool { call_id, name, entry, class, edited_by, .. } = &intent.effect.kind else {
            return Some(Outcome::Unknown);
        };
        if (self.denied_now)(name) {
            let (status, why) = self.definition.decision.refusal(name);
            return Some(unrun(intent, status, why));
        }
        let arguments = match self.arguments(*entry, edited_by.as_deref()).await {
            Ok(arguments) => arguments,
            Err(error) => {
                let why = format!("it could not be started: {error}");
                return Some(unrun(intent, Closing::Error, why));
            }
        };
        let effect = EffectId { run: self.run, path: self.path.clone(), n: intent.effect.n };
        let tools = (self.tools)();
        let tool = tools.get(name);
        let wants_context = tool.is_some_and(|tool| tool.spec().requires_context);
        let asks_by_itself = tool.is_some_and(|tool| tool.asks_permit());
        let held = match class.may_run_again() {
            true => Held::freely(),
            false => Held::once(&self.shared, &self.tenant, self.run, hold),
        };
        let context = CallContext {
            call_id: call_id.clone(),
            key: effect.to_string(),
            cancel: cancel.clone(),
            roots: self.definition.roots.iter().map(PathBuf::from).collect(),
            tenant: self.tenant.clone(),
            metadata: if wants_context { self.metadata.clone() } else { Value::Null },
            permit: held.permit.clone(),
        };
        span.called(&arguments, self.settings.telling);
        let shows_private = self.shows_private(name, &arguments, *entry).await;
        point("tool.post_intent");
        if !asks_by_itself && !held.permit.holds().await {
            return None;
        }
        point("tool.pre_send");
        let mut call = Box::pin(tools.call(name, arguments, context));
        let ran = match futures_util::poll!(&mut call) {
            Poll::Ready(ran) => ran,
            Poll::Pending => {
                point("tool.post_send");
                call.await
            }
        };
        if held.is_lost() {
            return None; // the loss was noticed with the connection in hand
        }
        let outcome = ToolOutcome { private: shows_private, ..ran.outcome };
        Some(self.ran(name, ToolCallResult { outcome, ..ran }, *class, cancel).await)
    }

    /// Whether a call shows more of a long output that is private. It is as private as the result on this branch that
    /// it was kept for; an output that is not found there counts as private.
    async fn shows_private(&self, name: &str, arguments: &Value, entry: i64) -> bool {
        if !BLOB_TOOLS.contains(&name) {
            return false;
        }
        let hash = arguments.get("hash").and_then(Value::as_str).unwrap_or_default();
        let slice = Slice { before: Some(entry), last_n: Some(RESULTS_PAGE) };
        let read = || Box::pin(self.store.entries(&self.tenant, &self.thread, Some(&self.branch), slice));
        let found = patiently!(self, read()).unwrap_or_default();
        let kept = found.iter().rev().find_map(|placed| match &placed.entry {
            Entry::ToolResult(result) if result.blob.as_ref().is_some_and(|blob| blob.hash == hash) => {
                Some(result.private)
            }
            _ => None,
        });
        kept.unwrap_or(true)
    }

    async fn ran(
        &self,
        name: &str,
        mut ran: ToolCallResult,
        class: EffectClass,
        cancel: &CancellationToken,
    ) -> Outcome {
        point("tool.post_reply");
        // The run's pinned definition may trust a tool that is no longer trusted.
        let trust = (self.tools)().get(name).map(|tool| tool.spec().trust).unwrap_or_default();
        ran.outcome.untrusted = trust.untrusted_output;
        ran.outcome.private |= trust.private_output;
        let failed = ran.outcome.status == Closing::Error;
        if ran.timed_out && !class.may_run_again() && !ran.before_start {
            return Outcome::Unknown;
        }
        if failed && cancel.is_cancelled() {
            return Outcome::Stopped { shown: String::new(), used: None };
        }
        if let (Some(bytes), Some(blob)) = (ran.blob, &ran.outcome.blob)
            && let Err(error) = patiently!(
                self,
                Box::pin(self.store.put_blob(&self.tenant, &blob.hash, bytes.clone(), self.clock.now()))
            )
        {
            tracing::warn!(run = %self.run, %error, "a long result could not be kept whole");
            return Outcome::Tool(ToolOutcome { blob: None, ..ran.outcome });
        }
        Outcome::Tool(ran.outcome)
    }

    /// The exact arguments of a call: those that a user's edit put in their place, or the entry's.
    pub(crate) async fn arguments(&self, entry: i64, edited_by: Option<&str>) -> Result<Value, StoreError> {
        if let Some(approval) = edited_by {
            return Ok(patiently!(self, Box::pin(self.store.approval(&self.tenant, approval)))?.args);
        }
        let known = self.recent.look(entry, entry, |entries| entries.first().cloned()).flatten();
        if let Some(Entry::ToolCall(call)) = known {
            return Ok(call.arguments);
        }
        let slice = Slice { before: Some(entry + 1), last_n: Some(1) };
        let read = || Box::pin(self.store.entries(&self.tenant, &self.thread, Some(&self.branch), slice));
        let found = patiently!(self, read())?.pop();
        match found.map(|placed| placed.entry) {
            Some(Entry::ToolCall(call)) => Ok(call.arguments),
            _ => Err(StoreError::Corrupt {
                what: "entry",
                id: format!("{}[{entry}]", self.thread),
                why: "expected a ToolCall".to_owned(),
            }),
        }
    }
}

/// The outcome of a tool that could not be reached. After a crash an earlier attempt may have reached it: then it is
/// given up.
fn unrun(intent: &Intent, status: Closing, why: String) -> Outcome {
    match intent.attempt {
        0 | 1 => Outcome::Tool(ToolOutcome::unrun(status, why)),
        _ => given_up(&intent.effect.kind),
    }
}
