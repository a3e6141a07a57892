//! The settings of `[search]`, `[egress]` and `[tools.NAME]`: the search service, the pages that may be visited, and
//! the operator's overrides of tools.
//!
//! Values only, checked against one another. Whether a tool of that name exists is checked where the tools are built;
//! no key is read here.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_model::Endpoint;
use baton_tools::TrustOverride;
use baton_tools::egress::{Exception, FetchLimits, Rules};

use super::groups::NamedTable;
use super::named::{Section, field};
use super::serving::{beside, endpoint, wrong};
use super::value::ValueKind;
use super::{KeyPlace, ResolvedConfig, ResolvedSetting, Value, ValueOrigin};
use crate::failure::Failure;

const ITS_OWN: &str = "what the tool says of itself: `baton tools ls` shows it";

/// The section of the operator's overrides of tools.
pub(super) const TOOLS: Section = Section {
    key: "tools",
    is_list: false,
    example: "read_file",
    doc: "What you say of a tool, in place of what it says of itself; `baton tools ls` shows the tools that there are. A name that no tool has is refused.",
    fields: &[
        field(
            "tools.*.enabled",
            ValueKind::Switch,
            "true",
            "false",
            "Whether it is there. Without `ask_user`, an agent cannot ask back.",
        ),
        field(
            "tools.*.approve",
            ValueKind::Switch,
            "false",
            "true",
            "Whether a person is asked about every call of it.",
        ),
        field(
            "tools.*.untrusted_output",
            ValueKind::Switch,
            ITS_OWN,
            "true",
            "Whether what it returns was written by strangers. Once such text is on a branch, calls that send something out need approval there.",
        ),
        field(
            "tools.*.private_output",
            ValueKind::Switch,
            ITS_OWN,
            "true",
            "Whether what it returns is private, as files and logs are. Once it is on a branch, whatever sends something out needs approval there: also searches, and visits of addresses that a search found.",
        ),
        field("tools.*.egress", ValueKind::Switch, ITS_OWN, "true", "Whether its calls send something out."),
        field(
            "tools.*.timeout_s",
            ValueKind::Whole(1, 86_400),
            ITS_OWN,
            "60",
            "How long one call may take, in seconds.",
        ),
    ],
};

/// The settings of the web tools.
#[derive(Debug, Clone)]
pub(crate) struct WebSetting {
    /// The search service, if any.
    pub(crate) search: Option<SearchSetting>,
    /// The rules of the addresses that may be visited.
    pub(crate) rules: Rules,
    /// The exceptions as they are written.
    pub(crate) exceptions: Vec<String>,
    /// The limits of a visit.
    pub(crate) limits: FetchLimits,
    /// The overrides of tools, each with its origin.
    pub(crate) tools: BTreeMap<String, (TrustOverride, ValueOrigin)>,
}

impl WebSetting {
    /// The overrides of tools, without their origins.
    pub(crate) fn tools_said(&self) -> serde_json::Map<String, serde_json::Value> {
        let said = |(name, (said, _)): (&String, &(TrustOverride, ValueOrigin))| {
            let TrustOverride { enabled, untrusted_output, private_output, egress, approve, timeout_ms } =
                said;
            let said = serde_json::json!({
                "enabled": enabled, "untrusted_output": untrusted_output, "private_output": private_output,
                "egress": egress, "approve": approve, "timeout_ms": timeout_ms,
            });
            (name.clone(), said)
        };
        self.tools.iter().map(said).collect()
    }
}

/// The search service.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SearchSetting {
    pub(crate) service: SearchServiceKind,
    /// Its address, if not the usual one.
    pub(crate) base: Option<Endpoint>,
    pub(crate) key: KeyPlace,
}

/// The supported search services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchServiceKind {
    Searxng,
    Brave,
    Tavily,
}

impl SearchServiceKind {
    pub(super) const NAMES: &'static [&'static str] = &["searxng", "brave", "tavily"];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SearchServiceKind::Searxng => "searxng",
            SearchServiceKind::Brave => "brave",
            SearchServiceKind::Tavily => "tavily",
        }
    }

    /// Its usual host, and the usual variable of its key.
    fn usual(self) -> Option<(&'static str, &'static str)> {
        match self {
            SearchServiceKind::Searxng => None,
            SearchServiceKind::Brave => Some(("api.search.brave.com", "BRAVE_API_KEY")),
            SearchServiceKind::Tavily => Some(("api.tavily.com", "TAVILY_API_KEY")),
        }
    }
}

impl SearchSetting {
    /// The host that searches go to.
    pub(crate) fn host(&self) -> String {
        match (&self.base, self.service.usual()) {
            (Some(base), _) => crate::models::host_of(base),
            (None, Some((host, _))) => host.to_owned(),
            (None, None) => "?".to_owned(),
        }
    }

