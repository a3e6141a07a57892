//! The model configuration from the sections with chosen names: providers, the models of each role, prices.
//!
//! Values only, checked against one another; nothing is opened and no key is read. An error names the wrong line and a
//! fix, and repeats no value that might be a secret.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_core::role::{Candidate, Roles};
use baton_model::wire::{InlineTags, Wire};
use baton_model::{BadEndpoint, Endpoint, ModelEntry, Price};

use super::groups::{NamedTable, Stated};
use super::nearest::{asked, maker, question};
use super::value::Unshown;
use super::{Value, ValueOrigin};
use crate::failure::Failure;
use crate::models::built_in::{self, BuiltIn};

/// The place of a provider's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyPlace {
    /// The provider needs no key.
    None,
    /// In this environment variable.
    Variable(String),
    /// In a file; the origin names the setting.
    File(Unshown, ValueOrigin),
}

/// A provider: a server of models.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderSetting {
    pub(crate) base_url: Endpoint,
    /// The origin of the address; by default the usual address.
    pub(crate) address_from: ValueOrigin,
    pub(crate) api: Option<Wire>,
    pub(crate) key: KeyPlace,
    /// Whether any setting is about it.
    pub(crate) is_configured: bool,
}

/// The providers, the roles and the models.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelConfig {
    /// All providers, by name.
    pub(crate) providers: BTreeMap<String, ProviderSetting>,
    /// The candidates of each role.
    pub(crate) roles: Roles,
    /// The settings of models, by name.
    pub(crate) models: BTreeMap<String, ModelEntry>,
}

impl ModelConfig {
    /// Builds it from the tables; `ollama` is the usual address of Ollama.
    pub(super) fn of(groups: &[NamedTable], ollama: &str) -> Result<ModelConfig, Failure> {
        let mut serving =
            ModelConfig { providers: usual(ollama)?, roles: Roles::new(), models: BTreeMap::new() };
        for group in groups.iter().filter(|group| group.section.key == "providers") {
            serving.provider(group)?;
        }
        let mut said = Said::default();
        for group in groups.iter().filter(|group| group.section.key == "roles") {
            serving.candidate(group, &mut said)?;
        }
        for group in groups.iter().filter(|group| group.section.key == "prices") {
            serving.price(group)?;
        }
        Ok(serving)
    }

    /// The provider of a model, unless the model needs none.
    pub(crate) fn provider_of(&self, model: &str) -> Option<(&str, &ProviderSetting)> {
        let (name, _) = model.split_once('/')?;
        self.providers.get_key_value(name).map(|(name, provider)| (name.as_str(), provider))
    }

    fn provider(&mut self, group: &NamedTable) -> Result<(), Failure> {
        plain_name(group)?;
        if matches!(group.name.as_str(), "offline" | "scripted") {
            let why = format!("`{}`: this name is taken by a built-in model", group.key());
            return Err(wrong(&group.origin, &why).hint("choose another name for the provider"));
        }
        let before = self.providers.get(&group.name).cloned();
        let (base_url, address_from) = match (group.get("base_url"), &before) {
            (Some(stated), _) => {
                let key = format!("{}.base_url", group.key());
                (endpoint(&key, text(stated), &stated.origin)?, stated.origin.clone())
            }
            (None, Some(before)) => (before.base_url.clone(), ValueOrigin::Default),
            (None, None) => return Err(missing(group, "base_url")),
        };
        let moved = address_from != ValueOrigin::Default;
        let api = match (group.get("api"), &before) {
            (Some(stated), _) => wire(stated),
            // Servers that are compatible with OpenAI speak this; only OpenAI itself is sure to speak more.
            (None, Some(_)) if moved && group.name == "openai" => Some(Wire::ChatCompletions),
            (None, Some(before)) => before.api,
            (None, None) => None,
        };
        let key = match (group.get("key_env"), group.get("key_file"), before) {
            (Some(_), Some(second), _) => {
                let why = format!("`{}`: there are a key_env and a key_file", group.key());
                return Err(wrong(&second.origin, &why).hint("keep one of them"));
            }
            (Some(stated), None, _) => KeyPlace::Variable(text(stated).to_owned()),
            (None, Some(stated), _) => {
                KeyPlace::File(beside(&stated.value, &stated.origin), stated.origin.clone())
            }
            // A key belongs to the address that it was made for: another address has to name its own.
            (None, None, Some(before)) if !moved => before.key,
            (None, None, _) => KeyPlace::None,
        };
        let setting = ProviderSetting { base_url, address_from, api, key, is_configured: true };
        self.providers.insert(group.name.clone(), setting);
        Ok(())
    }

