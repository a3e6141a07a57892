use super::*;
use baton_core::budget::Budget;
use baton_core::effect::ToolOutcome;
use baton_core::fault::{Code, Fault};
use baton_core::flow::WaitingOn;
use baton_core::id::{EntryId, RunId};
use baton_core::run::{ApprovalStatus, RunStatus, Step, StepKind};
use baton_core::thread::{Closing, Entry, Place, WaitingKind};
use baton_core::time::Timestamp;
use uuid::Uuid;

const AT: Timestamp = Timestamp(1_767_225_600_000);
const AT_TEXT: &str = "2026-01-01T00:00:00.000Z";
const ID: Uuid = Uuid::from_u128(7);
const ID_TEXT: &str = "00000000-0000-0000-0000-000000000007";

fn a_thread(ttl_at: Option<Timestamp>) -> ThreadView {
    let branch = |name: &str, index, forked_from| BranchView {
        name: name.parse().unwrap(),
        head: Place { lane: 3, index },
        forked_from,
        run: Some(RunId(ID)),
    };
    let from = Some(("main".parse().unwrap(), 1));
    ThreadView {
        id: "t".parse().unwrap(),
        current: "b".parse().unwrap(),
        created: AT,
        ttl_at,
        meta: json!({"k": 1}),
        branches: vec![branch("b", 4, from), branch("main", -1, None)],
    }
}

#[test]
fn a_thread_has_its_branches() {
    let b = json!({"name": "b", "head_index": 4, "length": 5, "forked_from": {"branch": "main", "index": 1}, "current": true});
    let main = json!({"name": "main", "head_index": -1, "length": 0, "current": false});
    let mut expected =
        json!({"id": "t", "current": "b", "created": AT_TEXT, "meta": {"k": 1}, "branches": [b, main]});
    assert_eq!(thread(&a_thread(None)), expected);
    expected["ttl_at"] = json!(AT_TEXT);
    assert_eq!(thread(&a_thread(Some(AT))), expected);
}

#[test]
fn an_entry_has_its_place_and_its_run() {
    let said = Entry::from_parts("UserMessage", 1, json!({"text": "hi"})).unwrap();
    let mut placed = PlacedEntry { index: 2, id: EntryId(ID), at: AT, run: None, entry: said };
    let mut expected = json!({"index": 2, "id": ID_TEXT, "ts": AT_TEXT, "t": "UserMessage", "data": {"text": "hi"}, "run_id": null});
    assert_eq!(entry(&placed), expected);
    placed.run = Some(RunId(ID));
    expected["run_id"] = json!(ID_TEXT);
    assert_eq!(entry(&placed), expected);
}

#[test]
fn a_message_is_in_the_schema_that_everybody_reads() {
    use baton_core::chat::Role;
    let call = ChatCall { id: "1".to_owned(), name: "look".to_owned(), arguments: json!({"at": "x"}) };
    let asks = ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") };
    let function = json!({"name": "look", "arguments": "{\"at\":\"x\"}"});
    let expected = json!({
        "role": "assistant", "content": "",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    });
    assert_eq!(message(&asks), expected);
    let told = ChatMessage { tool_call_id: Some("1".to_owned()), ..ChatMessage::text(Role::Tool, "yes") };
    assert_eq!(message(&told), json!({"role": "tool", "content": "yes", "tool_call_id": "1"}));
    assert_eq!(message(&ChatMessage::text(Role::User, "hi")), json!({"role": "user", "content": "hi"}));
}

#[test]
fn rewinds_and_prunes_say_what_they_did() {
    let branch: baton_core::id::BranchName = "b".parse().unwrap();
    let mut done = Rewound { branch: branch.clone(), previous_head: 9, previous_entry: Some(EntryId(ID)) };
    let full = json!({"branch": "b", "head_index": 3, "previous_head": 9, "previous_entry": ID_TEXT});
    assert_eq!(rewound(&done, 3), full);
    done.previous_entry = None;
    assert_eq!(rewound(&done, -1), json!({"branch": "b", "head_index": -1, "previous_head": 9}));
    let freed = Pruned { branches: vec![branch], lanes: 1, entries: 4 };
    let expected = json!({"branches": ["b"], "lanes": 1, "entries": 4, "dry_run": true});
    assert_eq!(pruned(&freed, true), expected);
}

