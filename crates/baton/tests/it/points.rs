//! The points of the source at which a test can kill or stop a process: one list for all tests of that kind.

use std::collections::BTreeSet;

use crate::tidy::texts;

/// The kind of test that passes a point first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A turn with tools, on new data.
    Turn,
    /// The same on SQLite alone.
    TurnOnSqlite,
    /// A run that asks for a decision, or the decision.
    Approval,
    /// A cancel.
    Cancel,
    /// A run that is claimed after a crash.
    Recovery,
    /// A process that ends in order.
    Leaving,
    /// A prune.
    Prune,
    /// A look at the audit trail, which is told of tool calls first.
    Trail,
}

const POINTS: [(&str, By); 30] = [
    ("admit.pre_commit", By::Turn),
    ("admit.post_commit", By::Turn),
    ("llm.pre_intent", By::Turn),
    ("llm.post_intent", By::Turn),
    ("llm.mid_stream", By::Turn),
    ("llm.post_response", By::Turn),
    ("step.pre_commit", By::Turn),
    ("step.post_commit", By::Turn),
    ("step.pre_publish", By::Turn),
    ("tool.pre_intent", By::Turn),
    ("tool.post_intent", By::Turn),
    ("tool.pre_send", By::Turn),
    ("tool.post_send", By::Turn),
    ("tool.post_reply", By::Turn),
    ("tool.post_commit", By::Turn),
    ("store.pre_commit", By::Turn),
    ("store.post_commit", By::Turn),
    ("migrate.mid", By::TurnOnSqlite), // on PostgreSQL a service has passed it before it can be asked
    ("turnstile.gate", By::TurnOnSqlite),
    ("approval.post_request", By::Approval),
    ("approval.post_decision", By::Approval),
    ("approval.pre_execute", By::Approval),
    ("cancel.post_commit", By::Cancel),
    ("cancel.pre_signal", By::Cancel),
    ("recover.pre_claim", By::Recovery),
    ("claim.post_commit", By::Recovery),
    ("recover.mid", By::Recovery),
    ("shutdown.pre_release", By::Leaving),
    ("prune.mid", By::Prune),
    ("calls.mid", By::Trail),
];

/// The points that this kind of test passes.
pub(crate) fn passed(by: By) -> impl Iterator<Item = &'static str> {
    POINTS.into_iter().filter(move |(_, found)| *found == by).map(|(point, _)| point)
}

/// Every name that is given to `point` in a source: of a call, all words in quotes up to the end of the statement.
fn named(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in source.match_indices("point(") {
        let is_part = source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let call = source[at..].split([';', ',']).next().unwrap_or_default();
        let call = if source[at..].starts_with("point(if") {
            source[at..].split(");").next().unwrap()
        } else {
            call
        };
        let is_name = |word: &&str| {
            let is_plain = |c: char| c.is_ascii_lowercase() || "._".contains(c);
            word.contains('.') && word.chars().all(is_plain)
        };
        if !is_part {
            names.extend(call.split('"').skip(1).step_by(2).filter(is_name).map(str::to_owned));
        }
    }
    names
}

#[test]
fn every_point_of_the_source_is_listed() {
    let is_source =
        |path: &str| path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let sources = texts().into_iter().filter(|file| is_source(&file.path));
    let found: BTreeSet<String> = sources.flat_map(|file| named(&file.text)).collect();
    let listed: BTreeSet<String> = POINTS.into_iter().map(|(point, _)| point.to_owned()).collect();
    assert_eq!(
        found, listed,
        "list a new point, with what passes it: then it is tried to kill and to stop there"
    );
}
