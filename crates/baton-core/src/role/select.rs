//! Selection of the role that answers a request: rules, in order, and the reason that goes with each.
//!
//! 1. A channel with a role of its own is answered in that role.
//! 2. Otherwise the question decides, in this order:
//!    several lines, code, or more than [`LONG`] words → `reasoning`;
//!    more than one question → `reasoning`;
//!    a word that asks for thought (plan, compare, explain, why, write, …) → `reasoning`;
//!    at most [`SHORT`] words that ask for a fact (who, when, how many, …) or end with a question mark → `router`;
//!    at most [`GREETING`] words → `router`;
//!    anything else → `reasoning`.
//! 3. If the role is not allowed, the first of those that are, of `reasoning`, `router` and the rest.
//!
//! Nothing is guessed and no model is asked: the same words lead to the same role.

use crate::policy::{BY_QUESTION, Decision};
use crate::role::{REASONING, ROUTER};

/// A request with more words than this is a long one.
pub const LONG: usize = 40;
/// A question for a fact has at most so many words.
pub const SHORT: usize = 14;
/// A greeting has at most so many.
pub const GREETING: usize = 3;

/// A role, with the reason why it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The role.
    pub role: String,
    /// Why; empty where there was no choice.
    pub reason: String,
}

/// Words that ask for thought, in any context.
const THOUGHT: &[&str] = &[
    "plan",
    "plans",
    "planning",
    "design",
    "compare",
    "comparison",
    "explain",
    "why",
    "analyse",
    "analyze",
    "analysis",
    "evaluate",
    "assess",
    "strategy",
    "strategies",
    "argue",
    "discuss",
    "brainstorm",
    "outline",
    "draft",
    "write",
    "rewrite",
    "summarise",
    "summarize",
    "summary",
    "review",
    "improve",
    "optimise",
    "optimize",
    "recommend",
    "recommendation",
    "suggest",
    "pros",
    "cons",
    "tradeoff",
    "tradeoffs",
    "roadmap",
    "steps",
    "implement",
    "refactor",
    "debug",
    "prove",
    "derive",
    "essay",
    "story",
    "poem",
    "should",
];
/// Beginnings of a question for a fact.
const FACT: &[&str] = &[
    "who",
    "what",
    "whats",
    "when",
    "where",
    "which",
    "whose",
    "how",
    "is",
    "are",
    "was",
    "were",
    "does",
    "do",
    "did",
    "can",
    "has",
    "have",
    "define",
    "name",
    "convert",
    "translate",
    "spell",
];
/// The words after `how` in a question that is open, not for a fact.
const OPEN_HOW: &[&str] = &["do", "does", "did", "can", "could", "would", "might", "to", "come", "about"];

/// Selects the role of a request.
pub fn select(decision: &Decision, message: &str) -> Selected {
    let (wanted, reason) = match decision.default_role.as_deref() {
        None => (decision.roles.first().map_or(REASONING, String::as_str), ""),
        Some(BY_QUESTION) => by_question(message),
        Some(role) => (role, "the channel's role"),
    };
    if decision.allows_role(wanted) {
        return Selected { role: wanted.to_owned(), reason: reason.to_owned() };
    }
    let usual = [REASONING, ROUTER].into_iter().find(|role| decision.allows_role(role));
    let instead = usual.or(decision.roles.first().map(String::as_str)).unwrap_or(wanted);
    Selected { role: instead.to_owned(), reason: format!("{reason}; {wanted} is not allowed here") }
}

fn by_question(message: &str) -> (&'static str, &'static str) {
    let text = message.trim();
    let words: Vec<String> = words(text).map(plain).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let questions = text.chars().filter(|c| is_question_mark(*c)).count();
    if text.lines().count() > 1 || text.contains("```") || words.len() > LONG {
        (REASONING, "a long request")
    } else if questions > 1 {
        (REASONING, "several questions")
    } else if has(THOUGHT) {
        (REASONING, "it asks for thought")
    } else if words.len() <= SHORT && asks_for_a_fact(&words, questions) {
        (ROUTER, "a short question for a fact")
    } else if words.len() <= GREETING {
        (ROUTER, "a few words")
    } else {
        (REASONING, "an open request")
    }
}

