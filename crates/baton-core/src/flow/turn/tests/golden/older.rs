//! States of older versions, which the newest build never writes any more.

use serde_json::{Value, json};

use super::{decide, phases, stored};
use crate::effect::{Effect, EffectKind, Outcome, Purpose, Trim, View};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::flow::turn::tests::drive::{Drive, call_id, calls, failed, ok, setting, text, told};
use crate::flow::{Flow, Input};
use crate::run::{Choice, Receipt, ReceiptCall, Verdict};
use crate::thread::{Closing, Entry, Tail};
use crate::tool::ASK_USER;

/// Resumes a stored state, at the end of the branch that it was stored with.
fn go_on(v: u32, name: &str) -> Drive {
    let before = match name {
        "calling" | "answered" | "ending" | "ended" => beside_a_question(name),
        other => phases().remove(other).unwrap(),
    };
    let flow = Flow::restore(setting(before.definition()), stored(v).remove(name).unwrap()).unwrap();
    let (tail, head): (Tail, i64) = (before.tail.clone(), before.head);
    let mut drive = Drive::on(flow, before.definition(), tail, head);
    drive.entries = before.entries.clone();
    drive.events = before.events.clone();
    drive
}

/// The branch of a turn whose model asked a question beside other calls, when they still ran beside it.
fn beside_a_question(name: &str) -> Drive {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(1, failed("no"));
    let wanted = [(3, "look"), (4, "write"), (5, "write"), (6, ASK_USER)];
    append(&mut drive, "AssistantMessage", json!({"content": "on it"}));
    for (n, name) in wanted {
        append(&mut drive, "ToolCall", json!({"id": call_id(n), "function_name": name, "arguments": {}}));
    }
    for (n, kind) in [(4, "approval"), (5, "approval"), (6, "user_input")] {
        append(&mut drive, "Waiting", json!({"kind": kind, "deadline": 1.0, "correlation_id": call_id(n)}));
    }
    let closed: &[(u32, &str)] = match name {
        "answered" => &wanted[3..],
        "ending" => &wanted[1..],
        "ended" => &wanted,
        _ => &[],
    };
    for (n, name) in closed {
        append(
            &mut drive,
            "ToolResult",
            json!({"tool_call_id": call_id(*n), "tool_name": name, "result": ""}),
        );
        drive.events.push(Event::ToolResult {
            name: (*name).to_owned(),
            result: String::new(),
            call_id: call_id(*n),
            status: Closing::Ok,
            blob: None,
        });
    }
    if name == "ended" {
        append(&mut drive, "AssistantMessage", json!({"content": "", "meta": "cancelled"}));
    }
    drive
}

fn append(drive: &mut Drive, t: &str, data: Value) {
    let entry = Entry::from_stored(t, 1, data).unwrap();
    drive.tail.append(&entry).unwrap();
    drive.entries.push(entry);
    drive.head += 1;
}

#[test]
fn an_old_state_goes_on() {
    goes_on(|name| go_on(1, name));
    let fault = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
    assert_eq!(go_on(1, "erred").verdict(), Verdict::Error(fault));
}

#[test]
fn a_state_of_version_2_goes_on() {
    goes_on(|name| go_on(2, name));
    let fault = Fault::new(Code::Internal, "the model call ended without an outcome");
    assert_eq!(go_on(2, "erred").verdict(), Verdict::Error(fault));

    let mut summarising = go_on(2, "summarising");
    summarising.outcome(4, Outcome::Reply(text("in short")));
    assert_eq!(summarising.said(), json!([{"Summary": {"text": "in short", "up_to": 0}}]));
    let mut unseen = go_on(2, "unseen");
    unseen.outcome(4, Outcome::Reply(text("in short")));
    assert_eq!(unseen.said(), json!([{"AssistantMessage": {"content": "", "meta": "cancelled"}}]));
    let mut tried = go_on(2, "down_the_ladder");
    let kind = EffectKind::Model {
        role: "reasoning".to_owned(),
        rung: 1,
        head: 4,
        tools: true,
        message_id: call_id(7),
        attempt: 3,
        purpose: Purpose::Answer,
        view: View { first: Some(1), lowest: Some(0), trim: Trim::Compact { fits: Some(900) } },
        last_resort: false,
    };
    assert_eq!(tried.wants(), [Effect { n: 7, kind }]);
    tried.outcome(7, Outcome::TooLong { up_to: 2 });
    assert_eq!(
        tried.verdict(),
        told(Fault::new(Code::ContextTooLong, "the conversation does not fit, even with a summary"))
    );
}

/// Checks the phases that every version has.
fn goes_on(go_on: impl Fn(&str) -> Drive) {
    let mut begun = go_on("begun");
    begun.apply(Input::Start { text: "hi".to_owned(), untrusted: None, private: None });
    let mut pausing = go_on("pausing");
    pausing.outcome(1, Outcome::Expired);
    let mut calling = go_on("calling");
    calling.input("the red one");
    let mut answered = go_on("answered");
    for drive in [&mut calling, &mut answered] {
        decide(drive, 5, Choice::Deny);
        drive.outcome(3, ok("seen"));
        drive.outcome(4, ok("written"));
    }
    for drive in [begun, go_on("asking"), pausing, calling] {
        let mut drive = drive;
        drive.reply(text("done"));
        assert_eq!(drive.verdict(), Verdict::Ok);
    }
    assert_eq!(answered.said()[1], json!({"UserMessage": {"text": "hurry", "meta": "steering"}}));
    answered.reply(text("done"));
    assert_eq!(answered.verdict(), Verdict::Ok);

    let listed = |calls: &[(u32, &str)]| -> Vec<ReceiptCall> {
        calls.iter().map(|(n, name)| ReceiptCall { call_id: call_id(*n), name: (*name).to_owned() }).collect()
    };
    let mut ending = go_on("ending");
    ending.outcome(3, Outcome::Stopped { shown: String::new(), used: None });
    let receipt = Receipt {
        finished: listed(&[(1, "look")]),
        stopped: listed(&[(3, "look")]),
        unknown: vec![],
        not_started: listed(&[(4, "write"), (5, "write"), (6, ASK_USER)]),
    };
    assert_eq!(ending.verdict(), Verdict::Cancelled(receipt));

    let mut limited = go_on("limited");
    limited.outcome(0, Outcome::Stopped { shown: "Once".to_owned(), used: None });
    assert_eq!(limited.verdict(), Verdict::Ok);
    assert!(!go_on("last_answer").model().2);
    assert!(matches!(go_on("ended").verdict(), Verdict::Cancelled(_)));
}
