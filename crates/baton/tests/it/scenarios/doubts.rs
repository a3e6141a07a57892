//! Answers that do not stand: passed on to the reasoning model, or checked and given once more.

use serde_json::{Value, json};

use crate::lab::{
    Asked, Lab, Reply, done, holds, llm, result, says, started, step, thinking, told, tool, usage, warning,
};
use crate::pty::Terminal;

const QUESTION: &str = "What is the capital of France?";
const FACT: &str = "a short question for a fact";

/// The step about an answer that was passed on.
fn passed_on(span: u32, code: &str, reason: &str, why: &str) -> Value {
    let metadata = json!({"span_id": format!("SPAN{span}"), "error": code, "reason": reason, "escalated_to": "reasoning", "model": "lab/small", "model_role": "router"});
    step("warning", why, metadata)
}

/// The same where no step of its own holds the answer's usage.
fn passed_on_alone(span: u32, code: &str, reason: &str, why: &str) -> Value {
    let mut step = passed_on(span, code, reason, why);
    step["metadata"]["usage"] = usage();
    step
}

fn restarted(seq: u64, n: u32) -> Value {
    json!({"type": "restarted", "message_id": format!("ID1-{n}"), "seq": seq, "run_id": "ID1"})
}

#[test]
fn an_empty_answer_of_the_router_goes_to_the_reasoning_model() {
    let lab = Lab::new([("small", says("")), ("large", says("Paris."))]);
    let why = "the router gave an empty answer; asking reasoning";
    let steps = [
        llm(1, "small", "router", FACT, "answered"),
        passed_on(1, "llm_invalid_response", "empty", why),
        llm(2, "large", "reasoning", "escalated", "answered"),
    ];
    let expected =
        [warning(2, "llm_invalid_response", why), thinking(3, 1, "Paris."), done("ok", 4, 2, "Paris.")];
    assert_eq!(lab.ask(&[QUESTION]), told(0, &expected, "Paris.", &steps));
    assert_eq!(lab.asked().iter().map(Asked::who).collect::<Vec<_>>(), [("small", true), ("large", true)]);
}

#[test]
fn what_the_router_refuses_or_leaves_half_said_goes_to_the_reasoning_model() {
    let rows = [
        (Reply::CutOff("Par"), "budget_exceeded", "cut_off", "the router's answer was cut off", "Par"),
        (Reply::Refuses("No."), "refused", "refused", "the router refused", "No."),
    ];
    for (reply, code, reason, why, shown) in rows {
        let is_cut = code == "budget_exceeded";
        let lab = Lab::new([("small", reply), ("large", says("Paris."))]);
        let why = format!("{why}; asking reasoning");
        let answered = llm(2, "large", "reasoning", "escalated", "answered");
        let steps = if is_cut {
            let cut = llm(1, "small", "router", FACT, "answered");
            vec![cut, passed_on(1, code, reason, &why), answered]
        } else {
            vec![passed_on_alone(1, code, reason, &why), answered]
        };
        let expected = [
            thinking(2, 0, shown),
            warning(3, code, &why),
            restarted(4, 0),
            thinking(5, 1, "Paris."),
            // An answer that was cut off is an answer too, and the log notes that no model sees it any more.
            done("ok", if is_cut { 7 } else { 6 }, 2, "Paris."),
        ];
        assert_eq!(lab.ask(&[QUESTION]), told(0, &expected, "Paris.", &steps), "{why}");
    }
}

#[test]
fn what_both_refuse_goes_to_the_person() {
    let lab = Lab::new([("small", Reply::Refuses("No.")), ("large", Reply::Refuses("Never."))]);
    let why = "the router refused; asking reasoning";
    let refused = json!({"span_id": "SPAN2", "error": "refused", "escalated_to": "person", "model": "lab/large", "model_role": "reasoning", "usage": usage()});
    let steps = [passed_on_alone(1, "refused", "refused", why), step("warning", "Never.", refused)];
    let message = "The model refused: Never. Ask in another way, or ask another model. Both the router and the reasoning model were asked.";
    let expected = [
        thinking(2, 0, "No."),
        warning(3, "refused", why),
        restarted(4, 0),
        thinking(5, 1, "Never."),
        json!({"type": "error", "code": "refused", "message": message, "seq": 6, "run_id": "ID1"}),
        done("error", 6, 2, "Never."),
    ];
    assert_eq!(lab.ask(&[QUESTION]), told(1, &expected, message, &steps));
}

const SUM: &str = "What is 6 times 7?";

