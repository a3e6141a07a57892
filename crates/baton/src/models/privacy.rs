//! The hosts that the text of a conversation goes to, from the models that may be asked. Pure: it reports them, and
//! prevents nothing.
//!
//! A model without the key that it needs does not count: it is never sent anything.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::policy::{CallRule, Decision, Mode, Policy, Request, ToolRule};
use baton_core::role::{CODING, Candidate, REASONING, ROUTER, Roles};
use baton_core::tool::{EffectClass, ToolSpec, Trust};

/// The facts about the providers and services that are not on this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Away {
    /// The hosts of the providers that are not on this machine.
    pub(crate) hosts: BTreeMap<String, String>,
    /// The providers whose key should be there and is not.
    pub(crate) keyless: BTreeSet<String>,
    /// The host of the search service, if it is not on this machine.
    pub(crate) search: Option<String>,
    /// The collector of spans, if it is not on this machine.
    pub(crate) collector: Option<EventReceiver>,
    /// The host of the execution service, if it is not on this machine.
    pub(crate) execution: Option<String>,
    /// The context service, which receives events, if it is not on this machine.
    pub(crate) context: Option<EventReceiver>,
    /// Whether pages may be visited, before a policy decides about a request.
    pub(crate) visits: bool,
}

/// A service on another machine that receives data about runs: their spans, or when they begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventReceiver {
    /// Its host.
    pub(crate) host: String,
    /// Whether the data includes the content of messages.
    pub(crate) content: bool,
}

impl Away {
    fn host(&self, model: &str) -> Option<&String> {
        self.hosts.get(model.split('/').next()?)
    }

    fn can_be_asked(&self, model: &str) -> bool {
        model.split('/').next().is_none_or(|provider| !self.keyless.contains(provider))
    }
}

/// The hosts that the text of a conversation goes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Destinations {
    /// The hosts of the models that are asked first: for reasoning, and for short questions.
    pub(super) first: Vec<String>,
    /// The hosts of the models that stand in where one of these fails, and which one.
    pub(super) stand_ins: Option<(String, Vec<String>)>,
    /// Further hosts, of roles that only some agents ask for.
    pub(super) other_roles: Vec<String>,
    /// Whether the model that is meant to answer is elsewhere and has no key.
    pub(super) lacks_its_key: bool,
    /// The host that searches go to. The words of a search are not the conversation, but may hold any of it.
    pub(super) searches: Option<String>,
    /// The collector of spans.
    pub(super) watcher: Option<EventReceiver>,
    /// The host of the tools that are called elsewhere. Their arguments may hold any of it as well.
    pub(super) execution: Option<String>,
    /// The context service.
    pub(super) context: Option<EventReceiver>,
    /// Whether pages may be visited. Their addresses come from a model, and may hold any of it, too.
    pub(super) visits: bool,
}

