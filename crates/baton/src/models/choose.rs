//! The decision who answers. Pure: facts go in, the choice and its reason come out.
//!
//! What somebody configured is never replaced by the offline model: if it is down, the run says so.

use std::time::Duration;

use baton_core::policy::Decision;
use baton_core::role::select::select;
use baton_core::role::{CODING, Candidate, REASONING, ROUTER, Roles};

use super::built_in;
use super::privacy::{Away, Destinations};
use crate::config::Origin;

/// The roles that there always are.
const ROLES: [&str; 3] = [REASONING, ROUTER, CODING];

/// A message that asks for thought, and one that asks for a fact, for whoever selects a role by the question.
const THOUGHT: &str = "Why?";
const FACT: &str = "Who?";

/// How the reason begins where nobody configured anything.
const NOTHING: &str = "nothing is configured";

/// What stands between whoever thinks and whoever is asked what is short.
const FOR_SHORT: &str = ", for short questions ";

/// How long the line beside an answer may be, in characters: it fits a terminal.
const MOST: usize = 100;
/// How much of the models' names stands in it in any case.
const FEWEST: usize = 12;

/// What was found of an Ollama at its usual address.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Ollama {
    /// There is none, or nobody looked.
    #[default]
    Absent,
    /// It lists these.
    Has(Vec<String>),
    /// Somebody is there and did not answer within this time.
    Silent(Duration),
}

/// What is known before anybody is asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The model that somebody named, and where.
    pub(crate) named: Option<(String, Origin)>,
    /// Who answers in which role, by the file.
    pub(crate) roles: Roles,
    /// Who said where Ollama is; the default says nothing.
    pub(crate) ollama_from: Option<Origin>,
    /// What was found of an Ollama at its usual address.
    pub(crate) ollama: Ollama,
    /// The built-in providers whose key is there, in order, and where it is, in words.
    pub(crate) keys: Vec<(&'static str, String)>,
    /// The providers that are not on this machine, and those without their key.
    pub(crate) away: Away,
}

impl Facts {
    /// Whether nobody configured anything, so that it is worth a look who is there.
    pub(crate) fn is_open(&self) -> bool {
        self.named.is_none() && self.roles.is_empty() && self.ollama_is_said().is_none()
    }

    /// Whether an Ollama was found that has the model that is asked for by itself.
    fn has_the_usual(&self) -> bool {
        matches!(&self.ollama, Ollama::Has(names) if names.iter().any(|name| name == built_in::PROVIDERS[0].model))
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
    /// Where text goes.
    pub(crate) text: Destinations,
}

impl Chosen {
    /// A choice.
    pub(super) fn new(model: String, roles: Roles, why: String, away: &Away) -> Chosen {
        let text = Destinations::of(&model, &roles, away);
        Chosen { model, roles, why, text }
    }

    /// Who is asked first when an agent thinks.
    pub(crate) fn answers(&self) -> &str {
        self.first(REASONING)
    }

    /// Who is asked first in a role.
    fn first(&self, role: &str) -> &str {
        let first = self.roles.get(role).and_then(|list| list.first());
        first.map_or(self.model.as_str(), |candidate| candidate.model.as_str())
    }

    /// Who answers, in words: whoever thinks, and whoever is asked what is short, if that is somebody else.
    pub(crate) fn who(&self) -> String {
        in_words((self.first(REASONING), self.first(ROUTER)), FOR_SHORT)
    }

    /// Who thinks, and who is asked what is short, under what a policy decided: a channel may have a role of its own, or
    /// not all of them.
    fn by(&self, decision: &Decision) -> (&str, &str) {
        let [thinks, quick] = [THOUGHT, FACT].map(|message| select(decision, message).role);
        (self.first(&thinks), self.first(&quick))
    }

    /// Whether text may leave this machine.
    pub(crate) fn leaves_this_machine(&self) -> bool {
        !self.text.hosts().is_empty()
    }

    /// Whether text leaves this machine, in words.
    pub(crate) fn privacy(&self) -> String {
        self.text.in_words()
    }

    /// Who answers, why, and where text goes.
    pub(crate) fn in_short(&self) -> String {
        format!("{} ({}) · {}", self.who(), self.why, self.text.in_words())
    }

