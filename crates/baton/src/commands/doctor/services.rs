//! Whether the services around answer. One that is not named is not looked for.

use baton_core::tool::ToolSpec;

use super::Check;
use crate::config::Config;
use crate::models::host_of;
use crate::services;

/// One check a service.
pub(super) async fn checks(config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(setting) = &config.services.execution {
        let name = "execution service";
        let host = shown(&setting.url);
        let fix = "is it running, and are `services.execution.url` and its token right?";
        checks.push(match services::offered(setting).await {
            Err(failure) => Check::refused(name, failure),
            Ok(Err(why)) => Check::warning(name, format!("{host}: {why}"), fix),
            Ok(Ok(specs)) => Check::ok(name, format!("{host} offers {}", names(&specs))),
        });
    }
    if let Some(setting) = &config.services.context {
        let text = if config.engine.audit.with_text { ", with what is said" } else { "" };
        let detail = format!("{} is told when runs begin and end{text}", shown(&setting.url));
        checks.push(Check::ok("context service", detail));
    }
    checks
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
