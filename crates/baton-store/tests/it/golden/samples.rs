//! The samples in the golden files of version 1: every type, every field.

use baton_core::budget::{Budget, Limits};
use baton_core::effect::{BlobRef, CutReason, Effect, EffectKind, Purpose, Trim, View, Wait};
use baton_core::event::Event;
use baton_core::fault::{Code, Fault};
use baton_core::flow::{FlowRecord, NextAction, Node, WaitingOn};
use baton_core::policy::{Decision, Mode, OnUnknown, default_decision};
use baton_core::render::{Registered, RenderPolicy, Rendering};
use baton_core::role::Candidate;
use baton_core::run::{
    Approval, ApprovalStatus, Choice, Definition, Message, Receipt, ReceiptCall, RunStatus, Step, StepKind,
    Usage,
};
use baton_core::thread::{Closing, Entry, Tail, WaitingKind};
use baton_core::time::Timestamp;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_store::{Checkpoint, ClaimMode, ForkAt, Intent, NewRun, RunHalt, Store, Transition};
use serde_json::{Value, json};

use crate::pen::Pen;
use crate::values::{at, branch, entry, input, new_thread, numbered, run, tenant, thread, user};

pub(super) const AT: Timestamp = Timestamp(1_767_225_600_123);
pub(super) const BLOB: &[u8] = b"a long output";