    fn candidate(&mut self, group: &NamedTable, said: &mut Said) -> Result<(), Failure> {
        plain_name(group)?;
        let model = group.get("model").ok_or_else(|| missing(group, "model"))?;
        self.check_model(group, &model.origin, text(model))?;
        let whole = |field: &str| group.get(field).and_then(|stated| stated.value.as_whole());
        let candidate = Candidate {
            model: text(model).to_owned(),
            temperature: group.get("temperature").and_then(|stated| stated.value.as_decimal()),
            max_tokens: whole("max_tokens"),
            context_window: whole("context_window"),
        };
        self.treatment(group, &candidate.model, said)?;
        self.roles.entry(group.name.clone()).or_default().push(candidate);
        Ok(())
    }

    /// Applies a role's settings of the model itself. If two roles set the same field, the values must be equal.
    fn treatment(&mut self, group: &NamedTable, model: &str, said: &mut Said) -> Result<(), Failure> {
        if self.provider_of(model).is_none() {
            return Ok(()); // built-in models have no settings
        }
        let entry = self.models.entry(model.to_owned()).or_insert_with(|| ModelEntry::new(model));
        for stated in &group.values {
            if !treat(entry, stated) {
                continue;
            }
            let fact = (model.to_owned(), stated.field.name());
            match said.get(&fact) {
                Some(before) if before.value != stated.value => {
                    let why = format!(
                        "`{}.{}` is not what {} says about the same model",
                        group.key(),
                        stated.field.name(),
                        before.origin
                    );
                    return Err(wrong(&stated.origin, &why).hint("say it once, or twice the same"));
                }
                _ => said.insert(fact, stated.clone()),
            };
        }
        Ok(())
    }

    fn price(&mut self, group: &NamedTable) -> Result<(), Failure> {
        self.check_model(group, &group.origin, &group.name)?;
        if self.provider_of(&group.name).is_none() {
            let why = format!("`{}`: built-in models cost nothing", group.key());
            return Err(wrong(&group.origin, &why).hint("remove this table"));
        }
        let of = |field: &str| {
            let stated = group.get(field).ok_or_else(|| missing(group, field))?;
            Ok::<f64, Failure>(stated.value.as_decimal().unwrap_or_default())
        };
        let price = Price { input_usd_per_million: of("input")?, output_usd_per_million: of("output")? };
        let entry = self.models.entry(group.name.clone());
        entry.or_insert_with(|| ModelEntry::new(&group.name)).price = Some(price);
        Ok(())
    }

    fn check_model(&self, group: &NamedTable, origin: &ValueOrigin, model: &str) -> Result<(), Failure> {
        self.known(model)
            .map_err(|why| wrong(origin, &format!("`{}`: {why}", group.key())).hint(self.there_are()))
    }

    /// Checks that a model's name has a provider, and that the provider exists.
    pub(crate) fn known(&self, model: &str) -> Result<(), String> {
        match model.split_once('/') {
            None if model == "offline" => Ok(()),
            Some(("scripted", file)) if !file.is_empty() => Ok(()),
            Some((provider, name)) if !name.is_empty() && name.trim() == name => {
                if self.providers.contains_key(provider) {
                    return Ok(());
                }
                let meant = question(provider, self.providers.keys().map(String::as_str).chain(["scripted"]));
                Err(format!("there is no provider {:?}{meant}", baton_core::id::excerpt(provider)))
            }
            None => {
                let (shown, whole) = (baton_core::id::excerpt(model), maker(model));
                let meant = match whole {
                    Some(provider) => asked(format!("{provider}/{shown}")),
                    None => question(model, ["offline"]),
                };
                Err(format!("{shown:?} is no model's name{meant}"))
            }
            Some(_) => Err(format!("{:?} is no model's name", baton_core::id::excerpt(model))),
        }
    }

    /// The available providers, as a hint after an unknown one.
    pub(crate) fn there_are(&self) -> String {
        let names: Vec<String> = self.providers.keys().map(|name| format!("{name}/MODEL")).collect();
        format!(
            "there are {}, `offline` and `scripted/FILE`; [providers.NAME] in baton.toml adds a provider",
            names.join(", ")
        )
    }
}

