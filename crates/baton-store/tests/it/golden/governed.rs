//! The samples in the golden files of version 2: policies, trust and the answers of users.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::budget::Budget;
use baton_core::effect::{Effect, EffectKind, Purpose, View, Wait};
use baton_core::flow::{FlowRecord, Setting, WaitingOn};
use baton_core::id::FramePath;
use baton_core::policy::{Decision, OnUnknown, SelfCheck, ToolRule, UntrustedEgress};
use baton_core::run::{Approval, ApprovalStatus, Choice, Definition, Message, RunStatus};
use baton_core::thread::{Entry, WaitingKind};
use baton_core::tool::{EffectClass, Egress, ToolSpec, Trust};
use baton_store::{
    Checkpoint, ClaimMode, ForkAt, Intent, NewRun, PinnedDefinition, RunHalt, Store, Transition,
};
use serde_json::json;

use super::samples::{self, AT};
use crate::pen::Pen;
use crate::values::{
    assistant, at, branch, call, new_thread, numbered, run, talk, tenant, thread, untrusted, user,
};

pub(super) fn entries() -> Vec<(&'static str, Entry)> {
    let result = |more: serde_json::Value| {
        let mut data = json!({"tool_call_id": "c-1", "tool_name": "fetch_url", "result": "a page"});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Entry::from_stored("ToolResult", 3, data).unwrap()
    };
    vec![
        ("tool_result_untrusted", result(json!({"untrusted": true}))),
        ("tool_result_asked", result(json!({"status": "error", "cause": "asked"}))),
        ("tool_result_both", result(json!({"status": "error", "cause": "tool", "untrusted": true}))),
    ]
}

pub(super) fn budget() -> Budget {
    Budget { last_prompt: 9, errors: 10, ..samples::budget() }
}

pub(super) fn definition() -> Definition {
    let before = samples::definition_by_roles();
    let name = |name: &str| Some(name.to_owned());
    let egress = Egress::UnlessFound;
    let trust = Trust { untrusted_output: true, egress, approve: true, ..Trust::BUILT_IN };
    let sends = Trust { egress: Egress::Yes, ..Trust::default() };
    let tool = |trust| ToolSpec { trust, ..before.tools[0].clone() };
    Definition {
        v: 3,
        decision: Decision {
            on_unknown: OnUnknown::AskPerson,
            default_role: name("auto"),
            after_tools: name("reasoning"),
            tool_rule: ToolRule::Required,
            first_tool: name("system_health"),
            search_first: name("web_search"),
            temperature: Some(0.25),
            self_check: SelfCheck::AfterTools,
            untrusted_egress: UntrustedEgress::Allow,
            denied: BTreeMap::from([("run_code".to_owned(), "mode EXPLORATORY".to_owned())]),
            ..before.decision.clone()
        },
        tools: vec![tool(trust), tool(sends)].into(),
        ..before
    }
}

/// The same run, begun on the command line: its file tools look at these folders and no others.
pub(super) fn definition_in_folders() -> Definition {
    Definition { roots: ["/srv/notes", "/srv/data"].map(str::to_owned).into(), ..definition() }
}

/// An approval about whether a call happened, and its outcome.
pub(super) fn asked() -> Approval {
    Approval {
        id: "ou-c-1-1".to_owned(),
        run_id: run(3),
        kind: baton_core::run::ApprovalKind::Outcome,
        reason: "write was interrupted, and nobody knows whether it took effect".to_owned(),
        ..samples::pending()
    }
}

pub(super) fn answered() -> Approval {
    Approval {
        status: ApprovalStatus::Edited,
        by: Some("ann".to_owned()),
        at: Some(AT.plus_ms(7)),
        ..asked()
    }
}

pub(super) fn answer() -> Message {
    Message::Decision {
        approval_id: asked().id,
        choice: Choice::Edit,
        arguments: Some(json!({"output": {"written": 3}})),
        reason: None,
    }
}