    /// The line beside an answer: who answers under what a policy decided, whether text leaves this machine, and where
    /// the conversation is kept. It fits [`MOST`] characters; `baton doctor` says the rest, the reason among it.
    pub(crate) fn first_line(&self, decision: &Decision, place: &str) -> String {
        let (who, text) = (self.by(decision), self.text.by(decision));
        let [few_names, all_names] = [" or ", FOR_SHORT].map(|between| in_words(who, between));
        let (brief, whole) = (text.in_brief(), text.in_words());
        let ways = [(&all_names, &whole), (&few_names, &whole), (&all_names, &brief), (&few_names, &brief)];
        let mut lines = ways.iter().map(|(who, text)| format!("{who} · {text} · {place}"));
        lines.find(|line| line.chars().count() <= MOST).unwrap_or_else(|| {
            let rest = format!(" · {brief} · {place}");
            let left = MOST.saturating_sub(rest.chars().count()).max(FEWEST);
            cut(&format!("{}{rest}", cut(&few_names, left)), MOST)
        })
    }

    /// Why the offline model answers, if nobody configured anything, and where there is help.
    pub(crate) fn nothing_configured(&self) -> Option<String> {
        self.why.starts_with(NOTHING).then(|| format!("{}; baton doctor says what helps", self.why))
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
    Chosen::new(candidate.model, roles, why, &facts.away)
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
    if let Some((first, list)) = stand_ins(&facts.roles) {
        let mut roles = facts.roles.clone();
        if in_file.is_none() {
            for role in ROLES {
                roles.entry(role.to_owned()).or_insert_with(|| list.to_vec());
            }
        }
        let otherwise = in_file.unwrap_or_else(|| first.clone());
        return (otherwise, roles, "the roles in baton.toml".to_owned());
    }
    if let Some(candidate) = in_file {
        return alone(candidate, "`model` in baton.toml".to_owned());
    }
    let ollama = Candidate { temperature: Some(0.0), ..usual(&built_in::PROVIDERS[0]) };
    match facts.ollama_is_said() {
        Some(Origin::Environment(variable)) => return alone(ollama, format!("{variable} is set")),
        Some(_) => return alone(ollama, "`providers.ollama` in baton.toml".to_owned()),
        None if facts.has_the_usual() => return alone(ollama, "Ollama runs here and has it".to_owned()),
        None => {}
    }
    for (name, why) in &facts.keys {
        if let Some(provider) = built_in::PROVIDERS.iter().find(|provider| provider.name == *name) {
            return alone(usual(provider), why.clone());
        }
    }
    alone(Candidate::of("offline"), format!("{NOTHING}, and {}", looked(&facts.ollama)))
}

/// What became of the look for an Ollama that can answer.
fn looked(ollama: &Ollama) -> String {
    let usual = built_in::PROVIDERS[0].model;
    let names = match ollama {
        Ollama::Absent => return format!("no Ollama here has {usual}"),
        Ollama::Silent(within) => {
            return format!("the Ollama here did not answer within {} ms", within.as_millis());
        }
        Ollama::Has(names) => names,
    };
    // Models that only embed text cannot answer.
    let Some(first) = names.iter().find(|name| !name.contains("embed")).or(names.first()) else {
        return format!("Ollama runs here and has no model: ollama pull {usual}");
    };
    let first = baton_core::id::excerpt(first);
    let more = match names.len() {
        1 => String::new(),
        all => format!(" (and {} more)", all - 1),
    };
    format!("Ollama runs here and has {first}{more}: --model ollama/{first}")
}

/// Whoever thinks and whoever is asked what is short, once if they are the same.
fn in_words((thinks, quick): (&str, &str), between: &str) -> String {
    if thinks == quick { thinks.to_owned() } else { format!("{thinks}{between}{quick}") }
}

/// A text of so many characters at most.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn usual(provider: &built_in::BuiltIn) -> Candidate {
    Candidate::of(format!("{}/{}", provider.name, provider.model))
}

/// Who stands in for roles without a list: those that reason, else those of any role.
fn stand_ins(roles: &Roles) -> Option<(&Candidate, &[Candidate])> {
    let list = ROLES.iter().find_map(|role| roles.get(*role)).or_else(|| roles.values().next())?;
    list.first().map(|first| (first, list.as_slice()))
}

#[cfg(test)]
mod tests;
