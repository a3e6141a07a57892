//! Cancels a run whose caller disconnects, if the caller asked for that.

use baton_core::id::{RunId, Tenant};
use baton_engine::Engine;

/// Cancels a run when it is dropped, unless the caller stayed to the end.
pub(crate) struct CancelOnDrop {
    cancels: Option<(Engine, Tenant, RunId)>,
}

impl CancelOnDrop {
    /// Dropping it cancels the run.
    pub(crate) fn cancels(engine: &Engine, tenant: &Tenant, run: RunId) -> CancelOnDrop {
        CancelOnDrop { cancels: Some((engine.clone(), tenant.clone(), run)) }
    }

    /// The caller got everything: there is nothing to cancel.
    pub(crate) fn stays(mut self) {
        self.cancels = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some((engine, tenant, run)) = self.cancels.take() else { return };
        // Without a runtime the process is ending, and the process that takes the run over does not learn of it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tracing::info!(%run, "the caller went away: the run is cancelled");
            if let Err(error) = engine.cancel(&tenant, run).await {
                tracing::warn!(%run, %error, "a run whose caller went away could not be cancelled");
            }
        });
    }
}
