//! The models of the configuration: their catalog, and the choice of the one that answers.
//!
//! [`choose`] decides from facts alone; this module gathers them. The network is searched only if nothing is
//! configured, and keys are read only when a model is needed. A key goes from its place into the catalog and nowhere
//! else.

pub(crate) mod built_in;
mod choose;
mod keys;
mod privacy;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use baton_core::id::Tenant;
use baton_core::role::Roles;
use baton_core::run::Definition;
use baton_engine::ModelSource;
use baton_model::wire::Wire;
use baton_model::{BadCatalog, Catalog, Endpoint, Model, ModelProbe, ProbeFinding, Provider};

use crate::config::{Config, ModelConfig, ProviderSetting, SearchSetting, ValueOrigin};
use crate::failure::Failure;
use crate::telemetry::CollectorSetting;
pub(crate) use choose::{Chosen, Facts, Ollama, choose};
pub(crate) use keys::{Key, look_for};
use privacy::{Away, EventReceiver};

/// The deadline of Ollama's list of models, where no setting says that Ollama is there.
const DISCOVERY: Duration = Duration::from_millis(300);

/// All models of a configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Models {
    it: Arc<ModelsInner>,
}

struct ModelsInner {
    serving: ModelConfig,
    /// The host of the search service, if it is not on this machine.
    search: Option<String>,
    /// The collector of spans, if it is not on this machine.
    collector: Option<EventReceiver>,
    /// The host of the execution service, if it is not on this machine.
    execution: Option<String>,
    /// The context service, if it is not on this machine.
    context: Option<EventReceiver>,
    /// Whether pages may be visited.
    visits: bool,
    named: Option<(String, ValueOrigin)>,
    catalog: OnceLock<Result<Catalog, BadCatalog>>,
    keys: OnceLock<BTreeMap<String, Key>>,
}

impl Models {
    /// The models of a configuration. Nothing is read or asked yet.
    pub(crate) fn new(config: &Config) -> Models {
        let (serving, named) = (config.serving.clone(), config.model.clone());
        let search = config.web.search.iter().find(|it| !it.is_local()).map(SearchSetting::host);
        let content = config.engine.telling.content;
        let watcher = |it: &CollectorSetting| EventReceiver { host: host_of(&it.endpoint), content };
        let collector = config.collector.iter().find(|it| !it.endpoint.is_local()).map(watcher);
        let (catalog, keys) = (OnceLock::new(), OnceLock::new());
        let visits = privacy::visits_by(&config.policy);
        let away = |url: &str| Endpoint::parse(url).ok().filter(|it| !it.is_local()).map(|it| host_of(&it));
        let execution = config.services.execution.as_ref().and_then(|it| away(&it.url));
        let context = config.services.context.as_ref().and_then(|it| away(&it.url));
        let context = context.map(|host| EventReceiver { host, content: config.engine.audit.with_text });
        let it = ModelsInner { serving, search, collector, execution, context, visits, named, catalog, keys };
        Models { it: Arc::new(it) }
    }

    /// The function by which the engine finds its models.
    pub(crate) fn source(&self) -> ModelSource {
        let models = self.clone();
        Arc::new(move |name| models.model(name))
    }

    /// The providers, roles and models of the settings.
    pub(crate) fn serving(&self) -> &ModelConfig {
        &self.it.serving
    }

    /// The key of a provider, or why it is missing.
    pub(crate) fn key(&self, provider: &str) -> Option<&Key> {
        let environment = |name: &str| std::env::var_os(name);
        let found = || {
            let key = |(name, setting): (&String, &ProviderSetting)| {
                (name.clone(), look_for(&setting.key, &environment))
            };
            self.it.serving.providers.iter().map(key).collect()
        };
        self.it.keys.get_or_init(found).get(provider)
    }

    /// The catalog of all models.
    pub(crate) fn catalog(&self) -> Result<&Catalog, Failure> {
        let made = self.it.catalog.get_or_init(|| {
            let provider = |(name, setting): (&String, &ProviderSetting)| Provider {
                name: name.clone(),
                base_url: setting.base_url.clone(),
                api: setting.api,
                key: self.key(name).and_then(Key::secret),
            };
            let providers = self.it.serving.providers.iter().map(provider).collect();
            Catalog::new(providers, self.it.serving.models.values().cloned().collect())
        });
        made.as_ref().map_err(|error| Failure::usage(error.to_string()).hint("correct it in baton.toml"))
    }

