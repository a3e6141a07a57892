//! Runs that stop for the user: a question, a decision, and a call that is not allowed.

use serde_json::{Value, json};

use crate::lab::{
    Asked, Lab, Reply, answered, done, llm, objects, result, says, started, step, thinking, told, tool,
    warning,
};
use crate::mask::Mask;

/// The step about a run that waits.
fn waits(kind: &str, description: &str, more: Value) -> Value {
    let mut waiting = json!({"kind": kind, "run_id": "ID1", "deadline": "TIME"});
    waiting.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step("warning", description, json!({"waiting": waiting}))
}

#[test]
fn a_question_back_waits_and_its_answer_goes_on() {
    let question = json!({"question": "Which file?"});
    let lab =
        Lab::new([("small", Reply::Calls("ask_user", question.clone())), ("small", says("It is empty."))]);
    let asked = llm(1, "small", "router", "a few words", "asked for ask_user");
    let wait = waits("user_input", "the run waits for an answer", json!({}));
    let expected = [started(2, 1, "ask_user", question), done("suspended", 2, 1, "Which file?")];
    assert_eq!(
        lab.ask(&["--thread", "t", "Read my notes"]),
        told(3, &expected, "Which file?", &[asked, wait])
    );

    let steps = [answered(1), llm(1, "small", "router", "a few words", "answered")];
    let expected = [
        result(3, 1, "ask_user", "notes.md", false),
        json!({"type": "input", "input_id": "ID2", "seq": 4, "run_id": "ID1"}),
        thinking(5, 3, "It is empty."),
        done("ok", 6, 2, "It is empty."),
    ];
    assert_eq!(lab.ask(&["--thread", "t", "notes.md"]), told(0, &expected, "It is empty.", &steps));
    let saw = |at: usize| lab.asked()[at].saw.clone();
    assert_eq!(saw(1), ["system", "user", "assistant", "tool"]);
    assert_eq!(lab.asked()[1].last, "notes.md");
}

#[test]
fn a_tool_that_is_not_allowed_does_not_run_and_the_reply_says_what_would_allow_it() {
    let arguments = json!({"file": "nowhere", "line": "x", "class": "unsafe"});
    let lab = Lab::new([
        ("small", Reply::Calls("test_effect", arguments.clone())),
        ("large", says("I could not write it down.")),
        ("small", crate::lab::holds()),
    ]);
    let heard = "test_effect is not allowed here (rule \"CHAT/CONSERVATIVE\")";
    let helps = format!("{heard}; mode MODERATE would allow it");
    let (code, found) = lab.ask(&["--mode", "CONSERVATIVE", "Is it written down?"]);
    let refused = step(
        "tool_call",
        "test_effect did not work",
        json!({"tool_name": "test_effect", "call_id": "ID1-1", "error": heard}),
    );
    let warned = step(
        "warning",
        &helps,
        json!({"tool_name": "test_effect", "call_id": "ID1-1", "reason": "CHAT/CONSERVATIVE", "escalated_to": "person"}),
    );
    let steps = [
        llm(1, "small", "router", "a short question for a fact", "asked for test_effect"),
        refused,
        warned,
        llm(2, "large", "reasoning", "no tool has run", "answered"),
    ];
    let reply = "I could not write it down.\n\ntest_effect is not allowed here (rule \"CHAT/CONSERVATIVE\"); mode MODERATE would allow it.";
    let expected = [
        started(2, 1, "test_effect", arguments),
        result(3, 1, "test_effect", heard, true),
        warning(4, "refused", &helps),
        thinking(5, 2, "I could not write it down."),
        done("ok", 6, 2, "I could not write it down."),
    ];
    assert_eq!((code, found), told(0, &expected, reply, &steps));
    assert!(lab.asked()[0].tools.iter().all(|tool| tool != "test_effect"), "it was not offered, either");
    assert!(!lab.world.path("work/nowhere").exists());
}

#[test]
fn a_call_that_needs_approval_waits_for_it_and_runs_once() {
    let file = "written";
    let arguments = json!({"file": file, "line": "as asked", "class": "unsafe"});
    let lab = Lab::set(
        "[policy]\napprove = [\"test_effect\"]\n",
        [("small", Reply::Calls("test_effect", arguments.clone())), ("large", says("Written."))],
    );
    let did = lab.world.baton(&["ask", "--json", "--steps", "Is it written down?"]);
    let found = objects(&did);
    let reason = "rule \"CHAT/MODERATE\" asks before test_effect runs";
    let approval = "ap-ID1-1";
    let question = format!(
        "May test_effect run with {arguments}? Rule \"CHAT/MODERATE\" asks before test_effect runs. No message decides this; `baton approvals approve {approval}` or `baton approvals deny {approval}` does."
    );
    let asked = llm(1, "small", "router", "a short question for a fact", "asked for test_effect");
    let wait =
        waits("approval", "the run waits for a decision about test_effect", json!({"approval_id": approval}));
    let expected = [
        json!({"type": "approval_required", "approval_id": approval, "call_id": "ID1-1", "name": "test_effect", "args": arguments,
               "digest": "HASH", "reason": reason, "expires_at": "TIME", "seq": 2, "run_id": "ID1"}),
        done("suspended", 2, 1, ""),
    ];
    assert_eq!((did.code, found), told(3, &expected, &question, &[asked.clone(), wait]));
    assert!(!lab.world.path("work/written").exists());

    let pending = lab.world.baton(&["approvals", "ls", "--json"]).json();
    let id = pending["items"][0]["id"].as_str().unwrap();
    let decided = lab.world.baton(&["approvals", "approve", id]);
    assert_eq!((decided.code, decided.out.as_str()), (0, "Written.\n"), "{decided:?}");
    let written = std::fs::read_to_string(lab.world.path("work/written")).unwrap();
    assert_eq!(written.lines().count(), 1);
    let run =
        lab.world.baton(&["runs", "ls", "--json"]).json()["items"][0]["id"].as_str().unwrap().to_owned();
    let steps =
        Mask::default().value(lab.world.baton(&["runs", "show", &run, "--json"]).json())["steps"].clone();
    let answered = llm(3, "large", "reasoning", "tools have run", "answered");
    assert_eq!(steps, json!([asked, tool(2, 1, "test_effect"), answered]));
    assert_eq!(lab.asked().iter().map(Asked::who).collect::<Vec<_>>(), [("small", true), ("large", true)]);
}
