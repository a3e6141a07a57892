//! The choice of tools by the words of a request.
//!
//! Each tool scores by the words that it shares with the request; the best takes its words away from the
//! others, so that "read the file x" does not list files too. Of equal scores the tool that is mentioned first
//! wins, and then the one that is offered first.

use std::cmp::Reverse;

use baton_core::tool::{ASK_USER, ToolSpec, UPDATE_PLAN};

use super::clues::{Clues, split_words};

/// The most tools that are called for one request.
pub(super) const MAX_TOOLS: usize = 3;

/// A word that surely means this tool.
const CUE: u32 = 4;
/// A word of the tool's name.
const NAME: u32 = 3;
/// A word of the tool's name that many tools have.
const COMMON_NAME: u32 = 2;
/// A word of the tool's description.
const MENTION: u32 = 1;
/// The least score of a chosen tool.
const ENOUGH: u32 = 3;

const COMMON: [&str; 10] = ["system", "file", "tool", "data", "user", "run", "list", "blob", "agent", "text"];

const EMPTY: [&str; 62] = [
    "a", "about", "all", "an", "and", "any", "are", "at", "be", "but", "by", "can", "could", "current",
    "did", "do", "does", "for", "from", "get", "give", "had", "has", "have", "how", "i", "if", "in", "into",
    "is", "it", "its", "just", "let", "make", "me", "my", "need", "no", "not", "of", "on", "or", "our",
    "please", "some", "such", "tell", "that", "the", "there", "this", "to", "use", "want", "was", "what",
    "when", "which", "with", "would", "you",
];

/// The words that mean a tool that we know.
const CUES: [(&str, &[&str]); 7] = [
    (
        "system_health",
        &[
            "machine",
            "computer",
            "mac",
            "macbook",
            "laptop",
            "pc",
            "server",
            "host",
            "cpu",
            "processor",
            "memory",
            "ram",
            "disk",
            "storage",
            "health",
            "healthy",
            "load",
            "uptime",
            "performance",
            "slow",
            "temperature",
            "process",
            "processe",
            "swap",
        ],
    ),
    ("system_logs", &["log", "error", "warning", "journal", "crash", "crashe", "syslog"]),
    ("clock", &["time", "date", "clock", "timezone", "weekday"]),
    ("calculator", &["calculate", "calculator", "compute", "calc", "arithmetic", "evaluate", "multiply"]),
    ("read_file", &["read"]),
    ("list_files", &["list", "ls", "folder", "directory", "directorie", "dir"]),
    ("search_files", &["search", "find", "grep", "look", "occurrence"]),
];

/// Words that mean `read_file` only where a file is spoken of.
const SHOWING: [&str; 8] = ["show", "open", "cat", "print", "display", "view", "content", "inside"];

/// The tools that a request is about, best first.
pub(super) fn choose<'a>(clues: &Clues, offered: &[&'a ToolSpec]) -> Vec<&'a ToolSpec> {
    // These two are not chosen by words: it makes no plans, and asks only for missing arguments.
    let is_usable = |tool: &&ToolSpec| ![ASK_USER, UPDATE_PLAN].contains(&tool.name.as_str());
    let mut left: Vec<&'a ToolSpec> = offered.iter().copied().filter(is_usable).collect();
    let mut words = distinct(&clues.words);
    let mut chosen = Vec::new();
    let mut sum_is_free = clues.sum.is_some();
    while chosen.len() < MAX_TOOLS {
        let scores = left.iter().map(|tool| score(tool, &words, clues, sum_is_free));
        let better = |a: &ToolScore, b: &ToolScore| (b.total, Reverse(b.first)) > (a.total, Reverse(a.first));
        let best = scores.enumerate().reduce(|a, b| if better(&a.1, &b.1) { b } else { a });
        let Some((at, best)) = best else { break };
        if best.total < ENOUGH || (!chosen.is_empty() && best.best < NAME) {
            break;
        }
        words.retain(|word| !best.claims.contains(word));
        let tool = left.remove(at);
        sum_is_free &= tool.name != "calculator";
        chosen.push(tool);
    }
    if chosen.is_empty() && clues.names_a_file() {
        chosen.extend(left.into_iter().find(|tool| tool.name == "read_file"));
    }
    chosen
}

/// The score of a tool.
struct ToolScore {
    total: u32,
    best: u32,
    /// Where the first of its words stands.
    first: usize,
    /// The words that are no longer free if it is chosen.
    claims: Vec<String>,
}

fn score(tool: &ToolSpec, words: &[String], clues: &Clues, sum_is_free: bool) -> ToolScore {
    let name: Vec<String> = split_words(&tool.name).collect();
    let described: Vec<String> = split_words(&tool.description).filter(|word| word.len() > 3).collect();
    let mut score = ToolScore { total: 0, best: 0, first: usize::MAX, claims: Vec::new() };
    for (at, word) in words.iter().enumerate() {
        let weight = if is_cue(&tool.name, word, clues) {
            CUE
        } else if name.contains(word) {
            if COMMON.contains(&word.as_str()) { COMMON_NAME } else { NAME }
        } else if described.contains(word) {
            MENTION
        } else {
            continue;
        };
        score.total += weight;
        score.best = score.best.max(weight);
        if weight > MENTION {
            score.first = score.first.min(at);
            score.claims.push(word.clone());
        }
    }
    if tool.name == "calculator" && sum_is_free {
        score.total += CUE;
        score.best = CUE;
    }
    // Its description is made of common words; where a tool's cues are known, one of them is needed.
    if score.best == MENTION && CUES.iter().any(|(known, _)| *known == tool.name) {
        score.total = 0;
    }
    score
}

fn is_cue(tool: &str, word: &str, clues: &Clues) -> bool {
    if CUES.iter().any(|(name, words)| *name == tool && words.contains(&word)) {
        return true;
    }
    match (tool, word) {
        ("read_file", word) => SHOWING.contains(&word) && (clues.names_a_file() || clues.has(&["file"])),
        ("system_health", "doing") => clues.has(&["how"]) && !clues.has(&["you"]),
        ("system_health", "system") => follows(clues, &["my", "this", "the"], "system"),
        ("clock", "day") => clues.has(&["what", "which"]),
        _ => false,
    }
}

fn follows(clues: &Clues, before: &[&str], word: &str) -> bool {
    clues.words.windows(2).any(|pair| before.contains(&pair[0].as_str()) && pair[1] == word)
}

fn distinct(words: &[String]) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for word in words {
        if !EMPTY.contains(&word.as_str()) && !distinct.contains(word) {
            distinct.push(word.clone());
        }
    }
    distinct
}
