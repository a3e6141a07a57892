//! Whether the configured services answer. A service that is not configured is not checked.

use baton_core::tool::ToolSpec;
use baton_store::Store;
use baton_tools::execution::{PIN_PREFIX, ToolOffer, apply_pins};

use super::Check;
use crate::config::{Config, KeyPlace};
use crate::models::{host_of, look_for};
use crate::services;

/// One check per service. Without the store it is not known which tools were accepted.
pub(super) async fn checks(config: &Config, store: Option<&Store>) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(setting) = &config.services.execution {
        let name = "execution service";
        let host = format!("{}{}", shown(&setting.url), doubt(&setting.token));
        let fix = "is it running, and are `services.execution.url` and its token right?";
        checks.push(match services::offered(setting).await {
            Err(failure) => Check::refused(name, failure),
            Ok(Err(why)) => Check::warning(name, format!("{host}: {why}"), fix),
            Ok(Ok(specs)) => offer(name, &host, specs, store).await,
        });
    }
    if let Some(setting) = &config.services.context {
        let text = if config.engine.audit.with_text { ", with what is said" } else { "" };
        let host = shown(&setting.url);
        let detail = format!("{host} is told when runs begin and end{text}{}", doubt(&setting.token));
        checks.push(Check::ok("context service", detail));
    }
    checks
}

/// The tools that a service offers, and those of them that changed and wait to be accepted.
async fn offer(name: &'static str, host: &str, specs: Vec<ToolSpec>, store: Option<&Store>) -> Check {
    let pins = match store {
        Some(store) => store.remembered(PIN_PREFIX).await.unwrap_or_default(),
        None => Vec::new(), // without the store no change can be known
    };
    let (offer, _) = apply_pins(ToolOffer { specs, skipped: Vec::new() }, &pins);
    let detail = format!("{host} offers {}", names(&offer.specs));
    let changed: Vec<&str> = offer.skipped.iter().map(|tool| tool.name.as_str()).collect();
    if changed.is_empty() {
        return Check::ok(name, detail);
    }
    let commands: Vec<String> = changed.iter().map(|tool| format!("baton tools accept {tool}")).collect();
    let detail = format!("{detail}; changed, and left out until they are accepted: {}", changed.join(", "));
    Check::warning(name, detail, format!("look at what changed and accept it: {}", commands.join("; ")))
}

/// The problem with a token that is there.
fn doubt(token: &KeyPlace) -> String {
    let key = look_for(token, &|name: &str| std::env::var_os(name));
    match key.secret() {
        Some(secret) if secret.is_too_short() => format!(" (token: {})", key.in_words()),
        _ => String::new(),
    }
}

fn shown(url: &str) -> String {
    url.parse().map_or_else(|_| "it".to_owned(), |endpoint| host_of(&endpoint))
}

fn names(specs: &[ToolSpec]) -> String {
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    match names.as_slice() {
        [] => "no tools".to_owned(),
        names => names.join(", "),
    }
}