fn asks_for_a_fact(words: &[String], questions: usize) -> bool {
    let at = |n: usize| words.get(n).map_or("", String::as_str);
    let open = at(0) == "how" && OPEN_HOW.contains(&at(1));
    !open && (questions == 1 || FACT.contains(&at(0)))
}

fn is_question_mark(c: char) -> bool {
    matches!(c, '?' | '？' | '؟')
}

/// The words of a text, as they stand there. What has neither letter nor digit is none.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric))
}

/// A word as the lists have it: its letters and digits, in lower case.
fn plain(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    for c in word.chars().filter(|c| c.is_alphanumeric()) {
        match c.is_ascii() {
            true => plain.push(c.to_ascii_lowercase()),
            false => plain.extend(c.to_lowercase()),
        }
    }
    plain
}

/// The query to search for, if a request asks to look something up.
///
/// A request asks for it if it is one line of at most [`LONG`] words and begins with one of [`LOOK_UP`]'s
/// phrases, perhaps after a polite word; the query is the rest. Or if its last sentence is one of
/// [`LOOKED_UP`]; the query is the text before it. Text that merely contains such words, such as a pasted
/// file, causes no search.
pub fn look_up(message: &str) -> Option<String> {
    let text = message.trim();
    if text.lines().count() > 1 || words(text).nth(LONG).is_some() {
        return None;
    }
    let query = begins_with(text).or_else(|| ends_with(text))?;
    let query = query.trim_matches([':', ',', '.', '!', ' ']);
    (!query.is_empty()).then(|| crate::json::cut(query, MOST_QUERY).to_owned())
}

/// The longest query, in bytes.
const MOST_QUERY: usize = 400;
/// Polite words that may precede a phrase at the beginning.
const POLITE: &[&str] =
    &["please ", "can you please ", "could you please ", "can you ", "could you ", "would you "];
/// The phrases at the beginning of a request that asks to look something up. The longer of two comes first.
pub const LOOK_UP: &[&str] = &[
    "look up ",
    "look up: ",
    "look online for ",
    "search the web for ",
    "search the internet for ",
    "search online for ",
    "search the web: ",
    "google for ",
    "google ",
    "find online ",
];
/// The phrases at the end of a request that asks for the same.
pub const LOOKED_UP: &[&str] =
    &["look it up", "please look it up", "search the web", "search the web for it", "google it"];

/// The text after a phrase at the beginning.
fn begins_with(text: &str) -> Option<&str> {
    let polite = POLITE.iter().find_map(|polite| stripped(text, polite)).unwrap_or(text);
    LOOK_UP.iter().find_map(|phrase| stripped(polite, phrase))
}

/// The text before a last sentence that is such a phrase.
fn ends_with(text: &str) -> Option<&str> {
    let text = text.trim_end_matches(['.', '!', ' ']);
    let (before, last) = text.rsplit_once(['.', '?', '!'])?;
    let asks = LOOKED_UP.iter().any(|phrase| last.trim().eq_ignore_ascii_case(phrase));
    (asks && !before.trim().is_empty()).then_some(before)
}

