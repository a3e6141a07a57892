//! The headers that name the run of an answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::trace::TraceParent;
use baton_engine::{Engine, RunHandle, correlation_of, trace_id_of};
use baton_store::{RunRow, StoreError};

/// The run.
pub(crate) const RUN: HeaderName = HeaderName::from_static("x-run-id");
/// Its thread.
pub(crate) const THREAD: HeaderName = HeaderName::from_static("x-thread-id");
/// The trace that it is part of.
pub(crate) const TRACE: HeaderName = HeaderName::from_static("x-trace-id");
/// The correlation id.
pub(crate) const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunHeaders {
    pub(crate) run: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) trace_id: String,
    pub(crate) correlation: String,
}

impl RunHeaders {
    /// The headers of a run that this process has just begun: they need no read of the store.
    pub(super) fn started(
        handle: &RunHandle,
        correlation: Option<String>,
        parent: Option<&TraceParent>,
    ) -> RunHeaders {
        let run = handle.run;
        RunHeaders {
            run,
            thread: handle.thread.clone(),
            trace_id: parent.map_or_else(|| run.trace_id(), |parent| parent.trace_id.clone()),
            correlation: correlation.unwrap_or_else(|| run.to_string()),
        }
    }

    /// The headers of a run that was read.
    pub(crate) fn of(row: &RunRow) -> RunHeaders {
        let (trace_id, correlation) = (trace_id_of(row), correlation_of(row));
        RunHeaders { run: row.id, thread: row.thread.clone(), trace_id, correlation }
    }

    /// Reads the headers of a run by its id.
    pub(crate) async fn read(engine: &Engine, tenant: &Tenant, run: RunId) -> Result<RunHeaders, StoreError> {
        Ok(RunHeaders::of(&engine.store().run(tenant, run).await?))
    }

    /// Puts the headers on a response.
    pub(crate) fn on(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        let texts = [
            (RUN, self.run.to_string()),
            (THREAD, self.thread.to_string()),
            (TRACE, self.trace_id.clone()),
            (CORRELATION, self.correlation.clone()),
        ];
        for (name, text) in texts {
            // A value that another program stored may not fit into a header, and is left out.
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The span that a request was made in. An unreadable header is ignored, as the standard says.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut given = headers.get_all("traceparent").iter();
    let only = given.next().filter(|_| given.next().is_none())?;
    only.to_str().ok()?.trim().parse().ok()
}
