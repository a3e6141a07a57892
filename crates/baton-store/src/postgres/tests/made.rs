//! The start of a run, as small as possible.

use baton_core::budget::Budget;
use baton_core::flow::{FlowRecord, Node};
use baton_core::id::{BranchName, EntryId, FramePath, OwnerId, RunId};
use baton_core::run::Definition;
use baton_core::thread::{Entry, NewEntry, Tail};
use baton_core::time::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::transition::{CHECKPOINT_VERSION, Checkpoint, NewRun, PinnedDefinition, RunHalt, Transition};

fn definition() -> Definition {
    serde_json::from_str(include_str!("../../../tests/golden/v2/definition.json")).unwrap()
}

pub(in super::super) fn first() -> Transition {
    let entry = Entry::from_parts("UserMessage", 1, json!({"text": "go"})).unwrap();
    let id = EntryId(Uuid::nil());
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
        rest: RunHalt::Running,
    }
}

pub(in super::super) fn new() -> NewRun {
    NewRun {
        owner: OwnerId(Uuid::nil()),
        branch: BranchName::main(),
        expected_head: -1,
        after: None,
        definition: PinnedDefinition::new(definition()),
        at: Timestamp(1),
        metadata: json!({}),
        new_thread: None,
        lane: None,
        key: None,
        queued: false,
    }
}
