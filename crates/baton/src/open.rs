//! Putting an [`App`] together: the store, the tools, the models, the engine.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use baton_core::id::Tenant;
use baton_engine::{Clock, Engine, Parts, SystemClock};
use baton_store::{OpenError, PgOptions, PgStore, SqliteStore, Store};
use baton_tools::{BlobSource, Builtin, Registry, Secrets, Tool, builtin, testing};

use crate::app::App;
use crate::config::{Config, DatabaseUrl, KeyPlace, StoreSetting};
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
    pub(crate) async fn open(config: Config, purpose: Purpose) -> Result<App, Failure> {
        let store = store(&config).await?;
        let tenant = Tenant::local();
        let tools = registry(&store, &config, purpose.test_tools || cfg!(feature = "failpoints"))?;
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

/// Opens the store: the database that the settings name, else the file in the data folder.
pub(crate) async fn store(config: &Config) -> Result<Store, Failure> {
    match &config.store.url {
        Some(url) => database(config, url).await,
        None => file(config),
    }
}

async fn database(config: &Config, url: &DatabaseUrl) -> Result<Store, Failure> {
    let StoreSetting { writers, readers, lease, .. } = config.store;
    let options = PgOptions { writers, readers, lease, ..PgOptions::new(&config.data) };
    let connected = PgStore::connect(url.expose(), options).await;
    connected.map(Store::Postgres).map_err(|error| {
        Failure::failed(format!("{}: {error}", url.shown()))
            .hint("DATABASE_URL, or url below [store] in baton.toml, names another one; without both, SQLite is used")
    })
}

/// Opens the file; says so if a copy was made before it was brought up to date.
fn file(config: &Config) -> Result<Store, Failure> {
    let opened = SqliteStore::open(&config.data).map_err(|error| match error {
        OpenError::Newer { .. } | OpenError::Io(_) => Failure::usage(error.to_string())
            .hint("--data DIR or BATON_DATA names another data folder; baton doctor looks for what is wrong"),
        OpenError::Blocked { ref hint, .. } => Failure::failed(error.to_string()).hint(hint),
        other => Failure::failed(other.to_string()).hint("baton doctor looks for what is wrong"),
    })?;
    if let Some(copy) = opened.backup {
        note(format!("the data was brought up to date; a copy from before is in {}", copy.display()));
    }
    Ok(Store::Sqlite(opened.store))
}

/// The built-in tools as the operator sees them. File tools read the current folder; those of a service the folders of
/// the settings.
pub(crate) fn registry(store: &Store, config: &Config, test_tools: bool) -> Result<Registry, Failure> {
    registry_with(store, config, test_tools, |_| Vec::new())
}

/// The same with tools from elsewhere, made by somebody who is told which names are taken.
pub(crate) fn registry_with(
    store: &Store,
    config: &Config,
    test_tools: bool,
    more: impl FnOnce(&dyn Fn(&str) -> bool) -> Vec<Arc<dyn Tool>>,
) -> Result<Registry, Failure> {
    let roots = if config.is_service { config.files.clone() } else { vec![std::env::current_dir()?] };
    let blobs = Blobs { store: store.clone() };
    let secrets = Secrets::new(&own_files(config), &config.shown_files);
    let options = Builtin { roots, secrets, blobs: Some(Arc::new(blobs)), now: || SystemClock.now() };
    let mut tools: Vec<Arc<dyn Tool>> =
        builtin(options).map_err(|error| Failure::failed(error.to_string()))?;
    tools.extend(web::tools(&config.web)?);
    if test_tools {
        tools.extend([testing::test_effect(), testing::test_note()]);
    }
    let more = more(&|name| tools.iter().any(|tool| tool.spec().name == name));
    tools.extend(more);
    // A tool of a service may come later, and so may what is said of it.
    let trust = web::trust(&config.web, &tools, config.services.execution.is_some())?;
    Registry::with_trust(tools, trust).map_err(|error| Failure::failed(error.to_string()))
}

/// The files of our own that no model is shown: the data, and the keys that the settings name.
fn own_files(config: &Config) -> Vec<PathBuf> {
    let providers = config.serving.providers.values().map(|provider| &provider.key);
    let search = config.web.search.as_ref().map(|search| &search.key);
    let services = &config.services;
    let execution = services.execution.as_ref().map(|service| &service.token);
    let context = services.context.as_ref().map(|service| &service.token);
    let keys = providers.chain(search).chain(execution).chain(context);
    let files = keys.filter_map(|key| match key {
        KeyPlace::File(file, _) => Some(file.0.clone()),
        KeyPlace::None | KeyPlace::Variable(_) => None,
    });
    std::iter::once(config.data.clone()).chain(files).collect()
}

/// The long outputs, each for whom it belongs to.
struct Blobs {
    store: Store,
}

type Reading = Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>, String>> + Send>>;

impl BlobSource for Blobs {
    fn read(&self, tenant: Tenant, hash: String) -> Reading {
        let store = self.store.clone();
        Box::pin(async move { store.blob(&tenant, &hash).await.map_err(|error| error.to_string()) })
    }
}
