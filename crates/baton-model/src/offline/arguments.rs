//! The arguments of a tool, taken from the words of a request by the tool's schema.
//!
//! Only the request's own words are used; nothing is made up. A missing required argument is a
//! result, too: the tool is then not called, and the person can be asked.

use baton_core::tool::ToolSpec;
use serde_json::{Map, Value};

use super::clues::Clues;
use super::phrase;
use super::property::{Property, PropertyKind};

/// A required argument that the request does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingArgument {
    /// The argument.
    pub(super) name: String,
    /// The argument's description in the schema.
    pub(super) about: Option<String>,
}

/// The arguments of one call. `answer` is the person's answer to the question for a missing one; `first`: the
/// request is above all about this tool, so that bare words may be its arguments.
pub(super) fn fill(
    tool: &ToolSpec,
    clues: &Clues,
    first: bool,
    answer: Option<&str>,
) -> Result<Value, MissingArgument> {
    let mut properties = Property::all(&tool.input_schema);
    properties.sort_by_key(|property| !property.required);
    let mut search =
        ArgumentSearch { tool: &tool.name, clues, first, quoted: 0, paths: Vec::new(), numbers: Vec::new() };
    let mut answer = answer;
    let mut arguments = Map::new();
    for property in &properties {
        let found = search.find(property);
        match found.or_else(|| answer.take_if(|_| property.required).and_then(|text| property.read(text))) {
            Some(value) => {
                arguments.insert(property.name.to_owned(), value);
            }
            None if property.required => {
                return Err(MissingArgument {
                    name: property.name.to_owned(),
                    about: property.about.map(str::to_owned),
                });
            }
            None => {}
        }
    }
    Ok(Value::Object(arguments))
}

/// The search for arguments among the clues that no other argument has taken.
struct ArgumentSearch<'a> {
    tool: &'a str,
    clues: &'a Clues,
    first: bool,
    quoted: usize,
    paths: Vec<usize>,
    numbers: Vec<usize>,
}

impl ArgumentSearch<'_> {
    fn find(&mut self, property: &Property<'_>) -> Option<Value> {
        let value = match property.kind() {
            PropertyKind::Choice(values) => self.choice(property, &values),
            PropertyKind::Number => self.number(property),
            PropertyKind::Flag => self.flag(property),
            PropertyKind::Path => self.path(property).map(Value::String),
            PropertyKind::Sum => self.clues.sum.clone().map(Value::String),
            PropertyKind::Query => self.query(property).map(Value::String),
            PropertyKind::Url => self.clues.urls.first().cloned().map(Value::String),
            PropertyKind::Zone => self.zone(property).map(Value::String),
            PropertyKind::Text => self.text(property).map(Value::String),
            PropertyKind::Other => None,
        };
        value.filter(|value| property.admits(value))
    }

    /// Of "errors and warnings" the first is meant, but as a lower bound the last.
    fn choice(&self, property: &Property<'_>, values: &[&str]) -> Option<Value> {
        let said = |value: &&&str| {
            let words: Vec<String> = super::clues::split_words(value).collect();
            !words.is_empty() && self.clues.words.windows(words.len()).any(|window| window == words)
        };
        let found =
            if property.is_about("min") { values.iter().rfind(said) } else { values.iter().find(said) };
        found.map(|value| Value::String((*value).to_owned()))
    }

    /// A number beside a word of the argument's name, or one that is plainly a count; for a required argument
    /// otherwise the next number.
    fn number(&mut self, property: &Property<'_>) -> Option<Value> {
        let free = |at: &usize| !self.numbers.contains(at);
        let beside = |at: &usize| {
            let number = &self.clues.numbers[*at];
            property.is_about(&number.before) || property.is_about(&number.after) || property.counts(number)
        };
        let all = 0..self.clues.numbers.len();
        let at = all
            .clone()
            .filter(free)
            .find(beside)
            .or_else(|| all.clone().filter(free).find(|_| property.required))?;
        let value = property.number(&self.clues.numbers[at])?;
        self.numbers.push(at);
        Some(value)
    }

    fn flag(&self, property: &Property<'_>) -> Option<Value> {
        let words = &self.clues.words;
        let at = words.iter().position(|word| word.len() > 4 && property.is_about(word))?;
        let not = at > 0 && ["no", "not", "without"].contains(&words[at - 1].as_str());
        Some(Value::Bool(!not))
    }

    fn path(&mut self, property: &Property<'_>) -> Option<String> {
        let lists = self.tool.contains("list") || property.is_folder();
        let fits = |at: &usize| !self.paths.contains(at) && (!lists || !self.clues.paths[*at].is_file());
        let all = 0..self.clues.paths.len();
        // In a request with both, the file is for a tool that reads and the folder for one that searches.
        let best =
            all.clone().filter(fits).find(|at| self.tool.contains("read") && self.clues.paths[*at].is_file());
        if let Some(at) = best.or_else(|| all.clone().find(fits)) {
            self.paths.push(at);
            return Some(self.clues.paths[at].text.clone());
        }
        let holds_files = ["search", "find", "grep"].iter().any(|word| self.tool.contains(word));
        let folder = if holds_files || lists { phrase::folder(&self.clues.tokens) } else { None };
        folder.or_else(|| property.required.then(|| self.next_quoted()).flatten())
    }

    fn query(&mut self, property: &Property<'_>) -> Option<String> {
        let bare = self.first && property.required;
        let sought =
            self.next_quoted().or_else(|| bare.then(|| phrase::sought(&self.clues.tokens)).flatten())?;
        let meant_so = self.clues.has(&["regex", "regexp", "regular", "pattern"]);
        Some(if property.is_regex() && !meant_so { escaped(&sought) } else { sought })
    }

    /// A time zone. One with a name does not fit a schema with a pattern for offsets.
    fn zone(&self, property: &Property<'_>) -> Option<String> {
        let plain = |zone: &&String| !zone.contains('/') || !property.has_pattern();
        self.clues.zone.as_ref().filter(plain).cloned()
    }

    fn text(&mut self, property: &Property<'_>) -> Option<String> {
        let wanted = property.required || self.clues.words.iter().any(|word| property.is_about(word));
        wanted.then(|| self.next_quoted()).flatten()
    }

    fn next_quoted(&mut self) -> Option<String> {
        let found = self.clues.quoted.get(self.quoted)?;
        self.quoted += 1;
        Some(found.clone())
    }
}

/// A regular expression for exactly this text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
