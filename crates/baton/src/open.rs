//! Opening an [`App`]: builds the store, the tools, the models and the engine.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use baton_core::id::Tenant;
use baton_core::redact::Redactor;
use baton_engine::{Clock, Engine, KnownSecrets, Parts, SystemClock};
use baton_store::{OpenError, PgOptions, PgStore, SqliteStore, Store, StoreError};
use baton_tools::{BlobSource, Builtin, Registry, Secrets, Tool, builtin, testing};

use crate::app::App;
use crate::config::{Config, DatabaseUrl, KeyPlace, StoreSetting};
use crate::failure::Failure;
use crate::models::{Models, look_for};
use crate::serve::problem::ProblemCode;
use crate::terminal::{DIM, note, styled};
use crate::web;

/// The purpose that an app is opened for.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppPurpose {
    /// Whether one JSON document is printed instead of text.
    pub(crate) json: bool,
    /// Whether the tools with effects, which only tests and demonstrations have, are there.
    pub(crate) test_tools: bool,
    /// Whether read access may be enough: data that cannot be written to can still be shown.
    pub(crate) may_read_only: bool,
}

impl App {
    /// Opens the data of a configuration and starts an engine on it.
    pub(crate) async fn open(config: Config, purpose: AppPurpose) -> Result<App, Failure> {
        let store = match store(&config).await {
            Err(failure) if purpose.may_read_only => to_read(&config, failure)?,
            opened => opened?,
        };
        let tenant = Tenant::local();
        let tools = registry(&store, &config, purpose.test_tools || cfg!(feature = "failpoints"))?;
        let models = Models::new(&config);
        let mut settings = config.engine.clone();
        settings.audit.secrets = known_secrets(&config, &models);
        let engine = Engine::new(Parts {
            store,
            tools,
            models: models.source(),
            renderers: Default::default(),
            policy: config.policy.clone(),
            clock: Arc::new(SystemClock),
            settings,
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
            .of_kind(ProblemCode::StoreUnavailable)
            .hint("DATABASE_URL, or url below [store] in baton.toml, names another one; without both, SQLite is used")
    })
}

/// Opens the file; prints a note if a copy was made before the file was migrated.
fn file(config: &Config) -> Result<Store, Failure> {
    let opened = SqliteStore::open(&config.data).map_err(|error| unopened(&config.data, error))?;
    if let Some(copy) = opened.backup {
        note(format!("the data was brought up to date; a copy from before is in {}", copy.display()));
    }
    Ok(Store::Sqlite(opened.store))
}

/// The failure for a data folder that did not open, with a hint.
fn unopened(folder: &Path, error: OpenError) -> Failure {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    match error {
        OpenError::Blocked { ref hint, .. } => {
            Failure::failed(named(&error)).of_kind(ProblemCode::StoreUnavailable).hint(hint)
        }
        OpenError::Newer { .. } => {
            Failure::usage(error.to_string()).of_kind(ProblemCode::Conflict).hint(ANOTHER_FOLDER)
        }
        error if error.is_full() || (error.is_unwritable() && is_full(folder)) => {
            let full = format!("the disk of {} is full", folder.display());
            Failure::failed(full)
                .of_kind(ProblemCode::StoreUnavailable)
                .hint("free some space there, or name another folder with --data DIR")
        }
        OpenError::Io(_) => {
            Failure::usage(named(&error)).of_kind(ProblemCode::StoreUnavailable).hint(ANOTHER_FOLDER)
        }
        other => Failure::failed(named(&other)).hint("baton doctor looks for what is wrong"),
    }
}

/// The hint for a folder that cannot be used.
const ANOTHER_FOLDER: &str =
    "--data DIR or BATON_DATA names another data folder; baton doctor looks for what is wrong";

/// The free space below which nothing can be written.
const SOMETHING: u64 = 128 << 10;

fn is_full(folder: &Path) -> bool {
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    rustix::fs::statvfs(there).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < SOMETHING)
}

/// Opens data that can be read and not written to. `why` is the reason why it cannot be written to, and the failure if
/// it cannot be read either.
fn to_read(config: &Config, why: Failure) -> Result<Store, Failure> {
    if config.store.url.is_some() || !config.data.join("baton.db").is_file() {
        return Err(why);
    }
    let by = why.message.clone();
    let hint =
        "baton --data DIR names a folder that can be written to; a copy of this one would do".to_owned();
    match SqliteStore::open_to_read(&config.data, StoreError::Blocked { by, hint }) {
        Ok(store) => {
            note(styled(DIM, format!("nothing can be written here, so it is only read: {}", why.message)));
            Ok(Store::Sqlite(store))
        }
        Err(error @ OpenError::Older { found: 1.., .. }) => Err(unopened(&config.data, error)),
        Err(_) => Err(why),
    }
}

/// The built-in tools with the operator's overrides. File tools read the current folder; those of a service read the
/// folders of the settings.
pub(crate) fn registry(store: &Store, config: &Config, test_tools: bool) -> Result<Registry, Failure> {
    registry_with(store, config, test_tools, |_| Vec::new())
}

/// The same with tools from elsewhere; `more` makes them and can check which names are taken.
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
    // A tool of a service may come later, and so an override of it is no mistake.
    let trust = web::trust(&config.web, &tools, config.services.execution.is_some())?;
    Registry::with_trust(tools, trust).map_err(|error| Failure::failed(error.to_string()))
}

/// Baton's own files, which no model is shown: the data, and the keys that the settings name.
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

/// The keys that the settings name, of every provider and service: they are removed from the events of the audit trail.
/// None is read before the first event.
fn known_secrets(config: &Config, models: &Models) -> KnownSecrets {
    let services = &config.services;
    let search = config.web.search.as_ref().map(|search| &search.key);
    let execution = services.execution.as_ref().map(|service| &service.token);
    let context = services.context.as_ref().map(|service| &service.token);
    let places: Vec<KeyPlace> = search.into_iter().chain(execution).chain(context).cloned().collect();
    let models = models.clone();
    KnownSecrets::new(move || {
        let environment = |name: &str| std::env::var_os(name);
        let of_providers = models.serving().providers.keys().filter_map(|name| models.key(name)?.secret());
        let others = places.iter().filter_map(|place| look_for(place, &environment).secret());
        of_providers.chain(others).map(|secret| Redactor::new(secret.expose())).collect()
    })
}

/// The long outputs, each readable only by the tenant that owns it.
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
