//! Where the text of a conversation goes, by who may be asked. Pure: it says so, and keeps nobody from it.
//!
//! A model without the key that it needs counts as nobody: it is never sent anything.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::role::{CODING, Candidate, REASONING, ROUTER, Roles};

/// What is known of those who serve models.
#[derive(Debug, Clone, Default)]
pub(crate) struct Away {
    /// The hosts of the providers that are not on this machine.
    pub(crate) hosts: BTreeMap<String, String>,
    /// The providers whose key should be there and is not.
    pub(crate) keyless: BTreeSet<String>,
}

impl Away {
    fn host(&self, model: &str) -> Option<&String> {
        self.hosts.get(model.split('/').next()?)
    }

    fn can_be_asked(&self, model: &str) -> bool {
        model.split('/').next().is_none_or(|provider| !self.keyless.contains(provider))
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Destinations {
    /// The host of whoever is asked first.
    pub(super) first: Option<String>,
    /// The hosts of those who stand in where that one fails, and its name.
    pub(super) stand_ins: Option<(String, Vec<String>)>,
    /// Further hosts, of roles that only some agents ask for.
    pub(super) other_roles: Vec<String>,
    /// Whether the one that is meant to answer is elsewhere and has no key.
    pub(super) lacks_its_key: bool,
}

impl Destinations {
    /// Where text goes if these answer; `model` does so in roles without a list.
    pub(super) fn of(model: &str, roles: &Roles, away: &Away) -> Destinations {
        let list = |role: &str| -> Vec<&str> {
            match roles.get(role).filter(|list| !list.is_empty()) {
                Some(list) => list.iter().map(|candidate: &Candidate| candidate.model.as_str()).collect(),
                None => vec![model],
            }
        };
        let thinks = list(REASONING);
        let asked = |models: Vec<&'_ str>| -> Vec<String> {
            models.into_iter().filter(|name| away.can_be_asked(name)).map(str::to_owned).collect()
        };
        let mut ladder = asked(thinks.clone());
        ladder.extend(asked(list(ROUTER)));
        let first = ladder.first().cloned().unwrap_or_default();
        let mut found = Destinations { first: away.host(&first).cloned(), ..Destinations::default() };
        let stand_ins = found.new_hosts(ladder.into_iter().skip(1), away);
        found.stand_ins = (!stand_ins.is_empty()).then_some((first, stand_ins));
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

    /// In words.
    pub(super) fn in_words(&self) -> String {
        let mut words = match &self.first {
            Some(host) => format!("text goes to {host}"),
            None if self.lacks_its_key && self.hosts().is_empty() => {
                "nothing leaves this machine until it has its key".to_owned()
            }
            None => "nothing leaves this machine".to_owned(),
        };
        if let Some((first, hosts)) = &self.stand_ins {
            words.push_str(&format!("; if {first} fails, text goes to {}", hosts.join(", ")));
        }
        if !self.other_roles.is_empty() {
            words.push_str(&format!("; in other roles, text goes to {}", self.other_roles.join(", ")));
        }
        words
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

#[cfg(test)]
mod tests;
