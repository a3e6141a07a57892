//! The tools of the execution service: asked for at the start, and then regularly.
//!
//! The last offer stays while the service is down, so that a run finds its tool again when it is back. The registry is
//! made anew only when the offer has changed, by the same function that made the first one.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_engine::Engine;
use baton_store::StoreError;
use baton_tools::execution::{self, ExecutionService, PIN_PREFIX, ServiceOptions, ToolOffer};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::wait;
use crate::app::App;
use crate::config::{Config, ExecutionSetting};
use crate::failure::Failure;
use crate::open;

/// How soon a service that is down is asked again, at first.
const AGAIN: Duration = Duration::from_secs(2);

/// The configured service.
pub(super) fn service(setting: &ExecutionSetting) -> Result<ExecutionService, Failure> {
    let token = super::token("services.execution", &setting.token)?;
    let options = ServiceOptions { url: setting.url.clone(), token, timeout: setting.timeout };
    ExecutionService::new(options).map_err(|error| Failure::usage(format!("the execution service: {error}")))
}

/// See the module.
pub(super) struct Discovery {
    service: ExecutionService,
    engine: Engine,
    config: Config,
    refresh: Duration,
    /// The last offer; none: the service never answered.
    offer: Option<ToolOffer>,
    is_down: bool,
    /// Warnings that were logged, so that they are not repeated.
    said: BTreeSet<String>,
}

impl Discovery {
    /// For the configured service, if there is one.
    pub(super) fn new(app: &App) -> Result<Option<Discovery>, Failure> {
        let Some(setting) = &app.config.services.execution else { return Ok(None) };
        Ok(Some(Discovery {
            service: service(setting)?,
            engine: app.engine.clone(),
            config: app.config.clone(),
            refresh: setting.refresh,
            offer: None,
            is_down: false,
            said: BTreeSet::new(),
        }))
    }

    /// Asks for the tools, and installs them if they have changed.
    pub(super) async fn look(&mut self) {
        match self.service.discover().await {
            Ok(offer) => {
                if std::mem::take(&mut self.is_down) {
                    tracing::warn!("the execution service answers again");
                }
                match self.accepted(offer).await {
                    Ok(offer) if self.offer.as_ref() != Some(&offer) => {
                        self.install(&offer);
                        self.offer = Some(offer);
                    }
                    Ok(_) => {}
                    // The accepted tools are not known: those in place stay.
                    Err(error) => {
                        tracing::warn!(why = %error, "the tools of the execution service stay as they are")
                    }
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_down, true) {
                    tracing::warn!(why = %error, "the execution service does not give out its tools; it is asked again");
                }
            }
        }
    }

    /// The tools of an offer that match their accepted form. New ones are accepted as they are.
    async fn accepted(&self, offer: ToolOffer) -> Result<ToolOffer, StoreError> {
        let store = self.engine.store();
        let (offer, new) = execution::apply_pins(offer, &store.remembered(PIN_PREFIX).await?);
        for pin in new {
            store.remember(&pin).await?;
        }
        Ok(offer)
    }

    /// Asks at once, reports when that is done, and asks again until the process ends: at the configured interval, and
    /// more often while the service is down.
    pub(super) async fn keep_up(mut self, closing: CancellationToken, looked: oneshot::Sender<()>) {
        if closing.run_until_cancelled(self.look()).await.is_none() {
            return;
        }
        let _ = looked.send(()); // the start may have stopped waiting
        let mut again = AGAIN;
        loop {
            let pause = if self.is_down { again.min(self.refresh) } else { self.refresh };
            if !wait(pause, &closing).await {
                return;
            }
            // A process that ends does not wait for the service.
            if closing.run_until_cancelled(self.look()).await.is_none() {
                return;
            }
            again = if self.is_down { again * 2 } else { AGAIN };
        }
    }

    fn install(&mut self, offer: &ToolOffer) {
        let mut left_out = Vec::new();
        let patience = |name: &str| self.config.web.tools.get(name).and_then(|(said, _)| said.timeout_ms);
        let more = |is_taken: &dyn Fn(&str) -> bool| {
            let (tools, unusable) = self.service.tools(offer, is_taken, &patience);
            left_out = unusable;
            tools
        };
        let test_tools = cfg!(feature = "failpoints");
        let made = open::registry_with(self.engine.store(), &self.config, test_tools, more);
        let registry = match made {
            Ok(registry) => registry,
            Err(failure) => {
                tracing::warn!(why = failure.message, "the tools of the execution service cannot be used");
                return;
            }
        };
        for left_out in left_out {
            if self.said.insert(format!("{}: {}", left_out.name, left_out.why)) {
                tracing::warn!(
                    tool = left_out.name,
                    why = left_out.why,
                    "a tool of the execution service is left out"
                );
            }
        }
        for (name, (said, _)) in &self.config.web.tools {
            let is_off = said.enabled == Some(false);
            if !is_off && registry.get(name).is_none() && self.said.insert(name.clone()) {
                tracing::warn!(tool = name, "[tools.{name}] is about a tool that nobody has");
            }
        }
        tracing::info!(tools = offer.specs.len(), "the tools of the execution service are in place");
        self.engine.set_tools(registry);
    }
}
