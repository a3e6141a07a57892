use baton_core::budget::Budget;
use baton_core::flow::{FlowRecord, Node};
use baton_core::id::{FramePath, OwnerId, RunId};
use baton_core::run::Definition;
use baton_core::thread::{Entry, NewEntry, Tail};
use baton_core::time::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::transition::{CHECKPOINT_VERSION, Checkpoint, NewThread};

fn definition() -> Definition {
    serde_json::from_str(include_str!("../../../tests/golden/v2/definition.json")).unwrap()
}

fn first() -> Transition {
    let entry = Entry::from_parts("UserMessage", 1, json!({"text": "go"})).unwrap();
    let id = baton_core::id::EntryId(Uuid::nil());
    Transition {
        run: RunId(Uuid::nil()),
        thread: "t".parse().unwrap(),
        lane: 0,
        epoch: 1,
        step: 1,
        frame: FramePath::root(),
        entries: vec![NewEntry { id, at: Timestamp(1), entry }],
        last_seq: 0,
        checkpoint: Checkpoint {
            v: CHECKPOINT_VERSION,
            at: Timestamp(1),
            node: Node::Reasoning,
            next_action: None,
            state: FlowRecord::new("turn", 1, &json!({})),
            in_flight: Vec::new(),
            inbox_read: 0,
            head: 0,
            budget: Budget::default(),
            tail: Tail::default(),
            waiting: Vec::new(),
            account: Vec::new(),
            events: Vec::new(),
        },
        inbox: Some(0),
        progress: false,
        asked: Vec::new(),
        settled: Vec::new(),
        audit: Vec::new(),
        rest: Rest::Running,
    }
}

fn new() -> NewRun {
    NewRun {
        owner: OwnerId(Uuid::nil()),
        branch: BranchName::main(),
        expected_head: -1,
        definition: Pinned::new(definition()),
        at: Timestamp(1),
        metadata: json!({}),
        new_thread: None,
        lane: None,
        key: None,
        queued: false,
    }
}

fn lane(new: &NewRun, first: &Transition) -> Option<u32> {
    at_once(new, &Packed::new(&Tenant::local(), first).unwrap())
}

#[test]
fn what_is_common_begins_in_one_statement() {
    let made = NewThread { id: "t".parse().unwrap(), at: Timestamp(1), ttl_at: None, meta: json!({}) };
    let fresh = NewRun { new_thread: Some(made), ..new() };
    let known = NewRun { lane: Some(7), expected_head: 3, ..new() };
    assert_eq!(lane(&fresh, &first()), Some(0));
    assert_eq!(lane(&known, &first()), Some(7));
    assert_eq!(lane(&new(), &first()), None, "nobody looked where it would write");
    assert_eq!(lane(&NewRun { queued: true, ..known.clone() }, &first()), None, "its row is there");
    let elsewhere = NewRun { branch: "other".parse().unwrap(), ..fresh.clone() };
    assert_eq!(lane(&elsewhere, &first()), None, "a new thread has one branch");
    for refused in [
        Transition { epoch: 2, ..first() },
        Transition { step: 2, ..first() },
        Transition { inbox: Some(1), ..first() },
        Transition { last_seq: 1, ..first() },
        Transition { entries: Vec::new(), ..first() },
        Transition { rest: Rest::Ended(RunStatus::Error), ..first() },
    ] {
        assert_eq!((lane(&fresh, &refused), lane(&known, &refused)), (None, None));
    }
}