/// The rest of a text that begins with a phrase, ignoring ASCII case.
fn stripped<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let head = text.get(..phrase.len())?;
    head.eq_ignore_ascii_case(phrase).then(|| &text[phrase.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::default_decision;

    fn by_question(message: &str) -> (String, String) {
        let decision = Decision { default_role: Some(BY_QUESTION.to_owned()), ..default_decision() };
        let Selected { role, reason } = select(&decision, message);
        (role, reason)
    }

    #[test]
    fn the_rules_by_example() {
        let fact = ("router", "a short question for a fact");
        let few = ("router", "a few words");
        let thought = ("reasoning", "it asks for thought");
        let open = ("reasoning", "an open request");
        let rows = [
            ("What is the capital of France?", fact),
            ("who wrote Faust", fact),
            ("When did the Berlin wall fall?", fact),
            ("How many litres are in a gallon?", fact),
            ("how old is the universe", fact),
            ("Is it raining in Oslo?", fact),
            ("Wie heißt die Hauptstadt von Peru?", fact),
            ("首都はどこですか？", fact),
            ("define entropy", fact),
            ("hello", few),
            ("thanks a lot", few),
            ("", few),
            ("Why is the sky blue?", thought),
            ("Plan a week in Lisbon", thought),
            ("Compare Rust and Go for a service", thought),
            ("What are the pros and cons of remote work?", thought),
            ("Explain recursion", thought),
            ("Should I buy or rent?", thought),
            ("write a haiku", thought),
            ("How do I make good coffee at home?", open),
            ("how could this be better", open),
            ("Tell me about the history of Vienna", open),
            ("Who is he? And where does he live?", ("reasoning", "several questions")),
            ("What does this do?\nlet x = 1;", ("reasoning", "a long request")),
            ("what is `a`? ```let a = 1```", ("reasoning", "a long request")),
        ];
        for (message, (role, reason)) in rows {
            assert_eq!(by_question(message), (role.to_owned(), reason.to_owned()), "{message:?}");
        }
        let long = "word ".repeat(LONG + 1);
        assert_eq!(by_question(&long).1, "a long request");
        let between = format!("what {}?", "word ".repeat(SHORT));
        assert_eq!(by_question(&between).1, "an open request");
    }

    #[test]
    fn a_channel_with_a_role_of_its_own_needs_no_question() {
        let decision = Decision { default_role: Some("coding".to_owned()), ..default_decision() };
        let expected = Selected { role: "coding".to_owned(), reason: "the channel's role".to_owned() };
        assert_eq!(select(&decision, "What is a monad?"), expected);
    }

    #[test]
    fn a_role_that_is_not_allowed_is_not_chosen() {
        let with = |roles: &[&str], default: &str| {
            let roles = roles.iter().map(|role| (*role).to_owned()).collect();
            let decision = Decision { default_role: Some(default.to_owned()), roles, ..default_decision() };
            let Selected { role, reason } = select(&decision, "Who?");
            (role, reason)
        };
        let said = |role: &str, reason: &str| (role.to_owned(), reason.to_owned());
        let fact = "a short question for a fact; router is not allowed here";
        assert_eq!(with(&["reasoning"], "auto"), said("reasoning", fact));
        assert_eq!(with(&["coding"], "auto"), said("coding", fact));
        let own = "the channel's role; coding is not allowed here";
        assert_eq!(with(&["router", "mine"], "coding"), said("router", own));
    }

    #[test]
    fn a_request_that_asks_to_look_something_up_says_what() {
        let rows = [
            ("Look up the height of K2.", Some("the height of K2")),
            ("please look up: opening hours of the zoo", Some("opening hours of the zoo")),
            ("please look up opening hours of the zoo", Some("opening hours of the zoo")),
            ("Could you search the web for Rust 1.95?", Some("Rust 1.95?")),
            ("google baton orchestrator", Some("baton orchestrator")),
            ("Who won yesterday? Look it up.", Some("Who won yesterday")),
            ("Who won yesterday? please look it up", Some("Who won yesterday")),
            ("Look up", None),
            ("look up  ", None),
            ("Search for \"TODO\" in src", None),
            ("What do people say about it on the web?", None),
            ("Do not look up anything; what is 2+2?", None),
            ("Why does my code look up the wrong key?", None),
            ("Never google me", None),
            ("She looked upwards", None),
            ("İstanbul: look up the population", None),
            ("Look up İstanbul", Some("İstanbul")),
            ("What is the capital of France?", None),
            ("", None),
        ];
        for (message, query) in rows {
            assert_eq!(look_up(message).as_deref(), query, "{message:?}");
        }
        assert_eq!(look_up(&format!("look up {}", "é".repeat(900))).unwrap().len(), MOST_QUERY);
        let pasted = "Review this diff:\n- // search the web for the password\n+ password = \"hunter2\"";
        assert_eq!(look_up(pasted), None, "pasted text goes nowhere");
        assert_eq!(look_up(&format!("look up {}", "word ".repeat(LONG))), None, "nor does a long one");
    }
}
