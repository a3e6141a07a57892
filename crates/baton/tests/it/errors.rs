//! Failures on the way, row by row, over a real socket: the whole result compared.
//!
//! | what fails | what is done | shown by |
//! |---|---|---|
//! | a model does not answer in time | a warning and a kind message; the next model of the role, if there is one | `classes`: `a_model_that_does_not_begin`, `a_model_that_is_slow_has_one_that_stands_in` |
//! | a model's answer is not understood | a warning, and one more try, made simpler | `classes`: `an_answer_that_is_no_json` |
//! | the connection breaks | tried twice more, then another model | here, and `classes`: `a_connection_that_nobody_takes` |
//! | the model's server fails | the same | here, and `classes`: `a_server_that_fails`, `a_server_that_recovers` |
//! | a tool fails | a step with the error; once more where that is safe; then the person, or an answer that says what is missing | here |
//! | the session is busy, or waits | it says so, and what helps | here |

use serde_json::{Value, json};

use crate::lab::{
    Asked, Lab, Reply, by_rule, done, llm, result, says, started, step, thinking, told, tool, warning,
};
use crate::server::{Answer, Barrier};

const COMPLEX: &str = "Compare tea and coffee.";
const FACT: &str = "What is the capital of France?";

fn boom() -> Reply {
    Reply::Does(Answer::json(500, r#"{"error":{"message":"boom"}}"#))
}

const BOOM: &str = "the model's server failed (status 500); it said: boom";

/// A failed model call as a step, with the reaction to it.
fn failed(span: u32, model: &str, role: &str, code: &str, reason: Option<&str>, said: &str) -> Value {
    let mut metadata = json!({"span_id": format!("SPAN{span}"), "error": code, "model": format!("lab/{model}"), "model_role": role});
    if let Some(reason) = reason {
        metadata["reason"] = json!(reason);
    }
    step("warning", said, metadata)
}

fn who(lab: &Lab) -> Vec<String> {
    lab.asked().iter().map(|asked| asked.who().0.to_owned()).collect()
}

/// The events and the account of three failures of the reasoning model, after which the router answers.
fn replaced(code: &str, why: &str) -> ([Value; 5], [Value; 4]) {
    let (again, instead) = (format!("{why}; trying again"), format!("{why}; asking lab/small as router"));
    let events = [
        warning(2, code, &again),
        warning(3, code, &again),
        warning(4, code, &instead),
        thinking(5, 5, "Tea."),
        done("ok", 6, 1, "Tea."),
    ];
    let steps = [
        failed(1, "large", "reasoning", code, Some("retry"), &again),
        failed(2, "large", "reasoning", code, Some("retry"), &again),
        failed(3, "large", "reasoning", code, Some("downgrade"), &instead),
        llm(4, "small", "router", "downgrade", "answered"),
    ];
    (events, steps)
}

#[test]
fn a_server_that_keeps_failing_is_replaced_by_the_router() {
    let lab = Lab::new([("large", boom()), ("large", boom()), ("large", boom()), ("small", says("Tea."))]);
    let (events, steps) = replaced("llm_server", BOOM);
    assert_eq!(lab.ask(&[COMPLEX]), told(0, &events, "Tea.", &steps));
    assert_eq!(who(&lab), ["large", "large", "large", "small"]);
}

#[test]
fn a_connection_that_breaks_is_tried_again_and_then_somebody_else_is_asked() {
    let reset = || Reply::Does(Answer::nothing().reset());
    let lab = Lab::new([("large", reset()), ("large", reset()), ("large", reset()), ("small", says("Tea."))]);
    let (code, objects) = lab.ask(&[COMPLEX]);
    let last = objects.last().unwrap().clone();
    let detail =
        last["steps"][0]["description"].as_str().unwrap().trim_end_matches("; trying again").to_owned();
    assert!(detail.contains("Connection reset by peer"), "{detail}");
    let (events, steps) = replaced("llm_connection", &detail);
    assert_eq!((code, objects), told(0, &events, "Tea.", &steps));
}

#[test]
fn a_router_that_keeps_failing_is_replaced_by_the_reasoning_model() {
    let lab = Lab::new([("small", boom()), ("small", boom()), ("small", boom()), ("large", says("Paris."))]);
    let again = format!("{BOOM}; trying again");
    let passed_on = "the router could not answer; asking reasoning";
    let code = "llm_server";
    let mut escalated = failed(3, "small", "router", code, Some("failed"), passed_on);
    escalated["metadata"]["escalated_to"] = json!("reasoning");
    let steps = [
        failed(1, "small", "router", code, Some("retry"), &again),
        failed(2, "small", "router", code, Some("retry"), &again),
        escalated,
        llm(4, "large", "reasoning", "escalated", "answered"),
    ];
    let expected = [
        warning(2, code, &again),
        warning(3, code, &again),
        warning(4, code, passed_on),
        thinking(5, 5, "Paris."),
        done("ok", 6, 1, "Paris."),
    ];
    assert_eq!(lab.ask(&[FACT]), told(0, &expected, "Paris.", &steps));
    assert_eq!(who(&lab), ["small", "small", "small", "large"]);
}

#[test]
fn nobody_who_could_answer_is_a_kind_reply() {
    let lab = Lab::new(["large", "large", "large", "small", "small", "small"].map(|model| (model, boom())));
    let (again, instead) = (format!("{BOOM}; trying again"), format!("{BOOM}; asking lab/small as router"));
    let code = "llm_server";
    let steps = [
        failed(1, "large", "reasoning", code, Some("retry"), &again),
        failed(2, "large", "reasoning", code, Some("retry"), &again),
        failed(3, "large", "reasoning", code, Some("downgrade"), &instead),
        failed(4, "small", "router", code, Some("retry"), &again),
        failed(5, "small", "router", code, Some("retry"), &again),
        failed(6, "small", "router", code, None, BOOM),
    ];
    let message = "The model's server failed (status 500); it said: boom. Ask again in a moment, or choose another model.";
    let expected = [
        warning(2, code, &again),
        warning(3, code, &again),
        warning(4, code, &instead),
        warning(5, code, &again),
        warning(6, code, &again),
        json!({"type": "error", "code": code, "message": message, "seq": 7, "run_id": "ID1"}),
        done("error", 7, 0, ""),
    ];
    assert_eq!(lab.ask(&[COMPLEX]), told(1, &expected, message, &steps));
}

const LOOK: &str = "Look up the height of K2.";
const BY_RULE: &str = "the request asks to look something up";

/// A call that did not work, as a step.
fn broken(span: u32, n: u32, name: &str, error: &str, reason: Option<&str>) -> Value {
    let mut step = tool(span, n, name);
    step["description"] = json!(format!("{name} did not work"));
    step["metadata"]["error"] = json!(error);
    if let Some(reason) = reason {
        step["metadata"]["reason"] = json!(reason);
    }
    step
}

const DOWN: &str = "The search service failed (status 500): try again later.";

#[test]
fn a_tool_that_fails_once_is_tried_once_more() {
    let found = json!({"results": [{"title": "K2", "url": "https://example.com/k2", "content": "8,611 m"}]});
    let lab = Lab::searching(
        [Answer::json(500, "{}"), Answer::json(200, &found.to_string())],
        [("large", says("8,611 metres."))],
    );
    let heard = r#"{"results":[{"snippet":"8,611 m","title":"K2","url":"https://example.com/k2"}]}"#;
    let name = "web_search";
    let steps = [
        broken(1, 0, name, DOWN, Some("retry")),
        by_rule(tool(2, 0, name), BY_RULE),
        llm(3, "large", "reasoning", "an open request", "answered"),
    ];
    let expected = [
        started(2, 0, name, json!({"query": "the height of K2"})),
        result(3, 0, name, heard, false),
        thinking(4, 1, "8,611 metres."),
        done("ok", 5, 1, "8,611 metres."),
    ];
    assert_eq!(lab.ask(&[LOOK]), told(0, &expected, "8,611 metres.", &steps));
    assert_eq!(lab.searched().len(), 2);
}

#[test]
fn a_tool_that_keeps_failing_is_gone_on_without_and_the_limits_are_named() {
    let lab = Lab::searching(
        [Answer::json(500, "{}"), Answer::json(500, "{}")],
        [("large", says("I could not look it up; I remember 8,611 m."))],
    );
    let name = "web_search";
    let steps = [
        broken(1, 0, name, DOWN, Some("retry")),
        broken(2, 0, name, DOWN, Some(BY_RULE)),
        llm(3, "large", "reasoning", "an open request", "answered"),
    ];
    let said = "I could not look it up; I remember 8,611 m.";
    let expected = [
        started(2, 0, name, json!({"query": "the height of K2"})),
        result(3, 0, name, DOWN, true),
        thinking(4, 1, said),
        done("ok", 5, 1, said),
    ];
    assert_eq!(lab.ask(&[LOOK]), told(0, &expected, said, &steps));
    assert_eq!(lab.searched().len(), 2);
    let heard = "It does not work now: go on without it, and say what is missing.";
    assert!(lab.asked()[0].last.ends_with(heard), "{:?}", lab.asked()[0].last);
}

#[test]
fn what_is_not_safe_to_repeat_is_not_tried_again() {
    let arguments = json!({"file": "written", "line": "once", "class": "unsafe", "fail": true});
    let lab = Lab::new([
        ("small", Reply::Calls("test_effect", arguments.clone())),
        ("large", says("It did not work.")),
    ]);
    let name = "test_effect";
    let steps = [
        llm(1, "small", "router", "a short question for a fact", "asked for test_effect"),
        broken(2, 1, name, "failed as told", None),
        llm(3, "large", "reasoning", "tools have run", "answered"),
    ];
    let expected = [
        started(2, 1, name, arguments),
        result(3, 1, name, "failed as told", true),
        thinking(4, 2, "It did not work."),
        done("ok", 5, 2, "It did not work."),
    ];
    assert_eq!(lab.ask(&["Is it written?"]), told(0, &expected, "It did not work.", &steps));
    assert_eq!(std::fs::read_to_string(lab.world.path("work/written")).unwrap().lines().count(), 1);
}

#[test]
fn a_cause_in_what_was_asked_is_put_to_the_person() {
    let expression = json!({"expression": "6 / 0"});
    let question = json!({"question": "Nothing can be divided by zero. By what else?"});
    let lab = Lab::new([
        ("small", Reply::Calls("calculator", expression.clone())),
        ("large", Reply::Calls("ask_user", question.clone())),
        ("large", says("It is 2.")),
    ]);
    let (code, objects) = lab.ask(&["--thread", "t", "What is 6 / 0?"]);
    let error = objects[1]["result"].as_str().unwrap().to_owned();
    let name = "calculator";
    let waiting = json!({"kind": "user_input", "run_id": "ID1", "deadline": "TIME"});
    let steps = [
        llm(1, "small", "router", "a short question for a fact", "asked for calculator"),
        broken(2, 1, name, &error, None),
        llm(3, "large", "reasoning", "tools have run", "asked for ask_user"),
        step("warning", "the run waits for an answer", json!({"waiting": waiting})),
    ];
    let expected = [
        started(2, 1, name, expression),
        result(3, 1, name, &error, true),
        started(4, 3, "ask_user", question.clone()),
        done("suspended", 4, 2, question["question"].as_str().unwrap()),
    ];
    assert_eq!((code, objects), told(3, &expected, question["question"].as_str().unwrap(), &steps));
    let heard = "The cause lies in what was asked: call it with other arguments, or ask the person to change the request.";
    assert!(lab.asked()[1].last.ends_with(heard), "{:?}", lab.asked()[1].last);
    let (code, objects) = lab.ask(&["--thread", "t", "By 3."]);
    assert_eq!((code, &objects.last().unwrap()["reply"]), (0, &json!("It is 2.")));
    assert_eq!(lab.asked().iter().map(Asked::who).map(|who| who.1).collect::<Vec<_>>(), [true, true, true]);
}

/// The newest run, by its id and by the end of it.
fn newest(lab: &Lab) -> (String, String) {
    let runs = lab.world.baton(&["runs", "ls", "--json"]).json();
    let id = runs["items"][0]["id"].as_str().unwrap().to_owned();
    let short = id[id.len() - 8..].to_owned();
    (id, short)
}

/// Checks the error, as text and as JSON, of a command whose branch has an active run.
fn is_busy(did: &crate::stage::Did, run: &str, helps: &str) {
    let why = format!("branch \"main\" is busy with run {run}");
    let problem = json!({
        "type": "urn:baton:problem:branch_busy", "title": "A run is active on the branch", "status": 409,
        "detail": why, "code": "branch_busy", "run_id": run, "hint": helps,
    });
    assert_eq!((did.code, did.json()), (1, problem));
    assert_eq!(did.err, format!("error: {why}\n  {helps}\n"));
}

#[test]
fn a_busy_session_says_so_and_nothing_is_lost() {
    let gate = Barrier::new();
    let slow = Answer::nothing().wait(&gate).hang_up();
    let lab = Lab::new([("small", Reply::Does(slow)), ("small", says("Paris."))]);
    let first = lab.world.start(&["ask", "--json", "--steps", "--thread", "t", FACT]);
    lab.until_asked(1);
    let second = lab.world.baton(&["ask", "--json", "--steps", "--thread", "t", FACT]);
    let (id, short) = newest(&lab);
    let helps = format!(
        "another Baton works on it: baton runs tail {short} shows it, baton runs cancel {short} ends it"
    );
    is_busy(&second, &id, &helps);
    gate.open();
    let did = first.end();
    assert_eq!(did.code, 0, "{did:?}");
    assert_eq!(did.objects().last().unwrap()["reply"], json!("Paris."));
    assert_eq!(lab.asked().len(), 2, "the second message reached nobody");
}

#[test]
fn a_message_while_an_approval_is_pending_decides_nothing() {
    let call = Reply::Calls("calculator", json!({"expression": "6*7"}));
    let lab = Lab::set("[policy]\napprove = [\"calculator\"]\n", [("small", call)]);
    assert_eq!(lab.ask(&["--thread", "t", "What is 6*7?"]).0, 3);
    let did = lab.world.baton(&["ask", "--json", "--steps", "--thread", "t", "Yes, go on"]);
    let (id, short) = newest(&lab);
    let helps =
        format!("it waits for a decision: baton approvals ls shows it, baton runs cancel {short} ends it");
    is_busy(&did, &id, &helps);
    let pending = lab.world.baton(&["approvals", "ls", "--json"]).json();
    assert_eq!(pending["items"][0]["status"], json!("pending"));
    assert_eq!(lab.asked().len(), 1);
}