    /// The number of calls of a tenant that wait for a permit of a model.
    pub(crate) fn waiting(&self, tenant: &Tenant) -> usize {
        self.catalog().map_or(0, |catalog| catalog.waiting(tenant))
    }

    /// A model by its name. Fails without the key that its provider needs, before anything is sent.
    pub(crate) fn model(&self, name: &str) -> Result<Arc<dyn Model>, Fault> {
        if let Some(why) = self.keyless(name) {
            return Err(Fault::new(Code::LlmAuth, why.message));
        }
        let catalog = self.catalog().map_err(|failure| Fault::new(Code::LlmConnection, failure.message))?;
        catalog.model(name)
    }

    /// The failure for a provider's missing key.
    fn keyless(&self, model: &str) -> Option<Failure> {
        let (provider, _) = self.it.serving.provider_of(model)?;
        self.key(provider).and_then(|key| key.missing(provider))
    }

    /// Checks a name that the user gave; returns the name to keep, which means the same in every folder.
    pub(crate) fn checked(&self, name: &str) -> Result<String, Failure> {
        let name = self.known(name)?;
        if let Some(missing) = self.keyless(&name) {
            return Err(missing);
        }
        match self.catalog()?.model(&name) {
            Ok(_) => Ok(name),
            Err(fault) => Err(Failure::usage(fault.message).hint("choose another one with --model")),
        }
    }

    /// The name to keep, if its provider exists.
    fn known(&self, name: &str) -> Result<String, Failure> {
        let name = whole_path(name)?;
        self.it.serving.known(&name).map_err(|why| Failure::usage(why).hint(self.it.serving.there_are()))?;
        Ok(name)
    }

    /// The same for a name from the settings: a failure names the setting.
    fn known_from(&self, name: &str, origin: &ValueOrigin) -> Result<String, Failure> {
        self.known(name).map_err(|failure| {
            let place = match origin {
                ValueOrigin::Flag(flag) => (*flag).to_owned(),
                ValueOrigin::Environment(variable) => (*variable).to_owned(),
                ValueOrigin::File(file, line) => format!("{}:{line}: `model`", file.display()),
                ValueOrigin::Default => return failure,
            };
            let told = format!("{place}: {}", failure.message);
            failure.saying(told)
        })
    }

    /// Chooses the model that answers. A named model that cannot be asked is refused.
    pub(crate) async fn choose(&self) -> Result<Chosen, Failure> {
        if let Some((name, origin)) = &self.it.named {
            let name = self.known_from(name, origin)?;
            self.checked(&name)?;
        }
        self.intended().await
    }

    /// The choice for a model that is named during a chat, as if it were named with `--model`.
    pub(crate) fn choose_named(&self, name: &str) -> Result<Chosen, Failure> {
        let name = self.checked(name)?;
        Ok(choose(&self.facts(Some((name, ValueOrigin::Flag("/model"))))?))
    }

    /// Chooses the model that is meant to answer, for commands that only show it: its key may be missing.
    pub(crate) async fn intended(&self) -> Result<Chosen, Failure> {
        let named = match &self.it.named {
            Some((name, origin)) => Some((self.known_from(name, origin)?, origin.clone())),
            None => None,
        };
        let mut facts = self.facts(named)?;
        if facts.is_open() {
            facts.ollama = self.finds_ollama().await?;
        }
        Ok(choose(&facts))
    }

    /// The choice by the configuration alone: nothing is searched for, and no key is needed.
    pub(crate) fn configured(&self) -> Result<Chosen, Failure> {
        let named = match &self.it.named {
            Some((name, origin)) => Some((whole_path(name)?, origin.clone())),
            None => None,
        };
        Ok(choose(&self.facts(named)?))
    }

    /// Tries a model out. Nothing is sent without the key that its provider needs.
    pub(crate) async fn probe(&self, model: &str) -> Result<ModelProbe, Failure> {
        let catalog = self.catalog()?;
        let Some(missing) = self.keyless(model) else { return Ok(catalog.probe(model).await) };
        Ok(ModelProbe {
            model: model.to_owned(),
            wire: "",
            is_local: catalog.is_local(model).unwrap_or_default(),
            answer: Err(Fault::new(Code::LlmAuth, missing.message)),
            tools: ProbeFinding::NotAsked,
            structured: ProbeFinding::NotAsked,
        })
    }

