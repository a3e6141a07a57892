//! Putting an [`App`] together: the store, the tools, the models, the engine.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use baton_core::id::Tenant;
use baton_engine::{Clock, Engine, Parts, SystemClock};
use baton_store::{OpenError, SqliteStore, Store};
use baton_tools::{BlobSource, Builtin, Registry, Tool, builtin, testing};

use crate::app::App;
use crate::config::Config;
use crate::failure::Failure;
use crate::models::Models;
use crate::terminal::note;
use crate::web;

/// What an app is opened for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Purpose {
    /// Whether one JSON document is printed instead of text.
    pub(crate) json: bool,
    /// Whether the tools with effects, which only tests and demonstrations have, are there.
    pub(crate) test_tools: bool,
}

impl App {
    /// Opens the data of a configuration and starts an engine on it.
    pub(crate) fn open(config: Config, purpose: Purpose) -> Result<App, Failure> {
        let store = store(&config)?;
        let tenant = Tenant::local();
        let tools = registry(&store, &tenant, &config, purpose.test_tools || cfg!(feature = "failpoints"))?;
        let models = Models::new(&config);
        let engine = Engine::new(Parts {
            store,
            tools,
            models: models.source(),
            renderers: Default::default(),
            policy: config.policy.clone(),
            clock: Arc::new(SystemClock),
            settings: config.engine.clone(),
        })?;
        Ok(App { engine, tenant, json: purpose.json, config, models })
    }
}

/// Opens the store; says so if a copy was made before it was brought up to date.
pub(crate) fn store(config: &Config) -> Result<Store, Failure> {
    let opened = SqliteStore::open(&config.data).map_err(|error| match error {
        OpenError::Newer { .. } | OpenError::Io(_) => Failure::usage(error.to_string())
            .hint("--data DIR or BATON_DATA names another data folder; baton doctor looks for what is wrong"),
        other => Failure::failed(other.to_string()).hint("baton doctor looks for what is wrong"),
    })?;
    if let Some(copy) = opened.backup {
        note(format!("the data was brought up to date; a copy from before is in {}", copy.display()));
    }
    Ok(Store::Sqlite(opened.store))
}

/// The built-in tools, with the current folder as the root of the file tools, as the operator sees them.
pub(crate) fn registry(
    store: &Store,
    tenant: &Tenant,
    config: &Config,
    test_tools: bool,
) -> Result<Registry, Failure> {
    let roots: Vec<PathBuf> = vec![std::env::current_dir()?];
    let blobs = Blobs { store: store.clone(), tenant: tenant.clone() };
    let options = Builtin { roots, blobs: Some(Arc::new(blobs)), now: || SystemClock.now() };
    let mut tools: Vec<Arc<dyn Tool>> =
        builtin(options).map_err(|error| Failure::failed(error.to_string()))?;
    tools.extend(web::tools(&config.web)?);
    if test_tools {
        tools.push(testing::test_effect());
    }
    let trust = web::trust(&config.web, &tools)?;
    Registry::with_trust(tools, trust).map_err(|error| Failure::failed(error.to_string()))
}

/// The long outputs of one tenant.
struct Blobs {
    store: Store,
    tenant: Tenant,
}

type Reading = Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>, String>> + Send>>;

impl BlobSource for Blobs {
    fn read(&self, hash: String) -> Reading {
        let (store, tenant) = (self.store.clone(), self.tenant.clone());
        Box::pin(async move { store.blob(&tenant, &hash).await.map_err(|error| error.to_string()) })
    }
}