/// The settings of models from roles so far: by model and field.
type Said = BTreeMap<(String, &'static str), Stated>;

/// Applies a field that is about the model itself; returns whether it is one.
fn treat(entry: &mut ModelEntry, stated: &Stated) -> bool {
    let seconds = || std::time::Duration::from_secs(stated.value.as_whole().unwrap_or_default());
    let on = stated.value.as_switch().unwrap_or_default();
    let InlineTags { think_tags, tool_call_tags } = &mut entry.inline_tags;
    match stated.field.name() {
        "api" => entry.api = wire(stated),
        "max_concurrency" => entry.max_concurrency = stated.value.as_whole().map(super::narrow),
        "connect_s" => entry.timeouts.connect = seconds(),
        "first_byte_s" => entry.timeouts.first_byte = seconds(),
        "idle_s" => entry.timeouts.idle = seconds(),
        "total_s" => entry.timeouts.total = seconds(),
        "think_tags" => *think_tags = on,
        "tool_call_tags" => *tool_call_tags = on,
        _ => return false,
    }
    true
}

/// The built-in providers.
fn usual(ollama: &str) -> Result<BTreeMap<String, ProviderSetting>, Failure> {
    let setting = |it: &BuiltIn| {
        let address = if it.name == "ollama" { ollama } else { it.base_url };
        let base_url = Endpoint::parse(address).map_err(|error| Failure::failed(error.to_string()))?;
        let key = it.key_env.map_or(KeyPlace::None, |name| KeyPlace::Variable(name.to_owned()));
        let (api, address_from) = (Some(it.api), ValueOrigin::Default);
        Ok((it.name.to_owned(), ProviderSetting { base_url, address_from, api, key, is_configured: false }))
    };
    built_in::PROVIDERS.iter().map(setting).collect()
}

/// Parses an address that the operator wrote; `key` is the setting that it stands below.
pub(super) fn endpoint(key: &str, address: &str, origin: &ValueOrigin) -> Result<Endpoint, Failure> {
    Endpoint::parse(address).map_err(|error| {
        let hint =
            "write it like http://127.0.0.1:11434 or https://host/v1; a key is named by key_env or key_file";
        wrong(origin, &format!("`{key}`: {}", unusable(&error))).hint(hint)
    })
}

/// The reason why an address is unusable. The address is not repeated, not even its beginning: a URL may hold a key.
pub(super) fn unusable(error: &BadEndpoint) -> &'static str {
    match error {
        BadEndpoint::Syntax(_) => "this is no URL",
        BadEndpoint::Scheme(_) => "only http and https are spoken",
        BadEndpoint::UserInfo => "a user or a password does not belong into a URL",
        BadEndpoint::Query => "a base URL has no query and no fragment",
    }
}

fn wire(stated: &Stated) -> Option<Wire> {
    Wire::ALL.into_iter().find(|wire| wire.as_str() == text(stated))
}

/// The path of a key's file, relative to the folder of the file that names it.
pub(super) fn beside(value: &Value, origin: &ValueOrigin) -> Unshown {
    let named = value.as_key_file().map(|path| path.0.clone()).unwrap_or_default();
    match origin {
        ValueOrigin::File(file, _) => {
            Unshown(file.parent().map_or_else(PathBuf::new, PathBuf::from).join(named))
        }
        _ => Unshown(named),
    }
}

fn text(stated: &Stated) -> &str {
    Value::as_text(&stated.value).unwrap_or_default()
}

/// Checks a provider's name, because names stand before a `/`, in commands and in events.
fn plain_name(group: &NamedTable) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let fits = !group.name.is_empty() && group.name.len() <= 64 && group.name.chars().all(plain);
    if fits {
        return Ok(());
    }
    let why = format!(
        "`{}`: a name is made of small letters, digits, - and _",
        baton_core::id::excerpt(&group.key())
    );
    Err(wrong(&group.origin, &why).hint(format!("choose a name like `{}`", group.section.example)))
}

fn missing(group: &NamedTable, field: &str) -> Failure {
    let example = group.section.field(field).map_or("…", |field| field.example);
    wrong(&group.origin, &format!("`{}`: {field} is missing", group.key()))
        .hint(format!("add a line like {field} = {example}"))
}

/// A failure with the place of the wrong setting.
pub(super) fn wrong(origin: &ValueOrigin, why: &str) -> Failure {
    match origin {
        ValueOrigin::File(path, line) => Failure::usage(format!("{}:{line}: {why}", path.display())),
        ValueOrigin::Environment(name) => Failure::usage(format!("{name}: {why}")),
        ValueOrigin::Flag(_) | ValueOrigin::Default => Failure::usage(why.to_owned()),
    }
}

#[cfg(test)]
mod tests;
