//! The decision who answers. Pure: facts go in, the choice and its reason come out.
//!
//! What somebody configured is never replaced by the offline model: if it is down, the run says so.

use std::collections::BTreeMap;

use baton_core::role::{CODING, Candidate, REASONING, ROUTER, Roles};

use super::built_in;
use crate::config::Origin;

/// The roles that there always are.
const ROLES: [&str; 3] = [REASONING, ROUTER, CODING];

/// What is known before anybody is asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The model that somebody named, and where.
    pub(crate) named: Option<(String, Origin)>,
    /// Who answers in which role, by the file.
    pub(crate) roles: Roles,
    /// Who said where Ollama is; the default says nothing.
    pub(crate) ollama_from: Option<Origin>,
    /// Whether an Ollama at its usual address has its usual model.
    pub(crate) ollama_lists: bool,
    /// The built-in providers whose key is there, in order, and where it is, in words.
    pub(crate) keys: Vec<(&'static str, String)>,
    /// The hosts of the providers that are not on this machine.
    pub(crate) hosts: BTreeMap<String, String>,
}

impl Facts {
    /// Whether nobody configured anything, so that it is worth a look who is there.
    pub(crate) fn is_open(&self) -> bool {
        self.named.is_none() && self.roles.is_empty() && self.ollama_is_said().is_none()
    }

    fn ollama_is_said(&self) -> Option<&Origin> {
        self.ollama_from.as_ref().filter(|origin| **origin != Origin::Default)
    }

    /// What the roles say about a model, if they name it.
    fn candidate(&self, model: &str) -> Candidate {
        let known = self.roles.values().flatten().find(|candidate| candidate.model == model);
        known.cloned().unwrap_or_else(|| Candidate::of(model))
    }
}

/// Who answers, and why.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    /// Who answers in every role that has no list of its own.
    pub(crate) model: String,
    /// Who answers in which role.
    pub(crate) roles: Roles,
    /// Why, in words.
    pub(crate) why: String,
    /// The hosts that text goes to.
    pub(crate) hosts: Vec<String>,
}

impl Chosen {
    /// A choice; `hosts` are those of all providers that are not on this machine.
    pub(super) fn new(model: String, roles: Roles, why: String, hosts: &BTreeMap<String, String>) -> Chosen {
        let models = roles.values().flatten().map(|candidate| candidate.model.as_str());
        let away = models.chain([model.as_str()]).filter_map(|name| hosts.get(name.split('/').next()?));
        let mut hosts: Vec<String> = away.cloned().collect();
        hosts.sort();
        hosts.dedup();
        Chosen { model, roles, why, hosts }
    }

    /// Who is asked first when an agent thinks.
    pub(crate) fn answers(&self) -> &str {
        let first = self.roles.get(REASONING).and_then(|list| list.first());
        first.map_or(self.model.as_str(), |candidate| candidate.model.as_str())
    }

    /// Whether text leaves this machine.
    pub(crate) fn leaves_this_machine(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether text leaves this machine, in words.
    pub(crate) fn privacy(&self) -> String {
        match self.leaves_this_machine() {
            true => format!("text goes to {}", self.hosts.join(", ")),
            false => "nothing leaves this machine".to_owned(),
        }
    }

    /// Who answers, why, and where text goes.
    pub(crate) fn in_short(&self) -> String {
        format!("{} ({}) · {}", self.answers(), self.why, self.privacy())
    }

    /// The same, and what to type to change it, in one line.
    pub(crate) fn in_one_line(&self) -> String {
        format!("{} · --model PROVIDER/NAME changes it", self.in_short())
    }

    /// The candidates of a role.
    pub(crate) fn role(&self, role: &str) -> Vec<Candidate> {
        match self.roles.get(role) {
            Some(list) if !list.is_empty() => list.clone(),
            _ => vec![Candidate::of(&self.model)],
        }
    }

    /// The names of all roles: those that there always are, then those that somebody added.
    pub(crate) fn role_names(&self) -> Vec<&str> {
        let added = self.roles.keys().map(String::as_str).filter(|name| !ROLES.contains(name));
        ROLES.into_iter().chain(added).collect()
    }

    /// Everybody who may be asked, each once.
    pub(crate) fn everybody(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for candidate in self.role_names().into_iter().flat_map(|role| self.role(role)) {
            if !all.contains(&candidate.model) {
                all.push(candidate.model);
            }
        }
        all
    }
}

/// Decides who answers.
pub(crate) fn choose(facts: &Facts) -> Chosen {
    let (candidate, lists, why) = decide(facts);
    let mut roles = lists;
    // What is known about the model holds in the roles that it stands in for, too.
    if candidate != Candidate::of(&candidate.model) {
        for role in ROLES {
            roles.entry(role.to_owned()).or_insert_with(|| vec![candidate.clone()]);
        }
    }
    Chosen::new(candidate.model, roles, why, &facts.hosts)
}

fn decide(facts: &Facts) -> (Candidate, Roles, String) {
    let alone = |candidate: Candidate, why: String| (candidate, Roles::new(), why);
    match &facts.named {
        Some((model, Origin::Flag(flag))) => {
            return alone(facts.candidate(model), format!("named by {flag}"));
        }
        Some((model, Origin::Environment(variable))) => {
            return alone(facts.candidate(model), format!("named by {variable}"));
        }
        _ => {}
    }
    let in_file = facts.named.as_ref().map(|(model, _)| facts.candidate(model));
    if let Some(first) = first_of(&facts.roles) {
        let otherwise = in_file.unwrap_or_else(|| first.clone());
        return (otherwise, facts.roles.clone(), "the roles in baton.toml".to_owned());
    }
    if let Some(candidate) = in_file {
        return alone(candidate, "`model` in baton.toml".to_owned());
    }
    let ollama = Candidate { temperature: Some(0.0), ..usual(&built_in::PROVIDERS[0]) };
    match facts.ollama_is_said() {
        Some(Origin::Environment(variable)) => return alone(ollama, format!("{variable} is set")),
        Some(_) => return alone(ollama, "`providers.ollama` in baton.toml".to_owned()),
        None if facts.ollama_lists => return alone(ollama, "Ollama runs here and has it".to_owned()),
        None => {}
    }
    for (name, why) in &facts.keys {
        if let Some(provider) = built_in::PROVIDERS.iter().find(|provider| provider.name == *name) {
            return alone(usual(provider), why.clone());
        }
    }
    let why = format!("nothing is configured, and no Ollama here has {}", built_in::PROVIDERS[0].model);
    alone(Candidate::of("offline"), why)
}

fn usual(provider: &built_in::BuiltIn) -> Candidate {
    Candidate::of(format!("{}/{}", provider.name, provider.model))
}

/// Who stands in for roles without a list: the first that reasons, else the first of any role.
fn first_of(roles: &Roles) -> Option<&Candidate> {
    let list = ROLES.iter().find_map(|role| roles.get(*role)).or_else(|| roles.values().next());
    list.and_then(|list| list.first())
}

#[cfg(test)]
mod tests;
