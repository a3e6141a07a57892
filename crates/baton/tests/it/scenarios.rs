//! The personal agent's three scenarios (a question, code, a machine's health), from the command line over a real
//! socket: the whole output, all steps, and the requests to each model.
//!
//! Failures on the way are tested in [`crate::errors`].

mod doubts;
mod people;

use serde_json::{Value, json};

use crate::lab::{Asked, Lab, Reply, by_rule, done, llm, result, says, started, step, thinking, told, tool};
use crate::server::Answer;

/// All tools of a conversation here.
const CHAT: [&str; 14] = [
    "ask_user",
    "calculator",
    "clock",
    "fetch_url",
    "list_files",
    "read_blob",
    "read_file",
    "search_blob",
    "search_files",
    "system_health",
    "system_logs",
    "test_effect",
    "test_note",
    "update_plan",
];

/// A request to a model.
fn asked(model: &str, tools: &[&str], saw: &[&str], last: &str) -> Asked {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (model, last) = (model.to_owned(), last.to_owned());
    Asked { model, tools: owned(tools), must_call: false, shaped: false, saw: owned(saw), last }
}

#[test]
fn a_short_question_is_one_call_of_the_router() {
    let lab = Lab::new([("small", says("Paris."))]);
    let question = "What is the capital of France?";
    let steps = [llm(1, "small", "router", "a short question for a fact", "answered")];
    let expected = [thinking(2, 0, "Paris."), done("ok", 3, 1, "Paris.")];
    assert_eq!(lab.ask(&[question]), told(0, &expected, "Paris.", &steps));
    assert_eq!(lab.asked(), [asked("small", &CHAT, &["system", "user"], question)]);
}

#[test]
fn a_complex_question_is_one_call_of_the_reasoning_model() {
    let lab = Lab::new([("large", says("It depends."))]);
    let question = "Compare Rust and Go for a small service.";
    let steps = [llm(1, "large", "reasoning", "it asks for thought", "answered")];
    let expected = [thinking(2, 0, "It depends."), done("ok", 3, 1, "It depends.")];
    assert_eq!(lab.ask(&["--channel", "CHAT", question]), told(0, &expected, "It depends.", &steps));
    assert_eq!(lab.asked(), [asked("large", &CHAT, &["system", "user"], question)]);
}

#[test]
fn what_was_said_before_comes_first() {
    let lab = Lab::new([("small", says("Paris.")), ("small", says("Rome."))]);
    assert_eq!(lab.ask(&["--thread", "t", "What is the capital of France?"]).0, 0);
    assert_eq!(lab.ask(&["--thread", "t", "And of Italy?"]).0, 0);
    let saw = ["system", "user", "assistant", "user"];
    assert_eq!(lab.asked()[1], asked("small", &CHAT, &saw, "And of Italy?"));
}

#[test]
fn a_request_to_look_something_up_searches_first() {
    let found = json!({"results": [{"title": "K2", "url": "https://example.com/k2", "content": "8,611 m"}]});
    let lab = Lab::searching([Answer::json(200, &found.to_string())], [("large", says("8,611 metres."))]);
    let heard = r#"{"results":[{"snippet":"8,611 m","title":"K2","url":"https://example.com/k2"}]}"#;
    let (name, args) = ("web_search", json!({"query": "the height of K2"}));
    let steps = [
        by_rule(tool(1, 0, name), "the request asks to look something up"),
        llm(2, "large", "reasoning", "an open request", "answered"),
    ];
    let expected = [
        started(2, 0, name, args),
        result(3, 0, name, heard, false),
        thinking(4, 1, "8,611 metres."),
        done("ok", 5, 1, "8,611 metres."),
    ];
    assert_eq!(lab.ask(&["Look up the height of K2."]), told(0, &expected, "8,611 metres.", &steps));
    let mut tools = CHAT.to_vec();
    tools.push(name);
    assert_eq!(lab.asked(), [asked("large", &tools, &["system", "user", "assistant", "tool"], heard)]);
    assert_eq!(lab.searched(), ["/search?q=the+height+of+K2&format=json"]);
}

#[test]
fn code_is_one_call_of_the_coding_model_without_tools() {
    let lab = Lab::new([("coder", says("fn one() -> u8 { 1 }"))]);
    let task = "Write a function that returns one.";
    let steps = [llm(1, "coder", "coding", "the channel's role", "answered")];
    let expected = [thinking(2, 0, "fn one() -> u8 { 1 }"), done("ok", 3, 1, "fn one() -> u8 { 1 }")];
    assert_eq!(
        lab.ask(&["--channel", "CODE_TASK", task]),
        told(0, &expected, "fn one() -> u8 { 1 }", &steps)
    );
    assert_eq!(lab.asked(), [asked("coder", &[], &["system", "user"], task)]);
}