    fn facts(&self, named: Option<(String, ValueOrigin)>) -> Result<Facts, Failure> {
        let serving = &self.it.serving;
        let set =
            |it: &&built_in::BuiltIn| it.key_env.is_some() && self.key(it.name).is_some_and(Key::is_there);
        Ok(Facts {
            named,
            roles: whole_paths(serving.roles.clone())?,
            ollama_from: serving.providers.get("ollama").map(|it| it.address_from.clone()),
            ollama: Ollama::Absent,
            keys: built_in::PROVIDERS.iter().filter(set).map(|it| self.key_in_words(it)).collect(),
            away: self.away(),
        })
    }

    fn key_in_words(&self, it: &built_in::BuiltIn) -> (&'static str, String) {
        let place = self.key(it.name).map(|key| key.place.clone()).unwrap_or_default();
        (it.name, format!("{place} is set"))
    }

    /// The providers that are not on this machine, and those without their key.
    fn away(&self) -> Away {
        let all = || self.it.serving.providers.iter();
        let keyless = |name: &&String| self.key(name).is_some_and(|key| key.missing(name).is_some());
        Away {
            hosts: all().filter_map(|(name, it)| Some((name.clone(), host(it)?))).collect(),
            keyless: all().map(|(name, _)| name).filter(keyless).cloned().collect(),
            search: self.it.search.clone(),
            collector: self.it.collector.clone(),
            execution: self.it.execution.clone(),
            context: self.it.context.clone(),
            visits: self.it.visits,
        }
    }

    /// Looks for an Ollama at its usual address. It is asked for its list and sent nothing.
    async fn finds_ollama(&self) -> Result<Ollama, Failure> {
        let within = built_in::patience(DISCOVERY);
        Ok(match tokio::time::timeout(within, self.catalog()?.list(built_in::PROVIDERS[0].name)).await {
            Ok(Ok(names)) => Ollama::Has(names),
            Ok(Err(fault)) if fault.code == Code::LlmTimeout => Ollama::Silent(within),
            Ok(Err(_)) => Ollama::Absent,
            Err(_) => Ollama::Silent(within),
        })
    }

    /// Whether a run without an owner may be taken up unasked after the user saw which models answer: only if its text
    /// goes to no other host, and all its models can be asked here.
    pub(crate) fn may_adopt(
        &self,
        chosen: &Chosen,
    ) -> impl Fn(&Definition) -> Result<(), String> + Send + Sync + 'static {
        let (models, told) = (self.clone(), chosen.text.hosts());
        move |definition| {
            let pinned = models.as_pinned(definition);
            if let Some(host) = pinned.text.hosts().iter().find(|host| !told.contains(host)) {
                return Err(format!("its text would go to {host}, and nobody here was told so"));
            }
            let everybody = pinned.everybody();
            let missing = everybody.iter().find_map(|name| models.model(name).err());
            missing.map_or(Ok(()), |fault| Err(fault.message))
        }
    }

    /// The models that answer in a run that began earlier, perhaps under other settings.
    pub(crate) fn as_pinned(&self, definition: &Definition) -> Chosen {
        let (model, roles) = (definition.model.clone(), definition.roles.clone());
        Chosen::new(model, roles, "as this run began".to_owned(), &self.away())
    }
}

/// Makes the paths of scripts absolute, so that they mean the same in every folder.
fn whole_paths(mut roles: Roles) -> Result<Roles, Failure> {
    for candidate in roles.values_mut().flatten() {
        candidate.model = whole_path(&candidate.model)?;
    }
    Ok(roles)
}

fn whole_path(model: &str) -> Result<String, Failure> {
    match model.strip_prefix("scripted/").filter(|file| !file.is_empty()) {
        Some(file) => Ok(format!("scripted/{}", std::path::absolute(file)?.display())),
        None => Ok(model.to_owned()),
    }
}

/// The host of a provider, if it is not this machine.
fn host(provider: &ProviderSetting) -> Option<String> {
    (!provider.base_url.is_local()).then(|| host_of(&provider.base_url))
}

/// The host of an address, and nothing else of it.
pub(crate) fn host_of(endpoint: &Endpoint) -> String {
    endpoint.address(Wire::Ollama).host_str().unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests;
