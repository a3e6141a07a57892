//! Whether the services around answer. One that is not named is not looked for.

use baton_core::tool::ToolSpec;

use super::Check;
use crate::config::{Config, KeyPlace};
use crate::models::{host_of, look_for};
use crate::services;

/// One check a service.
pub(super) async fn checks(config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(setting) = &config.services.execution {
        let name = "execution service";
        let host = format!("{}{}", shown(&setting.url), doubt(&setting.token));
        let fix = "is it running, and are `services.execution.url` and its token right?";
        checks.push(match services::offered(setting).await {
            Err(failure) => Check::refused(name, failure),
            Ok(Err(why)) => Check::warning(name, format!("{host}: {why}"), fix),
            Ok(Ok(specs)) => Check::ok(name, format!("{host} offers {}", names(&specs))),
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

/// What is wrong with a token that is there.
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
