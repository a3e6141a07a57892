//! `baton models ls`: the roles and their models.

use baton_core::role::Candidate;
use serde_json::{Value, json};

use crate::columns::columns;
use crate::config::ConfigWarning;
use crate::failure::{Failure, exit};
use crate::models::{Chosen, Key, Models};
use crate::shape;
use crate::terminal::{line, note, plain};

/// Runs the command.
pub(super) async fn run(models: &Models, doubts: &[ConfigWarning], json: bool) -> Result<u8, Failure> {
    let chosen = models.intended().await?;
    if json {
        line(shape::pretty(&document(models, doubts, &chosen)))?;
        return Ok(exit::OK);
    }
    note(plain(&super::in_one_line(&chosen)));
    for doubt in doubts {
        note(plain(&format!("warning: {}", doubt.what)));
    }
    let rows: Vec<_> = chosen.role_names().into_iter().flat_map(|role| rows(models, &chosen, role)).collect();
    line(plain(&columns(["ROLE", "MODEL", "WHERE", "API", "CONTEXT", "USD PER MILLION", "KEY"], &rows)))?;
    Ok(exit::OK)
}

fn rows(models: &Models, chosen: &Chosen, role: &str) -> Vec<[String; 7]> {
    let row = |(nth, candidate): (usize, &Candidate)| {
        let known = ModelFacts::of(models, &candidate.model);
        [
            if nth == 0 { role.to_owned() } else { String::new() },
            candidate.model.clone(),
            known.place,
            known.api.unwrap_or(if known.provider.is_some() { "found out" } else { "-" }).to_owned(),
            candidate.context_window.map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
            known.price.map_or_else(|| "not known".to_owned(), |(i, o)| format!("{i} in, {o} out")),
            known.key.map_or_else(|| "-".to_owned(), Key::in_words),
        ]
    };
    chosen.role(role).iter().enumerate().map(row).collect()
}

/// The facts about a model that are known without asking it.
struct ModelFacts<'a> {
    provider: Option<&'a str>,
    /// The provider's host, or this machine, as shown.
    place: String,
    base_url: Option<String>,
    api: Option<&'static str>,
    price: Option<(f64, f64)>,
    key: Option<&'a Key>,
}

impl<'a> ModelFacts<'a> {
    fn of(models: &'a Models, model: &str) -> ModelFacts<'a> {
        let here = || "this machine".to_owned();
        let Some((name, provider)) = models.serving().provider_of(model) else {
            let (place, price) = (here(), Some((0.0, 0.0)));
            return ModelFacts { provider: None, place, base_url: None, api: None, price, key: None };
        };
        let entry = models.serving().models.get(model);
        let local = provider.base_url.is_local();
        let price = entry.and_then(|entry| entry.price);
        let price = price.map(|price| (price.input_usd_per_million, price.output_usd_per_million));
        ModelFacts {
            provider: Some(name),
            place: if local { here() } else { crate::models::host_of(&provider.base_url) },
            base_url: Some(provider.base_url.to_string()),
            api: entry.and_then(|entry| entry.api).or(provider.api).map(|wire| wire.as_str()),
            price: price.or(local.then_some((0.0, 0.0))),
            key: models.key(name),
        }
    }
}

fn document(models: &Models, doubts: &[ConfigWarning], chosen: &Chosen) -> Value {
    let candidate = |candidate: &Candidate| {
        let known = ModelFacts::of(models, &candidate.model);
        json!({
            "model": candidate.model,
            "provider": known.provider,
            "base_url": known.base_url,
            "api": known.api,
            "local": known.place == "this machine",
            "temperature": candidate.temperature,
            "max_tokens": candidate.max_tokens,
            "context_window": candidate.context_window,
            "price": known.price.map(|(input, output)| json!({"input": input, "output": output})),
            "key": known.key.map(Key::in_words),
        })
    };
    let role = |role: &str| {
        let candidates: Vec<Value> = chosen.role(role).iter().map(candidate).collect();
        json!({"role": role, "candidates": candidates})
    };
    json!({
        "why": chosen.why,
        "leaves_this_machine": chosen.leaves_this_machine(),
        "hosts": chosen.text.hosts(),
        "warnings": doubts.iter().map(|doubt| doubt.what.as_str()).collect::<Vec<_>>(),
        "roles": chosen.role_names().into_iter().map(role).collect::<Vec<_>>(),
    })
}
