//! Small values to write, the same in every test.

use baton_core::event::Event;
use baton_core::fault::Code;
use baton_core::id::{BranchName, EntryId, RunId, Tenant, ThreadId};
use baton_core::policy::default_decision;
use baton_core::run::{Approval, ApprovalStatus, Choice, Definition, Message};
use baton_core::thread::{Entry, NewEntry};
use baton_core::time::Timestamp;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_store::{NewThread, Store};
use serde_json::{Value, json};
use uuid::Uuid;

/// A moment, in milliseconds after the tests' beginning of time.
pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp(1_767_225_600_000).plus_ms(ms)
}

pub(crate) fn tenant() -> Tenant {
    Tenant::local()
}

pub(crate) fn thread(text: &str) -> ThreadId {
    text.parse().unwrap()
}

pub(crate) fn branch(text: &str) -> BranchName {
    text.parse().unwrap()
}

pub(crate) fn run(n: u128) -> RunId {
    RunId(Uuid::from_u128(n))
}

pub(crate) fn entry_id(n: u128) -> EntryId {
    EntryId(Uuid::from_u128(n))
}

pub(crate) fn entry(t: &str, data: Value) -> Entry {
    Entry::from_parts(t, 1, data).unwrap()
}

pub(crate) fn user(text: &str) -> Entry {
    entry("UserMessage", json!({"text": text}))
}

pub(crate) fn assistant(text: &str) -> Entry {
    entry("AssistantMessage", json!({"content": text}))
}

pub(crate) fn call(id: &str) -> Entry {
    entry("ToolCall", json!({"id": id, "function_name": "f", "arguments": {}}))
}

pub(crate) fn result(id: &str) -> Entry {
    entry("ToolResult", json!({"tool_call_id": id, "tool_name": "f", "result": "done"}))
}

/// A tool result from unknown authors.
pub(crate) fn untrusted(id: &str) -> Entry {
    let data = json!({"tool_call_id": id, "tool_name": "f", "result": "a page", "untrusted": true});
    Entry::from_stored("ToolResult", 3, data).unwrap()
}

/// A tool result that is private, and that no stranger wrote.
pub(crate) fn private(id: &str) -> Entry {
    let data = json!({"tool_call_id": id, "tool_name": "f", "result": "a note", "private": true});
    Entry::from_stored("ToolResult", 4, data).unwrap()
}

/// A tool result that is private, and that a stranger may have written: a file.
pub(crate) fn file(id: &str) -> Entry {
    let data =
        json!({"tool_call_id": id, "tool_name": "f", "result": "a file", "untrusted": true, "private": true});
    Entry::from_stored("ToolResult", 4, data).unwrap()
}

/// An entry about to be written; its id and its moment follow from its number.
pub(crate) fn numbered(n: u32, entry: Entry) -> NewEntry {
    NewEntry { id: entry_id(n.into()), at: at(n.into()), entry }
}

pub(crate) fn warning(text: &str) -> Event {
    Event::Warning { code: Code::Internal, message: text.to_owned() }
}

pub(crate) fn delta(effect: u32, text: &str) -> Event {
    Event::Delta { effect, message_id: format!("m{effect}"), text: text.to_owned(), reasoning: false }
}

pub(crate) fn input(text: &str) -> Message {
    Message::Input { input_id: format!("in-{text}"), text: text.to_owned() }
}

pub(crate) fn decision(approval: &str, choice: Choice, arguments: Option<Value>) -> Message {
    Message::Decision { approval_id: approval.to_owned(), choice, arguments, reason: None }
}

pub(crate) fn approval(id: &str, run: RunId) -> Approval {
    Approval {
        id: id.to_owned(),
        run_id: run,
        call_id: format!("call-of-{id}"),
        kind: baton_core::run::ApprovalKind::Call,
        name: "write".to_owned(),
        args: json!({"path": "a.txt"}),
        digest: "d".repeat(64),
        reason: "the rule asks".to_owned(),
        created: at(10),
        expires_at: at(1000),
        status: ApprovalStatus::Pending,
        by: None,
        at: None,
        original_args: None,
        decision_reason: None,
    }
}

pub(crate) fn definition() -> Definition {
    Definition {
        v: 1,
        flow: "turn".to_owned(),
        mode: Default::default(),
        channel: "CHAT".to_owned(),
        system: "Be brief.".to_owned(),
        model: "offline/mini".to_owned(),
        roles: Default::default(),
        decision: default_decision(),
        tools: vec![ToolSpec {
            name: "f".to_owned(),
            description: "Does f.".to_owned(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            class: EffectClass::SideEffectFree,
            timeout_ms: 1000,
            ..ToolSpec::default()
        }]
        .into(),
        last_n: Some(40),
        render: Default::default(),
        roots: Vec::new(),
    }
}

pub(crate) fn new_thread(id: &str, ms: u64) -> NewThread {
    NewThread { id: thread(id), at: at(ms), ttl_at: None, meta: json!({}) }
}

/// Makes a thread whose main branch has this many messages, with ids and times 1, 2, 3 …
pub(crate) async fn talk(store: &Store, id: &str, messages: u32) {
    store.create_thread(&tenant(), new_thread(id, 0)).await.unwrap();
    push_many(store, id, "main", 1, messages).await;
}

/// Appends messages whose ids and moments begin at `first`.
pub(crate) async fn push_many(store: &Store, id: &str, on: &str, first: u32, messages: u32) {
    for n in first..first + messages {
        let new = numbered(n, user(&format!("m{n}")));
        store.push(&tenant(), &thread(id), Some(&branch(on)), new).await.unwrap();
    }
}
