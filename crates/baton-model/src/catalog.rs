//! All models by name: `offline`, `scripted/FILE`, and `provider/model` for every provider that is configured.
//!
//! One catalog is one set of connections, breakers, gates and detected formats, shared by all its clones,
//! so that one run's knowledge of an endpoint serves the others. A model needs no entry: a name that the
//! provider does not have is the provider's error. It reads no configuration and no environment, and it does
//! not know of roles.

mod listing;
mod probe;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::fault::{Code, Fault};
use baton_core::id::Tenant;

use crate::breaker::Breaker;
use crate::endpoint::Endpoint;
use crate::gate::Gate;
use crate::http::HttpClients;
use crate::offline::Offline;
use crate::port::Model;
use crate::provider::{ModelEntry, Provider};
use crate::remote::{EndpointState, RemoteModel, RemoteSetup};
use crate::scripted::Scripted;
pub use probe::{ModelProbe, ProbeAnswer, ProbeFinding};

/// The names that need no provider.
const BUILT_IN: [&str; 2] = ["offline", "scripted"];

/// The most models in the cache. Names come from requests, so there may be any number of them.
const MAX_CACHED: usize = 1024;

/// Why providers and models do not make a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCatalog {
    /// A provider's name is empty, has a `/`, or is the name of a built-in model.
    #[error("{0:?} cannot be a provider's name: it is not empty, has no `/`, and is not offline or scripted")]
    ProviderName(String),
    /// Two providers have one name.
    #[error("there are two providers named {0:?}")]
    TwoProviders(String),
    /// A model's name does not name its provider.
    #[error("{0:?} cannot be a model's name: write it as provider/model")]
    ModelName(String),
    /// The provider in a model's name is not configured.
    #[error("the model {name:?} is of a provider that there is not; {available}")]
    NoProvider {
        /// The model.
        name: String,
        /// The models that there are.
        available: String,
    },
    /// Two entries are for one model.
    #[error("there are two entries for the model {0:?}")]
    TwoModels(String),
    /// A setting of a model has an impossible value.
    #[error("the model {name:?} has a {setting} that cannot be: {problem}")]
    Setting {
        /// The model.
        name: String,
        /// The setting.
        setting: &'static str,
        /// The reason.
        problem: &'static str,
    },
}

/// All models by name. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<CatalogInner>,
}

struct CatalogInner {
    http: Arc<HttpClients>,
    providers: BTreeMap<String, Provider>,
    entries: BTreeMap<String, ModelEntry>,
    gates: BTreeMap<String, Gate>,
    /// Providers at one address share its breaker and its detected format.
    endpoints: HashMap<Endpoint, Arc<EndpointState>>,
    cached: Mutex<BTreeMap<String, RemoteModel>>,
}

impl Catalog {
    /// Puts providers and models together.
    pub fn new(providers: Vec<Provider>, models: Vec<ModelEntry>) -> Result<Self, BadCatalog> {
        let mut named = BTreeMap::new();
        for provider in providers {
            let name = provider.name.clone();
            if name.is_empty() || name.contains('/') || BUILT_IN.contains(&name.as_str()) {
                return Err(BadCatalog::ProviderName(name));
            }
            if named.insert(name.clone(), provider).is_some() {
                return Err(BadCatalog::TwoProviders(name));
            }
        }
        let (mut entries, mut gates) = (BTreeMap::new(), BTreeMap::new());
        for entry in models {
            check(&entry, &named)?;
            if let Some(most) = entry.max_concurrency {
                gates.insert(entry.name.clone(), Gate::new(most));
            }
            if let Some(twice) = entries.insert(entry.name.clone(), entry) {
                return Err(BadCatalog::TwoModels(twice.name));
            }
        }
        let endpoints = named.values().map(|provider| provider.base_url.clone());
        let endpoints = endpoints.map(|base| (base.clone(), Arc::new(EndpointState::new(base)))).collect();
        let (http, cached) = (Arc::default(), Mutex::default());
        Ok(Catalog {
            inner: Arc::new(CatalogInner { http, providers: named, entries, gates, endpoints, cached }),
        })
    }

    /// The number of a tenant's calls that wait in the queues of models.
    pub fn waiting(&self, tenant: &Tenant) -> usize {
        self.inner.gates.values().map(|gate| gate.waiting(tenant)).sum()
    }

