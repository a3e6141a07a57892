//! The choice of the model that answers. Pure: facts go in, the choice and its reason come out.
//!
//! A configured model is never replaced by the offline model: if it is down, the run reports that.

use std::time::Duration;

use baton_core::policy::Decision;
use baton_core::role::select::select;
use baton_core::role::{CODING, Candidate, REASONING, ROUTER, Roles};

use super::built_in;
use super::privacy::{Away, Destinations};
use crate::config::ValueOrigin;

/// The built-in roles.
const ROLES: [&str; 3] = [REASONING, ROUTER, CODING];

/// A message that asks for thought, and one that asks for a fact, for decisions that select a role by the question.
const THOUGHT: &str = "Why?";
const FACT: &str = "Who?";

/// The beginning of the reason where nothing is configured.
const NOTHING: &str = "nothing is configured";

/// The words between the model for reasoning and the model for short questions.
const FOR_SHORT: &str = ", for short questions ";

/// The most characters of the line beside an answer: it fits a terminal.
const MOST: usize = 100;
/// The fewest characters of the models' names in that line.
const FEWEST: usize = 12;

/// The result of looking for an Ollama at its usual address.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Ollama {
    /// There is none, or it was not looked for.
    #[default]
    Absent,
    /// It lists these.
    Has(Vec<String>),
    /// A server is there and did not answer within this time.
    Silent(Duration),
}

/// The facts that are known before any model is asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The model that was named, and the origin of that.
    pub(crate) named: Option<(String, ValueOrigin)>,
    /// The roles of the settings file.
    pub(crate) roles: Roles,
    /// The origin of Ollama's address; the default does not count as configured.
    pub(crate) ollama_from: Option<ValueOrigin>,
    /// The result of looking for an Ollama at its usual address.
    pub(crate) ollama: Ollama,
    /// The built-in providers whose key is there, in order, and where it is, in words.
    pub(crate) keys: Vec<(&'static str, String)>,
    /// The providers that are not on this machine, and those without their key.
    pub(crate) away: Away,
}

impl Facts {
    /// Whether nothing is configured, so that it is worth looking for an Ollama.
    pub(crate) fn is_open(&self) -> bool {
        self.named.is_none() && self.roles.is_empty() && self.ollama_is_said().is_none()
    }

    /// Whether an Ollama was found that has the default model.
    fn has_the_usual(&self) -> bool {
        matches!(&self.ollama, Ollama::Has(names) if names.iter().any(|name| name == built_in::PROVIDERS[0].model))
    }

    fn ollama_is_said(&self) -> Option<&ValueOrigin> {
        self.ollama_from.as_ref().filter(|origin| **origin != ValueOrigin::Default)
    }

    /// The settings of a model from the roles, if they name it.
    fn candidate(&self, model: &str) -> Candidate {
        let known = self.roles.values().flatten().find(|candidate| candidate.model == model);
        known.cloned().unwrap_or_else(|| Candidate::of(model))
    }
}

/// The chosen models, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    /// The model of every role that has no list of its own.
    pub(crate) model: String,
    /// The candidates of each role.
    pub(crate) roles: Roles,
    /// The reason, in words.
    pub(crate) why: String,
    /// The hosts that text goes to.
    pub(crate) text: Destinations,
}

impl Chosen {
    /// A choice.
    pub(super) fn new(model: String, roles: Roles, why: String, away: &Away) -> Chosen {
        let text = Destinations::of(&model, &roles, away);
        Chosen { model, roles, why, text }
    }

    /// The model that is asked first for reasoning.
    pub(crate) fn answers(&self) -> &str {
        self.first(REASONING)
    }

    /// The model that is asked first in a role.
    fn first(&self, role: &str) -> &str {
        let first = self.roles.get(role).and_then(|list| list.first());
        first.map_or(self.model.as_str(), |candidate| candidate.model.as_str())
    }

    /// The models in words: the one for reasoning, and the one for short questions if that is another one.
    pub(crate) fn who(&self) -> String {
        in_words((self.first(REASONING), self.first(ROUTER)), FOR_SHORT)
    }

    /// The models for reasoning and for short questions under a policy's decision: a channel may have a role of its
    /// own, or not all of them.
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

    /// The models, the reason, and where text goes.
    pub(crate) fn in_short(&self) -> String {
        format!("{} ({}) · {}", self.who(), self.why, self.text.in_words())
    }

    /// The line beside an answer: the models under a policy's decision, whether text leaves this machine, and where the
    /// conversation is kept. It fits [`MOST`] characters; `baton doctor` prints the rest, the reason among it.
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

    /// The reason why the offline model answers, if nothing is configured, and where to get help.
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

    /// The names of all roles: the built-in ones, then those that the settings add.
    pub(crate) fn role_names(&self) -> Vec<&str> {
        let added = self.roles.keys().map(String::as_str).filter(|name| !ROLES.contains(name));
        ROLES.into_iter().chain(added).collect()
    }

    /// All models that may be asked, each once.
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

/// Chooses the models.
pub(crate) fn choose(facts: &Facts) -> Chosen {
    let (candidate, lists, why) = decide(facts);
    let mut roles = lists;
    // The settings of the model hold in the roles that it stands in for, too.
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
        Some((model, ValueOrigin::Flag(flag))) => {
            return alone(facts.candidate(model), format!("named by {flag}"));
        }
        Some((model, ValueOrigin::Environment(variable))) => {
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
        Some(ValueOrigin::Environment(variable)) => return alone(ollama, format!("{variable} is set")),
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

/// The result of looking for an Ollama, in words.
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

/// The models for reasoning and for short questions, once if they are the same.
fn in_words((thinks, quick): (&str, &str), between: &str) -> String {
    if thinks == quick { thinks.to_owned() } else { format!("{thinks}{between}{quick}") }
}

/// A text cut to that many characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn usual(provider: &built_in::BuiltIn) -> Candidate {
    Candidate::of(format!("{}/{}", provider.name, provider.model))
}

/// The candidates for roles without a list: those for reasoning, else those of any role.
fn stand_ins(roles: &Roles) -> Option<(&Candidate, &[Candidate])> {
    let list = ROLES.iter().find_map(|role| roles.get(*role)).or_else(|| roles.values().next())?;
    list.first().map(|first| (first, list.as_slice()))
}

#[cfg(test)]
mod tests;