#[test]
fn a_run_says_where_it_stands() {
    let row = RunRow::begun(RunId(ID), &"t".parse().unwrap(), &"main".parse().unwrap(), -1, AT);
    let mut view = RunView {
        row: RunRow { definition: "ff".to_owned(), ..row },
        definition: None,
        error: None,
        result: None,
        waiting: vec![],
        steps: vec![],
    };
    let usage = json!({"tokens": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0});
    let mut expected = json!({
        "id": ID_TEXT, "thread_id": "t", "branch": "main", "definition": "ff", "status": "running",
        "waiting": [], "usage": usage, "steps": [], "created": AT_TEXT,
    });
    assert_eq!(run(&view), expected);

    (view.row.status, view.row.ended) = (RunStatus::Error, Some(AT));
    view.row.budget = Budget { prompt_tokens: 3, completion_tokens: 2, unpriced: 1, ..Budget::default() };
    view.error = Some(Fault::new(Code::LlmTimeout, "slow"));
    view.result = Some("so far".to_owned());
    view.waiting =
        vec![WaitingOn { kind: WaitingKind::Approval, id: "ap".to_owned(), deadline: AT, question: None }];
    let step = Step { kind: StepKind::LlmCall, description: "asked".to_owned(), metadata: Map::new() };
    view.steps = vec![step];
    expected["status"] = json!("error");
    expected["ended"] = json!(AT_TEXT);
    expected["usage"] = json!({"tokens": 5, "prompt_tokens": 3, "completion_tokens": 2, "cost_usd": null});
    expected["error"] = json!({"code": "llm_timeout", "message": "slow"});
    expected["result"] = json!("so far");
    expected["waiting"] = json!([{"kind": "approval", "id": "ap", "deadline": AT_TEXT}]);
    expected["steps"] = json!([{"type": "llm_call", "description": "asked", "metadata": {}}]);
    assert_eq!(run(&view), expected);
}

#[test]
fn an_approval_names_the_call_and_who_decided() {
    let mut asked = Approval {
        id: "ap-1".to_owned(),
        run_id: RunId(ID),
        call_id: "1".to_owned(),
        kind: baton_core::run::ApprovalKind::Call,
        name: "send".to_owned(),
        args: json!({"to": "x"}),
        digest: "dd".to_owned(),
        reason: "policy".to_owned(),
        created: AT,
        expires_at: AT,
        status: ApprovalStatus::Pending,
        by: None,
        at: None,
        original_args: None,
        decision_reason: None,
    };
    let mut expected = json!({
        "id": "ap-1", "run_id": ID_TEXT, "call_id": "1", "kind": "call", "name": "send", "args": {"to": "x"},
        "digest": "dd", "reason": "policy", "created": AT_TEXT, "expires_at": AT_TEXT, "status": "pending",
    });
    let before = Timestamp(AT.0 - 1);
    assert_eq!(approval(&asked, before), expected);
    expected["status"] = json!("expired");
    assert_eq!(approval(&asked, AT), expected, "its run may not have been told yet");
    (asked.status, asked.by, asked.at) = (ApprovalStatus::Denied, Some("cli".to_owned()), Some(AT));
    (expected["status"], expected["by"], expected["at"]) = (json!("denied"), json!("cli"), json!(AT_TEXT));
    assert_eq!(approval(&asked, AT), expected);
}

#[test]
fn a_tool_says_what_a_second_run_would_do() {
    let spec = |class| ToolSpec {
        name: "t".to_owned(),
        description: "does".to_owned(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class,
        timeout_ms: 1500,
        ..ToolSpec::default()
    };
    let expected = |free: bool, idempotent: bool| {
        json!({
            "name": "t", "description": "does", "input_schema": {"type": "object"}, "side_effect_free": free,
            "idempotent": idempotent, "requires_context": false, "timeout_s": 1.5, "built_in": false,
            "untrusted_output": false, "private_output": false, "egress": "no", "to_service": false, "approve": false,
        })
    };
    assert_eq!(tool(&spec(EffectClass::SideEffectFree)), expected(true, true));
    assert_eq!(tool(&spec(EffectClass::Idempotent)), expected(false, true));
    assert_eq!(tool(&spec(EffectClass::Unsafe)), expected(false, false));
    let promising = ToolSpec { output_schema: Some(json!(true)), ..spec(EffectClass::Unsafe) };
    assert_eq!(tool(&promising)["output_schema"], json!(true));
}

#[test]
fn an_execution_worked_or_did_not() {
    let ran = |status| ToolCallResult {
        outcome: ToolOutcome::new(status, json!("r")),
        blob: None,
        before_start: false,
        timed_out: false,
    };
    let expected = |status: &str| json!({"status": status, "output": "r", "execution_time_ms": 12});
    assert_eq!(executed(&ran(Closing::Ok), 12), expected("success"));
    assert_eq!(executed(&ran(Closing::Error), 12), expected("error"));
}

#[test]
fn a_full_page_with_more_behind_it_says_where_to_go_on() {
    let cut = |n: u32, limit| {
        let mut found: Vec<u32> = (0..n).collect();
        let next = page(&mut found, limit, u32::to_string);
        (found.len(), next)
    };
    assert_eq!(cut(0, 2), (0, None));
    assert_eq!(cut(2, 2), (2, None));
    assert_eq!(cut(3, 2), (2, Some("1".to_owned())));
    assert_eq!(list(vec![json!(1)], None), json!({"items": [1]}));
    assert_eq!(list(vec![], Some("x".to_owned())), json!({"items": [], "next": "x"}));
}