const HEALTH: [&str; 3] = ["ask_user", "system_health", "system_logs"];
const HOW: &str = "How is this machine doing?";

/// Checks the requests to the two models of a health check; the figures of this machine are not compared.
fn health_asked(lab: &Lab, saw: &[&str]) {
    let mut found = lab.asked();
    let figures = std::mem::take(&mut found[1].last);
    assert!(figures.contains("\"memory\""), "{figures}");
    let first = Asked { must_call: true, ..asked("small", &HEALTH, &["system", "user"], HOW) };
    assert_eq!(found, [first, asked("large", &[], saw, "")]);
}

/// Asks for this machine's health, and checks that the result has these steps.
fn is_well(lab: &Lab, steps: &[Value]) {
    let expected = [
        started(2, 1, "system_health", json!({})),
        result(3, 1, "system_health", "FIGURES", false),
        thinking(4, 2, "All well."),
        done("ok", 5, 2, "All well."),
    ];
    assert_eq!(lab.ask(&["--channel", "SYSTEM_HEALTH", HOW]), told(0, &expected, "All well.", steps));
    health_asked(lab, &["system", "user", "assistant", "tool"]);
}

#[test]
fn health_is_a_choice_of_the_router_a_tool_and_the_reasoning_model() {
    let lab = Lab::new([("small", Reply::Calls("system_health", json!({}))), ("large", says("All well."))]);
    let steps = [
        llm(1, "small", "router", "the channel requires a tool", "asked for system_health"),
        tool(2, 1, "system_health"),
        llm(3, "large", "reasoning", "tools have run", "answered"),
    ];
    is_well(&lab, &steps);
}

#[test]
fn health_is_measured_although_the_router_chose_nothing() {
    let lab = Lab::new([("small", says("I am sure it is fine.")), ("large", says("All well."))]);
    let warned = json!({"reason": "required_tool", "tool_name": "system_health"});
    let steps = [
        llm(1, "small", "router", "the channel requires a tool", "answered"),
        step("warning", "the router chose no tool; system_health runs by the channel's rule", warned),
        by_rule(tool(2, 1, "system_health"), "the channel requires a tool"),
        llm(3, "large", "reasoning", "tools have run", "answered"),
    ];
    is_well(&lab, &steps);
}

#[test]
fn health_may_be_a_look_at_the_log() {
    let lab =
        Lab::new([("small", Reply::Calls("system_logs", json!({"limit": 5}))), ("large", says("Quiet."))]);
    let (code, mut objects) = lab.ask(&["--channel", "SYSTEM_HEALTH", "Are there errors in the log?"]);
    let lines = objects[1]["result"].take();
    assert!(lines.as_str().unwrap().contains("\"available\""), "{lines}");
    let steps = [
        llm(1, "small", "router", "the channel requires a tool", "asked for system_logs"),
        tool(2, 1, "system_logs"),
        llm(3, "large", "reasoning", "tools have run", "answered"),
    ];
    let mut looked = result(3, 1, "system_logs", "", false);
    looked["result"].take();
    let expected = [
        started(2, 1, "system_logs", json!({"limit": 5})),
        looked,
        thinking(4, 2, "Quiet."),
        done("ok", 5, 2, "Quiet."),
    ];
    assert_eq!((code, objects), told(0, &expected, "Quiet.", &steps));
}

#[test]
fn code_may_read_files_where_the_policy_says_so() {
    let channel =
        "[policy.channels.CODE_TASK]\ntool_rule = \"auto\"\ntools = [\"read_file\", \"search_files\"]\n";
    let call = Reply::Calls("read_file", json!({"path": "one.rs"}));
    let lab = Lab::set(channel, [("coder", call), ("coder", says("It returns one."))]);
    lab.world.write("work/one.rs", "fn one() -> u8 { 1 }\n");
    let (code, mut objects) = lab.ask(&["--channel", "CODE_TASK", "What does one.rs do?"]);
    let read = objects[1]["result"].take();
    assert!(read.as_str().unwrap().contains("fn one() -> u8 { 1 }"), "{read}");
    let steps = [
        llm(1, "coder", "coding", "the channel's role", "asked for read_file"),
        tool(2, 1, "read_file"),
        llm(3, "coder", "coding", "the channel's role", "answered"),
    ];
    let mut looked = result(3, 1, "read_file", "", false);
    looked["result"].take();
    let expected = [
        started(2, 1, "read_file", json!({"path": "one.rs"})),
        looked,
        thinking(4, 2, "It returns one."),
        done("ok", 5, 2, "It returns one."),
    ];
    assert_eq!((code, objects), told(0, &expected, "It returns one.", &steps));
    let tools = ["ask_user", "read_file", "search_files"];
    let offered: Vec<Vec<String>> = lab.asked().into_iter().map(|asked| asked.tools).collect();
    assert_eq!(offered, [tools, tools]);
}