    /// Whether searches stay on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.base.as_ref().is_some_and(Endpoint::is_local)
    }
}

impl WebSetting {
    /// Puts the settings together.
    pub(super) fn of(resolved: &ResolvedConfig) -> Result<WebSetting, Failure> {
        let tools = resolved.groups.iter().filter(|group| group.section.key == TOOLS.key);
        let exceptions = resolved.names("egress.allow");
        Ok(WebSetting {
            search: search(resolved)?,
            rules: rules(resolved, &exceptions)?,
            exceptions,
            limits: FetchLimits {
                time: resolved.seconds("egress.timeout_s"),
                bytes: resolved
                    .whole("egress.max_bytes")
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or_default(),
                ..FetchLimits::default()
            },
            tools: tools.map(|group| (group.name.clone(), (said(group), group.origin.clone()))).collect(),
        })
    }
}

fn said(group: &NamedTable) -> TrustOverride {
    let switch = |field: &str| group.get(field).and_then(|stated| stated.value.as_switch());
    let seconds = group.get("timeout_s").and_then(|stated| stated.value.as_whole());
    let ms = |seconds| u64::try_from(Duration::from_secs(seconds).as_millis()).unwrap_or(u64::MAX);
    TrustOverride {
        enabled: switch("enabled"),
        untrusted_output: switch("untrusted_output"),
        private_output: switch("private_output"),
        egress: switch("egress"),
        approve: switch("approve"),
        timeout_ms: seconds.map(ms),
    }
}

fn rules(resolved: &ResolvedConfig, exceptions: &[String]) -> Result<Rules, Failure> {
    let mut rules = Rules::default();
    for (nth, entry) in exceptions.iter().enumerate() {
        let exception = Exception::parse(entry).map_err(|_| {
            let origin = resolved.get("egress.allow").map_or(&ValueOrigin::Default, |found| &found.origin);
            let why = format!("`egress.allow`: entry {} is not a host with a port", nth + 1);
            wrong(origin, &why)
                .hint("write it like \"wiki.example.com:8080\", \"10.0.0.7:80\" or \"[fd00::7]:443\"")
        })?;
        rules.allow.push(exception);
    }
    Ok(rules)
}

fn search(resolved: &ResolvedConfig) -> Result<Option<SearchSetting>, Failure> {
    let set = |key: &str| resolved.get(key).filter(|found| found.value.is_some());
    let others = ["search.url", "search.key_env", "search.key_file"];
    let service = match resolved.text("search.provider").as_str() {
        "searxng" => SearchServiceKind::Searxng,
        "brave" => SearchServiceKind::Brave,
        "tavily" => SearchServiceKind::Tavily,
        _ => match others.into_iter().find_map(set) {
            None => return Ok(None),
            Some(found) => {
                let why = format!("`{}` is set, and `search.provider` is not", found.setting.key);
                let hint = format!("add a line like provider = \"{}\"", SearchServiceKind::Searxng.name());
                return Err(wrong(&found.origin, &why).hint(hint));
            }
        },
    };
    let at = |key: &str| set(key).map_or(ValueOrigin::Default, |found| found.origin.clone());
    let base = match set("search.url") {
        Some(found) => Some(endpoint("search.url", text(found), &found.origin)?),
        None if service == SearchServiceKind::Searxng => {
            let why = "`search.provider` is \"searxng\", and `search.url` is not set";
            return Err(
                wrong(&at("search.provider"), why).hint("add a line like url = \"http://127.0.0.1:8888\"")
            );
        }
        None => None,
    };
    let key = match (set("search.key_env"), set("search.key_file"), service.usual()) {
        (Some(_), Some(second), _) => {
            let why = "`search`: there are a key_env and a key_file";
            return Err(wrong(&second.origin, why).hint("keep one of them"));
        }
        (Some(found), None, None) | (None, Some(found), None) => {
            let why = format!("`{}`: searxng takes no key", found.setting.key);
            return Err(wrong(&found.origin, &why).hint("remove this line"));
        }
        (None, None, None) => KeyPlace::None,
        (Some(found), None, _) => KeyPlace::Variable(text(found).to_owned()),
        (None, Some(found), _) => {
            let value = found.value.clone().unwrap_or(Value::Switch(false));
            KeyPlace::File(beside(&value, &found.origin), found.origin.clone())
        }
        // A key belongs to the address that it was made for: another address has to name its own.
        (None, None, Some(_)) if base.is_some() => {
            let why = "`search.url` is not the service's own address, and no key is named for it";
            return Err(wrong(&at("search.url"), why).hint("add a line like key_env = \"SEARCH_KEY\""));
        }
        (None, None, Some((_, variable))) => KeyPlace::Variable(variable.to_owned()),
    };
    Ok(Some(SearchSetting { service, base, key }))
}

fn text(found: &ResolvedSetting) -> &str {
    found.value.as_ref().and_then(Value::as_text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