/// A turn that asked about a call, with every field that version 3 of its state has.
pub(super) fn state() -> FlowRecord {
    let stage =
        json!({"stage": "outcome", "n": 4, "approval_id": "ou-c-1-1", "deadline": AT, "edited_by": "ap-1"});
    let call = json!({
        "n": 3, "call_id": "c-1", "name": "write", "entry": 4, "class": "unsafe", "digest": "ab12",
        "again": 1, "rule": "SYSTEM_HEALTH", "stage": stage,
    });
    let state = json!({
        "next_n": 5, "phase": {"phase": "calling"}, "rounds": 1, "last_answer": true, "said": true,
        "calls": [call], "failures": {"ab12": 1}, "steering": ["hurry"],
        "receipt": {"finished": [[1, "look"]], "stopped": [], "unknown": [], "not_started": []},
        "question": {"rung": 1, "trim": {"trim": "simple"}, "puzzled": true, "compacted": false, "summarised": false},
        "timed_out": ["ollama/o"], "first": 1, "lowest": 0, "simplified": true,
        "role": "reasoning", "why": "it is a plan", "escalated": true, "by_rule": true, "admitted": true,
        "used_tools": true, "untrusted": 2, "checks": 1, "missing": {"what": "the date", "answer": 2},
    });
    FlowRecord::new("turn", 3, &state)
}

pub(super) fn setting() -> Setting {
    Setting { run: run(3), path: FramePath::root(), definition: Arc::new(definition()) }
}

pub(super) fn waiting() -> Vec<WaitingOn> {
    vec![WaitingOn { kind: WaitingKind::Approval, id: asked().id, deadline: AT, question: None }]
}

pub(super) fn checkpoint() -> Checkpoint {
    let model = |purpose| EffectKind::Model {
        role: "router".to_owned(),
        rung: 0,
        head: 3,
        tools: true,
        message_id: "m-0".to_owned(),
        attempt: 1,
        purpose,
        view: View::default(),
        last_resort: false,
    };
    let again = EffectKind::Tool {
        call_id: "c-1".to_owned(),
        name: "write".to_owned(),
        entry: 4,
        class: EffectClass::Unsafe,
        edited_by: None,
        again: 1,
    };
    let wait = EffectKind::Wait { what: Wait::Approval { approval_id: asked().id }, deadline: AT };
    let revision = Purpose::Revision { missing: "the date".to_owned() };
    let kinds = [model(Purpose::Choice), model(Purpose::Check), model(revision), again, wait];
    let intent = |(n, kind)| Intent { effect: Effect { n, kind }, attempt: 1, shown: false };
    Checkpoint {
        v: 3,
        state: state(),
        in_flight: (0..).zip(kinds).map(intent).collect(),
        budget: budget(),
        waiting: waiting(),
        ..samples::checkpoint()
    }
}

/// Adds to the data of version 1 a thread with untrusted content, a branch without it, and a run that waits for the
/// outcome of a call.
pub(super) async fn fill(store: &Store) {
    samples::fill(store).await;
    let owner = store.enlist().unwrap();
    let t = thread("governed");
    talk(store, "governed", 1).await;
    for (n, entry) in (2..).zip([call("1"), untrusted("1"), assistant("a page says")]) {
        store.push(&tenant(), &t, None, numbered(n, entry)).await.unwrap();
    }
    for (index, name) in [(0, "clean"), (3, "after")] {
        store.fork(&tenant(), &t, None, &ForkAt::Index(index), branch(name), at(9)).await.unwrap();
    }
    let mut pen = Pen::for_new(store, 3, ("governed", "clean")).await;
    let new = NewRun { definition: PinnedDefinition::new(definition()), ..pen.new_run(owner.id) };
    let first = pen.next(vec![user("go")], vec![]);
    pen.lane = store.start(&tenant(), new, first.clone()).await.unwrap();
    pen.written(&first);
    let mut asks = pen.next(vec![call("c-0"), untrusted("c-0"), call("c-1")], vec![]);
    asks.checkpoint = Checkpoint { head: asks.checkpoint.head, events: vec![], ..checkpoint() };
    let (asked, rest) = (vec![asked()], RunHalt::Suspended { wake_at: AT.plus_ms(60_000) });
    pen.commit(store, Transition { asked, rest, ..asks }).await.unwrap();
}

/// The user answers, and the run ends.
pub(super) async fn go_on(store: &Store) {
    samples::go_on(store).await;
    let owner = store.enlist().unwrap();
    store.post(&tenant(), run(3), answer(), Some("ann".to_owned()), AT.plus_ms(7)).await.unwrap();
    let claimed = store.claim(&tenant(), run(3), owner.id, ClaimMode::IfFree, at(98)).await.unwrap();
    let mut pen = Pen::of(&claimed);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    store.create_thread(&tenant(), new_thread("later", 99)).await.unwrap();
}
