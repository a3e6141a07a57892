//! All models by name: `offline`, `scripted/FILE`, and `provider/model` for every provider that is configured.
//!
//! One catalog is one set of connections, breakers, gates and findings, shared by everything that holds a
//! clone of it, so that what one run learns about an endpoint the others know. A model needs no entry: what
//! its provider does not have, the provider says. It reads no configuration and no environment, and it does
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
use crate::http::Http;
use crate::offline::Offline;
use crate::port::Model;
use crate::provider::{ModelEntry, Provider};
use crate::remote::{Remote, Setup, Site};
use crate::scripted::Scripted;
pub use probe::{Answered, Finding, Probe};

/// The names that need no provider.
const BUILT_IN: [&str; 2] = ["offline", "scripted"];

/// The most models that are kept at hand. Names come from requests, so there may be any number of them.
const MOST_AT_HAND: usize = 1024;

/// Why providers and models do not make a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCatalog {
    /// A provider's name cannot stand before a `/`, or means something else.
    #[error("{0:?} cannot be a provider's name: it is not empty, has no `/`, and is not offline or scripted")]
    ProviderName(String),
    /// Two providers have one name.
    #[error("there are two providers named {0:?}")]
    TwoProviders(String),
    /// A model's name does not say whose it is.
    #[error("{0:?} cannot be a model's name: write it as provider/model")]
    ModelName(String),
    /// A model is of nobody.
    #[error("the model {name:?} is of a provider that there is not; {there_are}")]
    NoProvider {
        /// The model.
        name: String,
        /// What there is instead.
        there_are: String,
    },
    /// Two entries are for one model.
    #[error("there are two entries for the model {0:?}")]
    TwoModels(String),
    /// A setting of a model makes no sense.
    #[error("the model {name:?} has a {setting} that cannot be: {problem}")]
    Setting {
        /// The model.
        name: String,
        /// The setting.
        setting: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// All models by name. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    it: Arc<Contents>,
}

struct Contents {
    http: Arc<Http>,
    providers: BTreeMap<String, Provider>,
    entries: BTreeMap<String, ModelEntry>,
    gates: BTreeMap<String, Gate>,
    /// Providers at one address share what is known of it.
    sites: HashMap<Endpoint, Arc<Site>>,
    at_hand: Mutex<BTreeMap<String, Remote>>,
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
        let sites = named.values().map(|provider| provider.base_url.clone());
        let sites = sites.map(|base| (base.clone(), Arc::new(Site::new(base)))).collect();
        let (http, at_hand) = (Arc::default(), Mutex::default());
        Ok(Catalog { it: Arc::new(Contents { http, providers: named, entries, gates, sites, at_hand }) })
    }

    /// How many calls of a tenant wait for a place of a model.
    pub fn waiting(&self, tenant: &Tenant) -> usize {
        self.it.gates.values().map(|gate| gate.waiting(tenant)).sum()
    }

    /// A model by its name. Nobody is asked whether it is there.
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
        self.it.providers.get(name)
    }

    /// All providers, by name.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.it.providers.values()
    }

    /// Whether what a model is sent stays on this machine; `None` where there is no such model.
    pub fn is_local(&self, name: &str) -> Option<bool> {
        match name.split_once('/') {
            None => (name == "offline").then_some(true),
            Some(("scripted", _)) => Some(true),
            Some((provider, _)) => self.provider(provider).map(|provider| provider.base_url.is_local()),
        }
    }

    fn remote(&self, name: &str) -> Result<Remote, Fault> {
        let unknown = |problem: String| {
            Fault::new(Code::LlmConnection, format!("{problem}; {}", there_are(&self.it.providers)))
        };
        let Some((provider, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty()) else {
            return Err(unknown(format!("{name:?} is no model; models are named as provider/model")));
        };
        let Some(provider) = self.provider(provider) else {
            return Err(unknown(format!("there is no provider {provider:?} for the model {name:?}")));
        };
        let mut at_hand = self.it.at_hand.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remote) = at_hand.get(name) {
            return Ok(remote.clone());
        }
        if at_hand.len() >= MOST_AT_HAND {
            at_hand.clear();
        }
        let remote = Remote::new(self.setup(name, provider, model));
        at_hand.insert(name.to_owned(), remote.clone());
        Ok(remote)
    }

    fn setup(&self, name: &str, provider: &Provider, model: &str) -> Setup {
        let entry = self.it.entries.get(name).cloned().unwrap_or_else(|| ModelEntry::new(name));
        Setup {
            http: self.it.http.clone(),
            site: self.site(provider),
            wire: entry.api.or(provider.wire()),
            entry,
            provider: provider.name.clone(),
            model: model.to_owned(),
            key: provider.key.clone(),
            gate: self.it.gates.get(name).cloned(),
            breaker: Breaker::new(name),
        }
    }

    fn site(&self, provider: &Provider) -> Arc<Site> {
        // Every provider's address is there; were it not, nothing would be shared and nothing would be wrong.
        let known = self.it.sites.get(&provider.base_url).cloned();
        known.unwrap_or_else(|| Arc::new(Site::new(provider.base_url.clone())))
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.it.providers.keys()).finish()
    }
}

fn check(entry: &ModelEntry, providers: &BTreeMap<String, Provider>) -> Result<(), BadCatalog> {
    let name = &entry.name;
    match name.split_once('/') {
        None | Some((_, "")) => return Err(BadCatalog::ModelName(name.clone())),
        Some((provider, _)) if !providers.contains_key(provider) => {
            return Err(BadCatalog::NoProvider { name: name.clone(), there_are: there_are(providers) });
        }
        Some(_) => {}
    }
    let times = entry.timeouts;
    let problem = if entry.max_concurrency == Some(0) {
        Some(("max_concurrency", "with 0 places no call ever runs"))
    } else if [times.connect, times.first_byte, times.idle, times.total].iter().any(|time| time.is_zero()) {
        Some(("timeout", "within 0 seconds nobody answers"))
    } else if entry.price.is_some_and(|price| !price.is_sound()) {
        Some(("price", "it is no amount of money"))
    } else {
        None
    };
    match problem {
        Some((setting, problem)) => Err(BadCatalog::Setting { name: name.clone(), setting, problem }),
        None => Ok(()),
    }
}

/// What there is, for whoever asked for something else.
fn there_are(providers: &BTreeMap<String, Provider>) -> String {
    let mut names: Vec<String> = providers.keys().map(|name| format!("{name}/MODEL")).collect();
    names.push("scripted/FILE".to_owned());
    format!("there are {} and offline", names.join(", "))
}

#[cfg(test)]
mod tests;
