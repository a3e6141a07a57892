//! The web tools of the settings, and the operator's overrides of tools.
//!
//! `fetch_url` is always there, behind its guard; `web_search` only where a search service is configured. A search
//! service that lacks its key keeps its tool, which reports that when it is called: nothing else stops working because
//! of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use baton_core::tool::{ToolSpec, WEB_SEARCH};
use baton_tools::{SearchProvider, Secret, Tool, TrustOverride, Web, WebError, web};

use crate::config::{SearchServiceKind, SearchSetting, ValueOrigin, WebSetting, nearest};
use crate::failure::Failure;
use crate::models::{Key, look_for};

const FETCH_URL: &str = "fetch_url";

/// The web tools.
pub(crate) fn tools(setting: &WebSetting) -> Result<Vec<Arc<dyn Tool>>, Failure> {
    let environment = |name: &str| std::env::var_os(name);
    let search = setting.search.as_ref().map(|search| service(search, &environment));
    let made = |search| web(Web { search, egress: setting.rules.clone(), limits: setting.limits });
    let made = match made(search) {
        Err(error @ WebError::Key) => made(Some(SearchProvider::Keyless { why: sentence(&error) })),
        made => made,
    };
    made.map_err(|error| Failure::usage(error.to_string()).hint("correct [search] in baton.toml"))
}

/// The key of a search service, or why it is missing.
pub(crate) fn key(search: &SearchSetting, environment: &dyn Fn(&str) -> Option<OsString>) -> Key {
    look_for(&search.key, environment)
}

/// A search service with its key, or without the one that it lacks.
pub(crate) fn service(
    search: &SearchSetting,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> SearchProvider {
    let base = search.base.as_ref().map(ToString::to_string);
    let key = key(search, environment);
    if let Some(why) = key.lacking() {
        return SearchProvider::Keyless { why: format!("The search service lacks its key: {why}.") };
    }
    let key = key.secret().map_or_else(|| Secret::new(""), |key| Secret::new(key.expose()));
    match search.service {
        SearchServiceKind::Searxng => SearchProvider::Searxng { base: base.unwrap_or_default() },
        SearchServiceKind::Brave => SearchProvider::Brave { key, base },
        SearchServiceKind::Tavily => SearchProvider::Tavily { key, base },
    }
}

/// The overrides of existing tools; those of an unknown tool only where more tools may come.
pub(crate) fn trust(
    setting: &WebSetting,
    tools: &[Arc<dyn Tool>],
    more_may_come: bool,
) -> Result<BTreeMap<String, TrustOverride>, Failure> {
    let known = || tools.iter().map(|tool| tool.spec().name.as_str());
    let mut trust = BTreeMap::new();
    for (name, (said, origin)) in &setting.tools {
        let Some(tool) = tools.iter().find(|tool| tool.spec().name == *name) else {
            if more_may_come {
                continue;
            }
            return Err(unknown(name, origin, nearest(name, known())));
        };
        if let Some(failure) = too_long(tool.spec(), said, origin) {
            return Err(failure);
        }
        trust.insert(name.clone(), *said);
    }
    Ok(trust)
}

/// The failure for a timeout that is longer than the tool's own.
fn too_long(spec: &ToolSpec, said: &TrustOverride, origin: &ValueOrigin) -> Option<Failure> {
    let at_most = Duration::from_millis(spec.timeout_ms).as_secs();
    let hint = match spec.name.as_str() {
        FETCH_URL => format!("`egress.timeout_s` says how long a visit may take; or say {at_most} at most"),
        WEB_SEARCH => format!("say {at_most} at most"),
        _ => return None,
    };
    let (name, place) = (&spec.name, place(origin));
    let why = format!("{place}`tools.{name}.timeout_s`: it stops by itself within {at_most} s");
    (said.timeout_ms > Some(spec.timeout_ms)).then(|| Failure::usage(why).hint(hint))
}

fn place(origin: &ValueOrigin) -> String {
    match origin {
        ValueOrigin::File(file, line) => format!("{}:{line}: ", file.display()),
        _ => String::new(),
    }
}

fn unknown(name: &str, origin: &ValueOrigin, meant: Option<&str>) -> Failure {
    let place = place(origin);
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    let shown = baton_core::id::excerpt(name);
    match name {
        WEB_SEARCH => {
            Failure::usage(format!("{place}`tools.{name}`: nobody answers searches, so it is not there"))
                .hint("[search] says who answers them; docs/web.md has examples")
        }
        _ => Failure::usage(format!("{place}`tools.{shown}`: there is no tool of that name{meant}"))
            .hint("remove this table and see `baton tools ls`"),
    }
}

fn sentence(error: &WebError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    format!("{}{}.", first.map(String::from).unwrap_or_default(), letters.as_str())
}
