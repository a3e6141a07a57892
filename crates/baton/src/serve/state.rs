//! The state that every handler gets: the engine on its data, the models, authentication, and the limits. Cheap to
//! clone.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use baton_engine::Engine;
use baton_store::Store;
use tokio_util::sync::CancellationToken;

use super::admission::{AdmissionGate, RunPermit, StreamPermit};
use super::auth::{Auth, Caller};
use super::guard::Guard;
use super::health::Probe;
use super::limits::ServeLimits;
use super::metrics::Metrics;
use super::problem::Problem;
use super::space::{self, Space};
use crate::app::App;
use crate::models::Chosen;

/// How often the models that answer are chosen anew, where the settings name none.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Clone)]
pub(crate) struct Service(Arc<ServiceInner>);

struct ServiceInner {
    app: App,
    limits: ServeLimits,
    auth: Arc<Auth>,
    guard: Guard,
    admission: AdmissionGate,
    space: Space,
    metrics: Metrics,
    probe: Probe,
    chosen: RwLock<Arc<Chosen>>,
    closing: CancellationToken,
    began: Instant,
}

impl Service {
    /// A service on an opened app.
    pub(crate) fn new(app: App, chosen: Chosen, auth: Auth) -> Service {
        let serve = &app.config.serve;
        let limits = serve.limits.clone();
        let guard = Guard::new(serve.hosts.clone(), serve.origins.clone());
        Service(Arc::new(ServiceInner {
            limits,
            auth: Arc::new(auth),
            guard,
            admission: AdmissionGate::default(),
            space: Space::default(),
            metrics: Metrics::new(app.engine.clone()),
            probe: Probe::default(),
            chosen: RwLock::new(Arc::new(chosen)),
            closing: CancellationToken::new(),
            began: Instant::now(),
            app,
        }))
    }

    /// The app that commands use, too. Its tenant is the command line's: handlers use the caller's.
    pub(crate) fn app(&self) -> &App {
        &self.0.app
    }

    /// The engine, which drives runs.
    pub(crate) fn engine(&self) -> &Engine {
        &self.0.app.engine
    }

    /// The store.
    pub(crate) fn store(&self) -> &Store {
        self.0.app.store()
    }

    /// The models that answer now.
    pub(crate) fn chosen(&self) -> Arc<Chosen> {
        self.0.chosen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The limits of requests, connections and streams.
    pub(crate) fn limits(&self) -> &ServeLimits {
        &self.0.limits
    }

    /// The check of tokens.
    pub(crate) fn auth(&self) -> &Arc<Auth> {
        &self.0.auth
    }

    /// The check of hosts and origins.
    pub(crate) fn guard(&self) -> &Guard {
        &self.0.guard
    }

    /// The metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The check of the store.
    pub(crate) fn probe(&self) -> &Probe {
        &self.0.probe
    }

    /// The admission of runs, streams and requests.
    pub(crate) fn admission(&self) -> &AdmissionGate {
        &self.0.admission
    }

    /// How long this process has been serving.
    pub(crate) fn uptime(&self) -> Duration {
        self.0.began.elapsed()
    }

    /// Cancelled when the process begins to end: open streams end with it, so that readers reconnect elsewhere.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Takes a place for one more run or call, before anything is begun; it is given back when the run is driven.
    pub(crate) fn admit(&self, caller: &Caller) -> Result<RunPermit, Problem> {
        let load = || self.engine().load(&caller.tenant);
        self.0.admission.run(&caller.tenant, load, Instant::now(), &self.0.limits)
    }

    /// Checks that the disk has room for the bytes that a request may add.
    pub(crate) fn room_for(&self, caller: &Caller, request: &Request<Body>) -> Result<(), Problem> {
        let limits = &self.0.limits;
        let Some(bytes) = space::added(request, limits.body_bytes) else { return Ok(()) };
        let free = || space::free(&self.0.app);
        let tenants = || self.0.auth.tenants();
        self.0.space.admit(&caller.tenant, bytes, tenants, limits.low_space, free, Instant::now())
    }

    /// Takes a place for one more stream; it is given back when it is dropped.
    pub(crate) fn stream(&self, caller: &Caller) -> Result<StreamPermit, Problem> {
        self.0.admission.stream(&caller.tenant, &self.0.limits)
    }

    /// Chooses again and again the models that answer, as every command does: an Ollama may come or go.
    pub(crate) async fn keep_choosing(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.0.app.models.choose().await {
                Ok(chosen) => {
                    *self.0.chosen.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(chosen);
                }
                Err(failure) => tracing::warn!(error = failure.message, "nobody else was found who answers"),
            }
        }
    }
}
