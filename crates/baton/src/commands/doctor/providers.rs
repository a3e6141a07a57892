//! The checks of models and providers: which model answers, and whether the providers do: their keys, their addresses,
//! their models.
//!
//! All providers are asked at once, and every request has a deadline. Keys are never shown, only where they are
//! expected.

use std::time::Duration;

use baton_core::fault::Code;

use super::{Check, CheckState};
use crate::columns::count;
use crate::config::{ProviderSetting, ValueOrigin};
use crate::models::{Chosen, Models, built_in};

/// The deadline of a provider's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How to choose another model.
const CHANGE: &str =
    "choose with --model PROVIDER/NAME, BATON_MODEL, or `model` and [[roles.NAME]] in baton.toml";
const CONNECT: &str = "for a language model: run Ollama and `ollama pull llama3.2:3b`, or set OPENAI_API_KEY or ANTHROPIC_API_KEY, or choose one with --model, BATON_MODEL or `model` in baton.toml; docs/models.md has examples";

/// The check of the model, then one of each provider that is used or configured.
pub(super) async fn checks(models: &Models) -> Vec<Check> {
    let chosen = match models.intended().await {
        Ok(chosen) => chosen,
        Err(failure) => return vec![Check::refused("model", failure)],
    };
    let mut checks = vec![model(models, &chosen)];
    // All of them at once: three silent providers take no longer than one.
    let asked: Vec<_> = used(models, &chosen)
        .into_iter()
        .map(|(name, wanted)| {
            let models = models.clone();
            let title = format!("provider {name}");
            (title, tokio::spawn(async move { looked_at(&models, &name, &wanted).await }))
        })
        .collect();
    for (title, check) in asked {
        checks.push(check.await.unwrap_or_else(|error| Check::failed(title, error.to_string(), CHANGE)));
    }
    checks
}

fn model(models: &Models, chosen: &Chosen) -> Check {
    let everybody = chosen.everybody();
    let mut scripts = everybody.iter().filter(|name| name.starts_with("scripted/"));
    if let Some(fault) = scripts.find_map(|name| models.model(name).err()) {
        return Check::failed("model", fault.message, CHANGE);
    }
    let detail = format!("{} ({}); {}", chosen.who(), chosen.why, chosen.privacy());
    match chosen.answers() {
        "offline" => Check::warning("model", format!("{detail}; it is no language model"), CONNECT),
        _ => Check { fix: Some(CHANGE.to_owned()), ..Check::ok("model", detail) },
    }
}

/// The providers to check, with the models that are wanted of each.
fn used(models: &Models, chosen: &Chosen) -> Vec<(String, Vec<String>)> {
    let everybody = chosen.everybody();
    let of = |provider: &str| {
        let own = |model: &String| Some(model.split_once('/').filter(|(p, _)| *p == provider)?.1.to_owned());
        everybody.iter().filter_map(own).collect::<Vec<String>>()
    };
    let all = models.serving().providers.iter().map(|(name, it)| (name.clone(), of(name), it.is_configured));
    all.filter(|(_, wanted, configured)| *configured || !wanted.is_empty())
        .map(|(name, wanted, _)| (name, wanted))
        .collect()
}

/// A check that warns at most where no role asks the provider.
async fn looked_at(models: &Models, name: &str, wanted: &[String]) -> Check {
    let check = provider(models, name, wanted).await;
    match check.state {
        CheckState::Failed if wanted.is_empty() => {
            let detail = format!("{}; no role asks it", check.detail);
            Check { state: CheckState::Warning, detail, ..check }
        }
        _ => check,
    }
}

async fn provider(models: &Models, name: &str, wanted: &[String]) -> Check {
    let title = format!("provider {name}");
    let Some(setting) = models.serving().providers.get(name) else {
        return Check::failed(title, "it is not there", CHANGE);
    };
    let key = models.key(name);
    if let Some(missing) = key.and_then(|key| key.missing(name)) {
        return Check::refused(title, missing);
    }
    let key = key.map(|key| format!("key: {}", key.in_words())).unwrap_or_default();
    let address = setting.base_url.to_string();
    let open = address.starts_with("http://") && !setting.base_url.is_local();
    let place = format!("{address} ({key}{})", if open { ", not encrypted" } else { "" });
    let catalog = match models.catalog() {
        Ok(catalog) => catalog,
        Err(failure) => return Check::refused(title, failure),
    };
    let patience = built_in::patience(PATIENCE);
    match tokio::time::timeout(patience, catalog.list(name)).await {
        Err(_) => {
            let detail = format!("{place} did not answer within {} s", patience.as_secs());
            Check::failed(title, detail, reach_it(name, setting))
        }
        Ok(Err(fault)) => {
            let fix = match fault.code {
                Code::LlmAuth => {
                    format!("put the right key there; [providers.{name}] says where it is read from")
                }
                _ => reach_it(name, setting),
            };
            Check::failed(title, format!("{place}: {}", fault.message), fix)
        }
        Ok(Ok(listed)) => answers(name, &place, wanted, &listed),
    }
}

/// The check of a provider that answers. A list is no proof that a model is missing: some providers list their models
/// under other names than those that they also accept.
fn answers(name: &str, place: &str, wanted: &[String], listed: &[String]) -> Check {
    let title = format!("provider {name}");
    let has = |model: &&String| listed.contains(model) || listed.contains(&format!("{model}:latest"));
    let missing: Vec<&str> = wanted.iter().filter(|model| !has(model)).map(String::as_str).collect();
    if missing.is_empty() {
        let models = match wanted {
            [] => count(i64::try_from(listed.len()).unwrap_or(i64::MAX), "model", "models"),
            some => some.join(", "),
        };
        return Check::ok(title, format!("{place} answers and has {models}"));
    }
    let names: Vec<String> = missing.iter().map(|model| format!("{name}/{model}")).collect();
    let try_it =
        format!("it may still be known under that name: baton models test {} tries it", names.join(" "));
    let fix = match name {
        "ollama" => format!("ollama pull {} gets it; {try_it}", missing[0]),
        _ => try_it,
    };
    Check::warning(title, format!("{place} answers, and does not list {}", missing.join(", ")), fix)
}

/// The fix for a provider that cannot be reached.
fn reach_it(name: &str, setting: &ProviderSetting) -> String {
    match (name, &setting.address_from) {
        ("ollama", _) => "start it with `ollama serve`; OLLAMA_BASE_URL says where it is".to_owned(),
        (_, ValueOrigin::Default) => {
            "is this machine online? If it needs a proxy, HTTPS_PROXY names it".to_owned()
        }
        _ => format!("is it running, and is `providers.{name}.base_url` right?"),
    }
}
