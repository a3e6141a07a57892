//! Text in a form that a user can decide by: nothing in it is invisible, and no letter passes for another.
//!
//! An approved call runs exactly as shown, so the user must see all of it. Characters that take no place, that
//! turn text around, or that control a terminal are shown as their numbers; a letter that looks like a Latin
//! one among Latin letters has its number behind it. Characters of honest text stay: emoji, joiners between
//! Arabic or Indic letters, words of any script on their own.

mod character;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use character::{Kind, kind, twin};

/// How many examples a warning names.
const EXAMPLES: usize = 5;
/// How much of a hidden text a warning repeats.
const HIDDEN: usize = 200;

/// Characters of a text that are invisible or pass for others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    invisible: BTreeSet<char>,
    turning: BTreeSet<char>,
    /// The text that tag characters spell: letters that are never shown and that models read.
    hidden: String,
    /// Words with letters that look like Latin ones, each with its first such letter.
    disguised: BTreeSet<(String, char)>,
}

impl Findings {
    /// Whether every character can be seen.
    pub fn is_empty(&self) -> bool {
        *self == Findings::default()
    }

    /// The findings in words, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.hidden.is_empty() {
            warnings.push(format!("It holds a hidden text: {:?}.", self.hidden));
        }
        if !self.invisible.is_empty() {
            warnings.push(format!("It holds characters that cannot be seen: {}.", numbers(&self.invisible)));
        }
        if !self.turning.is_empty() {
            warnings.push(format!(
                "It holds characters that turn the direction of text around: {}.",
                numbers(&self.turning)
            ));
        }
        for (word, letter) in self.disguised.iter().take(EXAMPLES) {
            let number = number(*letter);
            let twin = twin(*letter).unwrap_or(*letter);
            warnings.push(format!(
                "The word {word:?} is not what it seems: its {letter:?} is {number}, which looks like {twin:?}."
            ));
        }
        warnings
    }

    fn take(&mut self, c: char) {
        if let Some(letter) = character::tag(c) {
            if self.hidden.len() < HIDDEN {
                self.hidden.push(letter);
            }
            return;
        }
        match kind(None, c, None) {
            Kind::Turning => self.turning.insert(c),
            Kind::Invisible | Kind::Seen => self.invisible.insert(c),
        };
    }
}

/// A text with every character visible. Those that were not are added to `findings`.
pub fn text<'a>(text: &'a str, findings: &mut Findings) -> Cow<'a, str> {
    if text.chars().all(|c| matches!(c, '\n' | '\t' | ' '..='~')) {
        return Cow::Borrowed(text);
    }
    let disguised = disguised(text, findings);
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match kind(before, c, rest.peek().map(|(_, next)| *next)) {
            Kind::Seen => {
                shown.push(c);
                if disguised.contains(&at) {
                    shown.push_str(&format!("<{}>", number(c)));
                }
            }
            Kind::Invisible | Kind::Turning => {
                findings.take(c);
                shown.push_str(&format!("<{}>", number(c)));
            }
        }
        before = Some(c);
    }
    Cow::Owned(shown)
}

/// The same for every text in a value, names of properties included.
pub fn json(value: &Value, findings: &mut Findings) -> Value {
    match value {
        Value::String(words) => Value::String(text(words, findings).into_owned()),
        Value::Array(items) => items.iter().map(|item| json(item, findings)).collect(),
        Value::Object(fields) => {
            let shown = |(name, value): (&String, &Value)| {
                let name = text(name, findings).into_owned();
                (name, json(value, findings))
            };
            Value::Object(fields.iter().map(shown).collect())
        }
        other => other.clone(),
    }
}

/// The byte positions of letters that look like Latin ones among Latin letters.
fn disguised(text: &str, findings: &mut Findings) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    let start = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let is_latin = |c: char| c.is_ascii_alphabetic();
    for token in text.split_whitespace().filter(|token| token.contains(is_latin)) {
        let words = token.split(|c: char| !c.is_alphabetic() && twin(c).is_none());
        for word in words.filter(|word| !word.is_empty()) {
            // A word in another script is honest unless all of it could be read as Latin, as in an address.
            if !word.contains(is_latin) && !word.chars().all(|c| twin(c).is_some()) {
                continue;
            }
            let mut letters = word.char_indices().filter(|(_, c)| twin(*c).is_some()).peekable();
            if let Some((_, first)) = letters.peek() {
                findings.disguised.insert((word.chars().take(40).collect(), *first));
            }
            places.extend(letters.map(|(at, _)| start(word) + at));
        }
    }
    places
}

fn numbers(characters: &BTreeSet<char>) -> String {
    let named: Vec<String> = characters.iter().take(EXAMPLES).map(|c| number(*c)).collect();
    let more = if characters.len() > EXAMPLES { " and others" } else { "" };
    format!("{}{more}", named.join(", "))
}

fn number(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

#[cfg(test)]
mod tests;