impl Destinations {
    /// The hosts for these models; `model` answers in roles without a list.
    pub(super) fn of(model: &str, roles: &Roles, away: &Away) -> Destinations {
        let list = |role: &str| -> Vec<&str> {
            match roles.get(role).filter(|list| !list.is_empty()) {
                Some(list) => list.iter().map(|candidate: &Candidate| candidate.model.as_str()).collect(),
                None => vec![model],
            }
        };
        let (thinks, quick) = (list(REASONING), list(ROUTER));
        let asked = |models: Vec<&'_ str>| -> Vec<String> {
            models.into_iter().filter(|name| away.can_be_asked(name)).map(str::to_owned).collect()
        };
        let ladders = [asked(thinks.clone()), asked(quick)];
        let mut first: Vec<String> = ladders.iter().filter_map(|ladder| ladder.first().cloned()).collect();
        first.dedup();
        let (searches, watcher) = (away.search.clone(), away.collector.clone());
        let (execution, context, visits) = (away.execution.clone(), away.context.clone(), away.visits);
        let mut found =
            Destinations { searches, watcher, execution, context, visits, ..Destinations::default() };
        found.first = found.new_hosts(first.iter().cloned(), away);
        let stand_ins = found.new_hosts(ladders.into_iter().flatten(), away);
        let who = if let [one] = first.as_slice() { one.clone() } else { "one of them".to_owned() };
        found.stand_ins = (!stand_ins.is_empty()).then_some((who, stand_ins));
        let added = roles.keys().filter(|name| *name != REASONING && *name != ROUTER);
        let others = added.map(String::as_str).chain([CODING]).flat_map(|role| asked(list(role)));
        found.other_roles = found.new_hosts(others.chain(asked(vec![model])), away);
        found.lacks_its_key =
            thinks.first().is_some_and(|name| away.host(name).is_some() && !away.can_be_asked(name));
        found
    }

    /// All hosts that text may go to.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let stand_ins = self.stand_ins.iter().flat_map(|(_, hosts)| hosts);
        let mut all: Vec<String> =
            self.first.iter().chain(stand_ins).chain(&self.other_roles).cloned().collect();
        all.sort();
        all
    }

    /// The hosts in words.
    pub(super) fn in_words(&self) -> String {
        let mut words = match self.first.as_slice() {
            [] => {
                let until = self.lacks_its_key && self.hosts().is_empty();
                let until = if until { " until it has its key" } else { "" };
                format!("nothing{} leaves this machine{until}", self.but())
            }
            hosts => format!("text goes to {}", hosts.join(" and ")),
        };
        if let Some((first, hosts)) = &self.stand_ins {
            words.push_str(&format!("; if {first} fails, text goes to {}", hosts.join(", ")));
        }
        if !self.other_roles.is_empty() {
            words.push_str(&format!("; in other roles, text goes to {}", self.other_roles.join(", ")));
        }
        if let Some(host) = &self.searches {
            words.push_str(&format!("; searches go to {host}"));
        }
        if let Some(host) = &self.execution {
            words.push_str(&format!("; calls of its tools go to {host}"));
        }
        for (what, watcher) in [("telemetry goes", &self.watcher), ("events go", &self.context)] {
            if let Some(EventReceiver { host, content }) = watcher {
                let all = if *content { ", with all that is said" } else { "" };
                words.push_str(&format!("; {what} to {host}{all}"));
            }
        }
        words
    }

    /// The same in few words: one host by its name and the rest by their number, for all kinds of data together.
    pub(super) fn in_brief(&self) -> String {
        let mut all = self.first.clone();
        let watchers = [&self.watcher, &self.context].into_iter().flatten().map(|watcher| &watcher.host);
        let further = self.searches.iter().chain(&self.execution).chain(watchers).cloned();
        for host in self.hosts().into_iter().chain(further) {
            if !all.contains(&host) {
                all.push(host);
            }
        }
        let goes = if self.first.is_empty() { "text may go to" } else { "text goes to" };
        match all.as_slice() {
            [] if self.visits => "only page visits leave this machine".to_owned(),
            [] => "nothing leaves this machine".to_owned(),
            [only] => format!("{goes} {only}"),
            [one, rest @ ..] => format!("{goes} {one} and {} more", rest.len()),
        }
    }

    /// The data that leaves this machine even if every model is here, in words.
    fn but(&self) -> String {
        let searches = self.searches.iter().map(|_| "searches");
        let visits = self.visits.then_some("page visits");
        let calls = self.execution.iter().map(|_| "calls of tools");
        let telemetry = self.watcher.iter().map(|_| "telemetry");
        let events = self.context.iter().map(|_| "events");
        let all: Vec<&str> = searches.chain(visits).chain(calls).chain(telemetry).chain(events).collect();
        match all.as_slice() {
            [] => String::new(),
            [one] => format!(" but {one}"),
            [rest @ .., last] => format!(" but {} and {last}", rest.join(", ")),
        }
    }

    /// The same under a policy's decision, which says whether pages may be visited.
    pub(super) fn by(&self, decision: &Decision) -> Destinations {
        Destinations { visits: may_visit(decision), ..self.clone() }
    }

    /// The hosts of these that are not among the known ones, each once.
    fn new_hosts(&self, models: impl Iterator<Item = String>, away: &Away) -> Vec<String> {
        let (known, mut new) = (self.hosts(), Vec::<String>::new());
        for host in models.filter_map(|name| away.host(&name).cloned()) {
            if !known.contains(&host) && !new.contains(&host) {
                new.push(host);
            }
        }
        new
    }
}

/// The tool that visits pages, with the fields that a policy looks at.
fn fetch_url() -> ToolSpec {
    let (name, class) = ("fetch_url".to_owned(), EffectClass::SideEffectFree);
    ToolSpec { name, class, trust: Trust::BUILT_IN, ..ToolSpec::default() }
}

fn may_visit(decision: &Decision) -> bool {
    decision.tool_rule != ToolRule::None && decision.call(&fetch_url().name) != CallRule::Denied
}

/// Whether a policy lets pages be visited in a request without a channel and mode.
pub(super) fn visits_by(policy: &Policy) -> bool {
    let usual = Request { mode: Mode::default(), channel: "CHAT" };
    policy.evaluate(&usual, &[fetch_url()]).is_ok_and(|decision| may_visit(&decision))
}

#[cfg(test)]
mod tests;