    /// A model by its name. The provider is not asked whether it has the model.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, Fault> {
        match name.split_once('/') {
            None if name == "offline" => Ok(Arc::new(Offline::new())),
            Some(("scripted", file)) => match Scripted::from_file(file) {
                Ok(scripted) => Ok(Arc::new(scripted)),
                Err(problem) => Err(Fault::new(Code::LlmConnection, problem.to_string())),
            },
            _ => Ok(Arc::new(self.remote(name)?)),
        }
    }

    /// A provider by its name.
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.inner.providers.get(name)
    }

    /// All providers, by name.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.inner.providers.values()
    }

    /// Whether a model's requests stay on this machine; `None` where there is no such model.
    pub fn is_local(&self, name: &str) -> Option<bool> {
        match name.split_once('/') {
            None => (name == "offline").then_some(true),
            Some(("scripted", _)) => Some(true),
            Some((provider, _)) => self.provider(provider).map(|provider| provider.base_url.is_local()),
        }
    }

    fn remote(&self, name: &str) -> Result<RemoteModel, Fault> {
        let unknown = |problem: String| {
            Fault::new(Code::LlmConnection, format!("{problem}; {}", available(&self.inner.providers)))
        };
        let Some((provider, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty()) else {
            return Err(unknown(format!("{name:?} is no model; models are named as provider/model")));
        };
        let Some(provider) = self.provider(provider) else {
            return Err(unknown(format!("there is no provider {provider:?} for the model {name:?}")));
        };
        let mut cached = self.inner.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remote) = cached.get(name) {
            return Ok(remote.clone());
        }
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        let remote = RemoteModel::new(self.setup(name, provider, model));
        cached.insert(name.to_owned(), remote.clone());
        Ok(remote)
    }

    fn setup(&self, name: &str, provider: &Provider, model: &str) -> RemoteSetup {
        let entry = self.inner.entries.get(name).cloned().unwrap_or_else(|| ModelEntry::new(name));
        RemoteSetup {
            http: self.inner.http.clone(),
            endpoint: self.endpoint_state(provider),
            wire: entry.api.or(provider.wire()),
            entry,
            provider: provider.name.clone(),
            model: model.to_owned(),
            key: provider.key.clone(),
            gate: self.inner.gates.get(name).cloned(),
            breaker: Breaker::new(name),
        }
    }

    fn endpoint_state(&self, provider: &Provider) -> Arc<EndpointState> {
        // Every provider's address is in the map; if it were not, its state would only not be shared.
        let shared = self.inner.endpoints.get(&provider.base_url).cloned();
        shared.unwrap_or_else(|| Arc::new(EndpointState::new(provider.base_url.clone())))
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.inner.providers.keys()).finish()
    }
}

fn check(entry: &ModelEntry, providers: &BTreeMap<String, Provider>) -> Result<(), BadCatalog> {
    let name = &entry.name;
    match name.split_once('/') {
        None | Some((_, "")) => return Err(BadCatalog::ModelName(name.clone())),
        Some((provider, _)) if !providers.contains_key(provider) => {
            return Err(BadCatalog::NoProvider { name: name.clone(), available: available(providers) });
        }
        Some(_) => {}
    }
    let times = entry.timeouts;
    let problem = if entry.max_concurrency == Some(0) {
        Some(("max_concurrency", "with 0 places no call ever runs"))
    } else if [times.connect, times.first_byte, times.idle, times.total].iter().any(|time| time.is_zero()) {
        Some(("timeout", "within 0 seconds nobody answers"))
    } else if entry.price.is_some_and(|price| !price.is_valid()) {
        Some(("price", "it is no amount of money"))
    } else {
        None
    };
    match problem {
        Some((setting, problem)) => Err(BadCatalog::Setting { name: name.clone(), setting, problem }),
        None => Ok(()),
    }
}

/// The models that there are, for an error about a name that is unknown.
fn available(providers: &BTreeMap<String, Provider>) -> String {
    let mut names: Vec<String> = providers.keys().map(|name| format!("{name}/MODEL")).collect();
    names.push("scripted/FILE".to_owned());
    format!("there are {} and offline", names.join(", "))
}

#[cfg(test)]
mod tests;