/// Entry types that were added after the file of version 1 was written.
pub(super) fn later_entries() -> [(&'static str, Entry); 1] {
    let reasoning = json!({"model": "anthropic/c", "wire": "anthropic", "blocks": [{"type": "thinking", "signature": "s"}]});
    let data = json!({"content": "so", "reasoning": reasoning});
    [("assistant_thought", Entry::from_stored("AssistantMessage", 2, data).unwrap())]
}

/// One of every type, with every field that it has.
pub(super) fn entries() -> Vec<(&'static str, Entry)> {
    let blob = json!({"hash": "ab".repeat(32), "size": 9, "dropped": 1});
    let all = [
        ("user_message", "UserMessage", json!({"text": "Hi \u{0} é", "meta": "steering"})),
        ("user_response", "UserResponse", json!({"text": "yes"})),
        (
            "assistant_message",
            "AssistantMessage",
            json!({"content": "looking", "tool_calls": [{"id": "c-1", "name": "read", "arguments": {"path": "a"}}], "meta": "error:deadline"}),
        ),
        (
            "tool_call",
            "ToolCall",
            json!({"id": "c-1", "function_name": "read", "arguments": {"n": [1, 2.5, null]}, "provider_id": "p-1"}),
        ),
        (
            "tool_result",
            "ToolResult",
            json!({"tool_call_id": "c-1", "tool_name": "read", "result": {"s": 1}, "status": "unknown", "reward": 0.8, "blob": blob}),
        ),
        (
            "tool_result_ok",
            "ToolResult",
            json!({"tool_call_id": "c-1", "tool_name": "read", "result": "done"}),
        ),
        ("agent_call", "AgentCall", json!({"agent_id": "a", "message": "m", "correlation_id": "c"})),
        (
            "agent_result",
            "AgentResult",
            json!({"correlation_id": "c", "result": null, "score": 0.9, "status": "expired"}),
        ),
        (
            "waiting",
            "Waiting",
            json!({"kind": "user_input", "deadline": 1767225700.5, "correlation_id": "c"}),
        ),
        ("finished", "Finished", json!({})),
        ("summary", "Summary", json!({"text": "s", "up_to": 4})),
        ("custom", "my.Note", json!({"anything": ["goes", {"x": 1}]})),
    ];
    all.into_iter().map(|(name, t, data)| (name, entry(t, data))).collect()
}

pub(super) fn long_entry() -> Entry {
    user(&"All work and no play makes a dull log. ".repeat(80))
}

pub(super) fn messages() -> Vec<(&'static str, Message)> {
    let decision = |choice, arguments: Option<Value>, reason: Option<&str>| Message::Decision {
        approval_id: "ap-1".to_owned(),
        choice,
        arguments,
        reason: reason.map(str::to_owned),
    };
    vec![
        ("cancel", Message::Cancel),
        ("approve", decision(Choice::Approve, Some(json!({"path": "a"})), None)),
        ("deny", decision(Choice::Deny, None, Some("not now"))),
        ("edit", decision(Choice::Edit, Some(json!({"path": "b"})), None)),
        ("input", Message::Input { input_id: "in-1".to_owned(), text: "and the rest?".to_owned() }),
    ]
}

pub(super) fn pending() -> Approval {
    Approval {
        id: "ap-1".to_owned(),
        run_id: run(2),
        call_id: "c-1".to_owned(),
        kind: baton_core::run::ApprovalKind::Call,
        name: "write".to_owned(),
        args: json!({"path": "a"}),
        digest: "d".repeat(64),
        reason: "rule \"careful\" asks before write runs".to_owned(),
        created: AT,
        expires_at: AT.plus_ms(60_000),
        status: ApprovalStatus::Pending,
        by: None,
        at: None,
        original_args: None,
        decision_reason: None,
    }
}

pub(super) fn edited() -> Approval {
    Approval {
        args: json!({"path": "b"}),
        status: ApprovalStatus::Edited,
        by: Some("ann".to_owned()),
        at: Some(AT.plus_ms(7)),
        ..pending()
    }
}

pub(super) fn budget() -> Budget {
    Budget {
        prompt_tokens: 1,
        completion_tokens: 2,
        model_calls: 3,
        tool_calls: 4,
        active_ms: 5,
        cost_micro_usd: 6,
        unpriced: 7,
        reserved_tokens: 8,
        last_prompt: 0,
        errors: 0,
        estimated: 0,
    }
}

pub(super) fn definition() -> Definition {
    Definition {
        v: 1,
        flow: "turn".to_owned(),
        system: "Be brief.".to_owned(),
        model: "offline/mini".to_owned(),
        roles: Default::default(),
        mode: Mode::Conservative,
        channel: "CHAT".to_owned(),
        decision: Decision {
            rule: "careful".to_owned(),
            roles: vec!["reasoning".to_owned()],
            tools: vec!["*".to_owned()],
            approvals: vec!["write*".to_owned()],
            limits: Limits {
                iterations: 4,
                active_ms: 60_000,
                tokens: Some(10_000),
                tool_calls: Some(9),
                cost_micro_usd: Some(250_000),
                answer_tokens: 1024,
            },
            patience_ms: 60_000,
            on_unknown: OnUnknown::TellModel,
            ..default_decision()
        },
        tools: vec![ToolSpec {
            name: "write".to_owned(),
            description: "Writes a file.".to_owned(),
            input_schema: json!({"type": "object", "required": ["path"]}),
            output_schema: Some(json!({"type": "string"})),
            class: EffectClass::Idempotent,
            timeout_ms: 30_000,
            ..ToolSpec::default()
        }]
        .into(),
        last_n: Some(40),
        render: Default::default(),
        roots: Vec::new(),
    }
}

/// The same definition by roles, with every field that a rendering has.
pub(super) fn definition_by_roles() -> Definition {
    let candidate = Candidate {
        model: "ollama/llama3.2:3b".to_owned(),
        temperature: Some(0.5),
        max_tokens: Some(512),
        context_window: Some(8192),
    };
    let roles = [("reasoning", vec![candidate, Candidate::of("openai/o")]), ("router", vec![])];
    Definition {
        v: 2,
        roles: roles.into_iter().map(|(role, candidates)| (role.to_owned(), candidates)).collect(),
        render: Rendering {
            policy: RenderPolicy::Summary,
            exclude: vec!["ToolCall".to_owned()],
            then: vec![Registered { name: "shout".to_owned(), options: json!({"loud": true}) }],
        },
        ..definition()
    }
}

/// A model call on the last rung of its ladder, and its account of the context window.
pub(super) fn checkpoint_of_a_question() -> Checkpoint {
    let model = |n, purpose, trim| Effect {
        n,
        kind: EffectKind::Model {
            role: "reasoning".to_owned(),
            rung: 2,
            head: 9,
            tools: false,
            message_id: format!("m-{n}"),
            attempt: 1,
            purpose,
            view: View { first: Some(4), lowest: Some(2), trim },
            last_resort: true,
        },
    };
    let effects = [
        model(0, Purpose::Summary { up_to: 3 }, Trim::Simple),
        model(1, Purpose::Answer, Trim::Compact { fits: Some(4096) }),
        model(2, Purpose::Answer, Trim::None),
    ];
    let fault = Fault { fits_tokens: Some(4096), ..Fault::new(Code::ContextTooLong, "too long") };
    let usage = Usage::default();
    Checkpoint {
        v: 2,
        in_flight: effects.into_iter().map(|effect| Intent { effect, attempt: 1, shown: false }).collect(),
        budget: Budget { last_prompt: 77, ..budget() },
        events: vec![
            Event::HistoryCut { first: 4, reason: CutReason::TokenBudget },
            Event::Ended { status: RunStatus::Error, error: Some(fault), usage, receipt: None },
        ],
        ..checkpoint()
    }
}

fn effects() -> [EffectKind; 4] {
    [
        EffectKind::Model {
            role: "reasoning".to_owned(),
            head: -1,
            tools: true,
            message_id: "m-0".to_owned(),
            attempt: 2,
            rung: 0,
            purpose: Default::default(),
            view: Default::default(),
            last_resort: false,
        },
        EffectKind::Tool {
            call_id: "c-1".to_owned(),
            name: "write".to_owned(),
            entry: 2,
            class: EffectClass::Unsafe,
            edited_by: Some("ap-1".to_owned()),
            again: 0,
        },
        EffectKind::Wait { what: Wait::Approval { approval_id: "ap-1".to_owned() }, deadline: AT },
        EffectKind::Wait { what: Wait::Time, deadline: AT },
    ]
}

/// One of every event; pieces of text are stored as blocks.
fn events() -> Vec<Event> {
    let delta = |effect, text: &str, reasoning| Event::Delta {
        effect,
        message_id: format!("m-{effect}"),
        text: text.to_owned(),
        reasoning,
    };
    let call = |id: &str| ReceiptCall { call_id: id.to_owned(), name: "write".to_owned() };
    let blob = BlobRef { hash: "ab".repeat(32), size: 9, dropped: 0 };
    let (call_id, name) = ("c-1".to_owned(), "write".to_owned());
    vec![
        Event::Started { thread: thread("golden"), branch: branch("main"), flow: "turn".to_owned() },
        delta(0, "Hm", true),
        delta(0, "Hé", false),
        delta(0, "llo", false),
        delta(3, "again", false),
        Event::ToolStart { name: name.clone(), args: json!({"path": "a"}), call_id: call_id.clone() },
        Event::ToolResult {
            name: name.clone(),
            result: "done".to_owned(),
            call_id: call_id.clone(),
            status: Closing::Ok,
            blob: Some(blob),
        },
        Event::ApprovalRequired {
            approval_id: "ap-1".to_owned(),
            call_id,
            name,
            args: json!({"path": "a"}),
            digest: "d".repeat(64),
            reason: "rule \"careful\" asks before write runs".to_owned(),
            expires_at: AT.plus_ms(60_000),
        },
        Event::Input { input_id: "in-1".to_owned() },
        Event::Warning {
            code: Code::BudgetExceeded,
            message: "the limit of tool rounds was reached".to_owned(),
        },
        Event::Restarted { message_id: "m-3".to_owned() },
        Event::Ended {
            status: RunStatus::Cancelled,
            error: Some(Fault::new(Code::LlmRateLimited, "slow down").retry_after_ms(500)),
            usage: Usage { cost_usd: Some(0.25), ..budget().usage() },
            receipt: Some(Receipt {
                finished: vec![call("c-1")],
                stopped: vec![call("c-2")],
                unknown: vec![call("c-3")],
                not_started: vec![call("c-4")],
            }),
        },
    ]
}

pub(super) fn checkpoint() -> Checkpoint {
    let intent = |(n, kind)| Intent { effect: Effect { n, kind }, attempt: n + 1, shown: n == 0 };
    Checkpoint {
        v: 1,
        at: AT,
        node: Node::ToolCall,
        next_action: Some(NextAction::CallTool),
        state: FlowRecord::new("turn", 1, &json!({"rounds": 1})),
        in_flight: (0..).zip(effects()).map(intent).collect(),
        inbox_read: 2,
        head: 5,
        budget: budget(),
        tail: Tail::of(&[entry("ToolCall", json!({"id": "c-1", "function_name": "write", "arguments": {}}))]),
        waiting: vec![WaitingOn {
            kind: WaitingKind::UserInput,
            id: "c-1".to_owned(),
            deadline: AT,
            question: Some("which one?".to_owned()),
        }],
        account: vec![Step {
            kind: StepKind::LlmCall,
            description: "offline/mini asked for write".to_owned(),
            metadata: json!({"model_role": "reasoning"}).as_object().unwrap().clone(),
        }],
        events: events(),
    }
}

/// A thread with two branches; one run that has ended, and one that waits for a decision.
pub(super) async fn fill(store: &Store) {
    let owner = store.enlist().unwrap();
    let t = thread("golden");
    store.create_thread(&tenant(), new_thread("golden", 0)).await.unwrap();
    for (n, (_, entry)) in (1..).zip(entries()) {
        // In the file order one type cannot always follow the other; those that cannot are left out.
        let _ = store.push(&tenant(), &t, None, numbered(n, entry)).await;
    }
    store.fork(&tenant(), &t, None, &ForkAt::Index(0), branch("other"), at(90)).await.unwrap();
    store.push(&tenant(), &t, Some(&branch("other")), numbered(91, long_entry())).await.unwrap();
    store
        .fork(&tenant(), &t, Some(&branch("other")), &ForkAt::Head, branch("waiting"), at(92))
        .await
        .unwrap();

    let mut ended = begin(store, owner.id, 1, "other").await;
    let mut last = ended.ends(RunStatus::Cancelled);
    last.checkpoint.events = events();
    last.last_seq = ended.seq + last.checkpoint.events.len() as u64;
    ended.commit(store, last).await.unwrap();

    let mut waiting = begin(store, owner.id, 2, "waiting").await;
    let asked = vec![pending()];
    waiting.commit(store, Transition { asked, ..waiting.says("may I?") }).await.unwrap();
    let rest = RunHalt::Suspended { wake_at: at(60_000) };
    waiting.commit(store, Transition { rest, ..waiting.says("waiting") }).await.unwrap();
    store.post(&tenant(), run(2), input("hurry"), None, at(95)).await.unwrap();
    let hash = baton_core::json::sha256_hex(BLOB);
    store.put_blob(&tenant(), &hash, BLOB.to_vec(), at(96)).await.unwrap();
}

async fn begin(store: &Store, owner: baton_core::id::OwnerId, n: u128, on: &str) -> Pen {
    let mut pen = Pen::for_new(store, n, ("golden", on)).await;
    let new = NewRun { definition: baton_store::PinnedDefinition::new(definition()), ..pen.new_run(owner) };
    let first = pen.says("go");
    pen.lane = store.start(&tenant(), new, first.clone()).await.unwrap();
    pen.written(&first);
    pen
}

/// Decides the approval of the run that waits, claims it and drives it to its end.
pub(super) async fn go_on(store: &Store) {
    let owner = store.enlist().unwrap();
    let (_, edit) = messages().swap_remove(3);
    store.post(&tenant(), run(2), edit, Some("ann".to_owned()), at(97)).await.unwrap();
    let claimed = store.claim(&tenant(), run(2), owner.id, ClaimMode::IfFree, at(98)).await.unwrap();
    let mut pen = Pen::of(&claimed);
    pen.commit(store, Transition { inbox: Some(2), ..pen.ends(RunStatus::Ok) }).await.unwrap();
}
