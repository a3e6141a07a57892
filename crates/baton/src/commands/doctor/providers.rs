//! Who would answer, and whether those who serve models do: their keys, their addresses, their models.
//!
//! Every look has a limit of time. Keys are never shown, only where they are expected.

use std::time::Duration;

use baton_core::fault::Code;

use super::Check;
use crate::models::{Chosen, Models};

/// How long a provider has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How to choose, for whoever wants another model.
const CHANGE: &str =
    "choose with --model PROVIDER/NAME, BATON_MODEL, or `model` and [[roles.NAME]] in baton.toml";
const CONNECT: &str = "for a language model: run Ollama and `ollama pull llama3.2:3b`, or set OPENAI_API_KEY or ANTHROPIC_API_KEY, or choose one with --model, BATON_MODEL or `model` in baton.toml; docs/models.md has examples";

/// The check of the model, then one of each provider that is used or configured.
pub(super) async fn checks(models: &Models) -> Vec<Check> {
    let chosen = match models.choose().await {
        Ok(chosen) => chosen,
        Err(failure) => return vec![Check::refused("model", failure)],
    };
    let mut checks = vec![model(&chosen)];
    for (name, wanted) in used(models, &chosen) {
        checks.push(provider(models, &name, &wanted).await);
    }
    checks
}

fn model(chosen: &Chosen) -> Check {
    let detail = format!("{} ({}); {}", chosen.answers(), chosen.why, chosen.privacy());
    match chosen.answers() {
        "offline" => Check::warning("model", format!("{detail}; it is no language model"), CONNECT),
        _ => Check { fix: Some(CHANGE.to_owned()), ..Check::ok("model", detail) },
    }
}

/// The providers that are worth a look, with the models that are wanted of them.
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
    let listed = match tokio::time::timeout(PATIENCE, catalog.list(name)).await {
        Err(_) => {
            let detail = format!("{place} did not answer within {} s", PATIENCE.as_secs());
            return Check::failed(title, detail, start_it(name));
        }
        Ok(Err(fault)) => {
            let fix = match fault.code {
                Code::LlmAuth => {
                    format!("put the right key there; [providers.{name}] says where it is read from")
                }
                _ => start_it(name),
            };
            return Check::failed(title, format!("{place}: {}", fault.message), fix);
        }
        Ok(Ok(listed)) => listed,
    };
    let has = |model: &&String| listed.contains(model) || listed.contains(&format!("{model}:latest"));
    match wanted.iter().find(|model| !has(model)) {
        Some(missing) => {
            let fix = match name {
                "ollama" => format!("ollama pull {missing}"),
                _ => format!("baton models test {name}/{missing} asks it; perhaps its name is another one"),
            };
            Check::failed(title, format!("{place} answers, and does not list {missing}"), fix)
        }
        None => {
            let models = match wanted {
                [] => format!("{} models", listed.len()),
                some => some.join(", "),
            };
            Check::ok(title, format!("{place} answers and has {models}"))
        }
    }
}

fn start_it(name: &str) -> String {
    match name {
        "ollama" => "start it with `ollama serve`; OLLAMA_BASE_URL says where it is".to_owned(),
        _ => format!("is it running, and is `providers.{name}.base_url` right?"),
    }
}
