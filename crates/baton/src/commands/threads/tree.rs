//! The branches of a thread as a tree: the origin of each, and the index of the fork.

use baton_core::id::BranchName;
use baton_store::{BranchView, ThreadView};

use crate::columns::count;

/// The whole tree. A branch whose origin was deleted stands beside `main`, with a note.
pub(super) fn tree(thread: &ThreadView) -> String {
    let mut lines = vec![format!("thread {}", thread.id)];
    let mut roots: Vec<&BranchView> = thread.branches.iter().filter(|b| is_root(thread, b)).collect();
    roots.sort_by_key(|branch| branch.forked_from.is_some());
    for root in roots {
        lines.push(describe(thread, root));
        grow(thread, &root.name, "", &mut lines);
    }
    lines.join("\n")
}

fn is_root(thread: &ThreadView, branch: &BranchView) -> bool {
    let exists = |name: &BranchName| thread.branches.iter().any(|other| other.name == *name);
    branch.forked_from.as_ref().is_none_or(|(from, _)| !exists(from))
}

fn grow(thread: &ThreadView, from: &BranchName, indent: &str, lines: &mut Vec<String>) {
    let forked = |branch: &&BranchView| branch.forked_from.as_ref().is_some_and(|(name, _)| name == from);
    let mut children: Vec<&BranchView> = thread.branches.iter().filter(forked).collect();
    children.sort_by_key(|branch| branch.forked_from.as_ref().map(|(_, index)| *index));
    for (n, child) in children.iter().enumerate() {
        let is_last = n + 1 == children.len();
        let (mark, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(format!("{indent}{mark}{}", describe(thread, child)));
        grow(thread, &child.name, &format!("{indent}{below}"), lines);
    }
}

fn describe(thread: &ThreadView, branch: &BranchView) -> String {
    let mut facts = vec![count(branch.head.index + 1, "entry", "entries")];
    match &branch.forked_from {
        Some((from, index)) if is_root(thread, branch) => {
            facts.push(format!("forked at {index} from {from}, which is gone"));
        }
        Some((_, index)) => facts.push(format!("forked at {index}")),
        None => {}
    }
    if let Some(run) = &branch.run {
        facts.push(format!("run {} is active", run.short()));
    }
    let mark = if branch.name == thread.current { " (current)" } else { "" };
    format!("{}{mark}: {}", branch.name, facts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::id::RunId;
    use baton_core::thread::Place;
    use baton_core::time::Timestamp;
    use serde_json::Value;
    use uuid::Uuid;

    fn branch(name: &str, head: i64, from: Option<(&str, i64)>) -> BranchView {
        BranchView {
            name: name.parse().unwrap(),
            head: Place { lane: 0, index: head },
            forked_from: from.map(|(name, index)| (name.parse().unwrap(), index)),
            run: None,
        }
    }

    #[test]
    fn forks_hang_below_what_they_were_forked_from() {
        let mut busy = branch("b", 4, Some(("main", 2)));
        busy.run = Some(RunId(Uuid::from_u128(0xabc)));
        let thread = ThreadView {
            id: "t".parse().unwrap(),
            current: "c".parse().unwrap(),
            created: Timestamp(0),
            ttl_at: None,
            meta: Value::Null,
            branches: vec![
                branch("a", 7, Some(("main", 5))),
                busy,
                branch("c", 0, Some(("b", 0))),
                branch("lost", 1, Some(("gone", 1))),
                branch("main", -1, None),
            ],
        };
        let expected = "\
thread t
main: 0 entries
├─ b: 5 entries, forked at 2, run 00000abc is active
│  └─ c (current): 1 entry, forked at 0
└─ a: 8 entries, forked at 5
lost: 2 entries, forked at 1 from gone, which is gone";
        assert_eq!(tree(&thread), expected);
    }
}