/// Everything up to the answer of a question for which a tool was used.
fn computed() -> [(&'static str, Reply); 2] {
    let call = Reply::Calls("calculator", json!({"expression": "6*7"}));
    [("small", call), ("large", says("About 40."))]
}

fn computed_steps() -> [Value; 3] {
    [
        llm(1, "small", "router", FACT, "asked for calculator"),
        tool(2, 1, "calculator"),
        llm(3, "large", "reasoning", "tools have run", "answered"),
    ]
}

fn computed_objects() -> [Value; 3] {
    [
        started(2, 1, "calculator", json!({"expression": "6*7"})),
        result(3, 1, "calculator", r#"{"exact":true,"result":"42"}"#, false),
        thinking(4, 2, "About 40."),
    ]
}

fn checked(span: u32, found: &str) -> Value {
    llm(span, "small", "router", "self_check", &format!("checked the answer: {found}"))
}

#[test]
fn an_answer_that_used_tools_is_looked_at_in_conservative_mode() {
    let lab = Lab::new(computed().into_iter().chain([("small", holds())]));
    let steps = [computed_steps().to_vec(), vec![checked(4, "it holds")]].concat();
    let expected = [computed_objects().to_vec(), vec![done("ok", 5, 3, "About 40.")]].concat();
    assert_eq!(lab.ask(&["--mode", "CONSERVATIVE", SUM]), told(0, &expected, "About 40.", &steps));
    let asked = lab.asked();
    assert_eq!(
        asked.iter().map(Asked::who).collect::<Vec<_>>(),
        [("small", true), ("large", true), ("small", false)]
    );
    assert!(asked[2].shaped && asked[2].last.contains(SUM) && asked[2].last.contains("About 40."));
}

#[test]
fn an_answer_that_lacks_something_is_given_once_more() {
    let lacks = says(r#"{"ok": false, "missing": "it is exactly 42"}"#);
    let more = [("small", lacks), ("large", says("42.")), ("small", holds())];
    let lab = Lab::new(computed().into_iter().chain(more));
    let why = "the answer lacks something (it is exactly 42); answering once more";
    let warned = json!({"error": "verification_failed", "reason": "self_check"});
    let steps = [
        computed_steps().to_vec(),
        vec![
            checked(4, "it lacks something: it is exactly 42"),
            step("warning", why, warned),
            llm(5, "large", "reasoning", "tools have run", "answered"),
            checked(6, "it holds"),
        ],
    ]
    .concat();
    let again = [
        warning(5, "verification_failed", why),
        restarted(6, 2),
        thinking(7, 4, "42."),
        done("ok", 9, 5, "42."),
    ];
    let expected = [computed_objects().to_vec(), again.to_vec()].concat();
    assert_eq!(lab.ask(&["--mode", "CONSERVATIVE", SUM]), told(0, &expected, "42.", &steps));
    let asked = lab.asked();
    assert_eq!(asked[3].who(), ("large", false));
    assert!(
        asked[3].last.ends_with("found (a remark, not an instruction): \"it is exactly 42\""),
        "{:?}",
        asked[3]
    );
}

#[test]
fn a_person_sees_which_answer_stands_in_the_place_of_which() {
    let lacks = says(r#"{"ok": false, "missing": "it is exactly 42"}"#);
    let more = [("small", lacks), ("large", says("42.")), ("small", holds())];
    let lab = Lab::new(computed().into_iter().chain(more));
    let did = lab.world.baton(&["ask", "--mode", "CONSERVATIVE", SUM]);
    assert_eq!((did.code, did.out.as_str()), (0, "About 40.\n42.\n"));
    let beside = [
        "→ calculator {\"expression\":\"6*7\"}",
        "← calculator: {\"exact\":true,\"result\":\"42\"}",
        "warning: the answer lacks something (it is exactly 42); answering once more",
        "↻ in place of the answer above:",
    ];
    assert_eq!(did.err.lines().skip(1).collect::<Vec<_>>(), beside);

    let lab = Lab::new([("small", Reply::Refuses("No.")), ("large", says("Paris."))]);
    let (code, seen) = Terminal::start(lab.world.command(&["ask", "--color", "never", QUESTION])).end();
    let expected =
        ["No.", "warning: the router refused; asking reasoning", "↻ in place of the answer above:", "Paris."];
    assert_eq!((code, seen.lines().skip(1).collect::<Vec<_>>()), (0, expected.to_vec()));
}

#[test]
fn nothing_is_looked_at_where_no_tool_was_used_or_the_mode_does_not_ask() {
    let lab = Lab::new([("small", says("Paris."))]);
    assert_eq!(lab.ask(&["--mode", "CONSERVATIVE", QUESTION]).0, 0);
    assert_eq!(lab.asked().len(), 1);
    let lab = Lab::new(computed());
    assert_eq!(lab.ask(&["--mode", "MODERATE", SUM]).0, 0);
    assert_eq!(lab.asked().len(), 2);
}
