//! Whether the search service answers, and which pages may be visited.
//!
//! The search service is checked without a search and without its key, because either may cost something: whether the
//! key is right shows in the first search.

use std::time::Duration;

use baton_tools::probe_search;

use super::Check;
use crate::config::{SearchSetting, WebSetting};
use crate::models::built_in;
use crate::web;

/// The deadline of the service's answer.
const PATIENCE: Duration = Duration::from_secs(2);

const CONFIGURE: &str = "[search] in baton.toml says who answers searches; docs/web.md has examples";

/// One check of searches and one of visits.
pub(super) async fn checks(setting: &WebSetting) -> Vec<Check> {
    let searches = match &setting.search {
        None => {
            Check { fix: Some(CONFIGURE.to_owned()), ..Check::ok("search", "nobody is named: no web_search") }
        }
        Some(search) => searched(search).await,
    };
    let visits = match setting.exceptions.as_slice() {
        [] => "fetch_url visits public addresses over https, and nothing else".to_owned(),
        some => format!("fetch_url visits public addresses over https, and {}", some.join(", ")),
    };
    vec![searches, Check::ok("egress", visits)]
}

async fn searched(search: &SearchSetting) -> Check {
    let environment = |name: &str| std::env::var_os(name);
    let key = web::key(search, &environment);
    let name = search.service.name();
    if let Some(why) = key.lacking() {
        let fix = "put it there; `search.key_env` and `search.key_file` name another place";
        return Check::failed("search", format!("the key of {name} is missing: {why}"), fix);
    }
    let place = format!("{name} at {} (key: {})", search.host(), key.in_words());
    let patience = built_in::patience(PATIENCE);
    let service = web::service(search, &environment);
    let reach_it = "is it running, and is `search.url` right?";
    match tokio::time::timeout(patience, probe_search(service)).await {
        Err(_) => Check::failed(
            "search",
            format!("{place} did not answer within {} s", patience.as_secs()),
            reach_it,
        ),
        Ok(Err(why)) => Check::failed("search", format!("{place}: {why}"), reach_it),
        Ok(Ok(())) => Check::ok("search", format!("{place} answers")),
    }
}
