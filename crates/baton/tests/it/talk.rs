//! `baton chat` on a terminal: pasted text, decisions made elsewhere, cancelled turns; and its commands.

use serde_json::json;

use crate::pty::Terminal;
use crate::world::World;

fn echo(world: &World) -> String {
    world.script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "You said <{user}>."}]}}))
}

/// An agent that makes a call which waits for a decision, and repeats its result.
fn asks(world: &World) -> String {
    let call = json!({"call": {"name": "calculator", "arguments": {"expression": "6*7"}}});
    world.script(
        &json!({"v": 1, "replies": [{"do": [call]}, {"do": [{"text": "It came to {last_result}."}]}]}),
    )
}

/// A chat that waits for a decision.
fn undecided(world: &World, settings: &str) -> Terminal {
    world.settings(settings);
    let mut terminal = Terminal::start(world.command(&["chat", "--thread", "t", "--model", &asks(world)]));
    terminal.until("you");
    terminal.types("go\r");
    terminal.until("May calculator run?");
    terminal.until("dit");
    terminal
}

const ASKS: &str = "[policy]\napprove = [\"calculator\"]\n";

fn pending(world: &World) -> String {
    let listed = world.baton(&["approvals", "ls", "--json"]).json();
    listed["items"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_text_of_several_lines_that_is_pasted_is_one_message() {
    let world = World::new();
    let mut terminal = Terminal::start(world.command(&["chat", "--thread", "t", "--model", &echo(&world)]));
    terminal.until("you");
    terminal.types("\u{1b}[200~one\ntwo\nthree\u{1b}[201~");
    terminal.until("three");
    terminal.types("\r");
    terminal.until("You said <one");
    terminal.until("three>.");
    terminal.until("you");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0, 0);
    let entries = world.baton(&["threads", "show", "t", "--json"]).json();
    assert_eq!(entries["items"].as_array().unwrap().len(), 2, "{entries}");
    assert_eq!(entries["items"][0]["data"]["text"], json!("one\ntwo\nthree"));
}

#[test]
fn a_decision_that_is_made_elsewhere_goes_on_here() {
    let world = World::new();
    let mut terminal = undecided(&world, ASKS);
    let decided = world.baton(&["approvals", "approve", "--detach", &pending(&world)]);
    assert_eq!(decided.code, 0, "{decided:?}");
    terminal.until("nothing is left to answer: calculator is approved elsewhere");
    terminal.until("It came to ");
    terminal.until("42");
    terminal.until("you");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_run_that_goes_on_in_another_process_is_shown_here() {
    let world = World::new();
    let mut terminal = undecided(&world, ASKS);
    let decided = world.baton(&["approvals", "deny", &pending(&world)]);
    assert_eq!(decided.code, 0, "{decided:?}");
    terminal.until("nothing is left to answer");
    terminal.until("It came to ");
    terminal.until("you");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn an_approval_that_expires_goes_on_here() {
    let world = World::new();
    let mut terminal = undecided(&world, &format!("{ASKS}patience_s = 1\n"));
    terminal.until("nothing is left to answer");
    terminal.until("It came to ");
    terminal.until("you");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn ctrl_c_at_an_approval_cancels_the_turn() {
    let world = World::new();
    let mut terminal = undecided(&world, ASKS);
    terminal.types("\u{3}");
    terminal.until("cancelling the turn");
    terminal.until("cancelled; not started: calculator");
    terminal.until("you");
    terminal.types("\u{4}");
    assert_eq!(terminal.end().0, 0);
    let runs = world.baton(&["runs", "ls", "--json"]).json();
    assert_eq!(runs["items"][0]["status"], json!("cancelled"));
}

#[test]
fn the_end_of_a_conversation_is_shown_when_it_goes_on() {
    let world = World::new();
    let model = echo(&world);
    let told = |args: &[&str], lines: &str| {
        let did = world.baton_reading(&[&["chat", "--model", &model], args].concat(), lines);
        assert_eq!(did.code, 0, "{did:?}");
        did.out
    };
    told(&["--thread", "t"], "one\ntwo\nthree\nfour\n");
    let last = "[2] user\n    two\n[3] assistant\n    You said <two>.\n[4] user\n    three\n[5] assistant\n    You said <three>.\n\
                [6] user\n    four\n[7] assistant\n    You said <four>.\n";
    assert_eq!(told(&["--last"], ""), last);
    assert_eq!(told(&["--thread", "t"], "/show 1\n"), format!("{last}[7] assistant\n    You said <four>.\n"));
    assert_eq!(told(&["--thread", "new"], ""), "");
}

#[test]
fn a_rewind_is_undone_as_it_says() {
    let world = World::new();
    let model = echo(&world);
    let lines = "one\ntwo\n/undo\n/rewind 1\nthree\n/undo\n/show 1\n/branches\n/undo\n";
    let did = world.baton_reading(&["chat", "--model", &model], lines);
    assert_eq!(did.code, 0, "{did:?}");
    let expected = "\
You said <one>.
You said <two>.
branch main ends at 1 (before: 3); /undo brings the rest back
You said <three>.
on branch fork-1, which ends at 3 as before
[3] assistant
    You said <two>.
* fork-1 ends at 3, from main at 3
  main ends at 3
";
    assert_eq!(did.out, expected);
    assert_eq!(did.err.matches("there is no /rewind to undo").count(), 2, "{}", did.err);
}

#[test]
fn the_model_and_the_mode_and_the_thread_are_changed_in_the_chat() {
    let world = World::new();
    let model = echo(&world);
    let other = format!(
        "scripted/{}",
        world
            .write(
                "other.json",
                &json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "Another."}]}}).to_string()
            )
            .display()
    );
    let lines = format!(
        "one\n/model {other}\ntwo\n/model nobody/x\n/mode conservative\n/mode\n/mode wild\n/new\nthree\n/branches\n"
    );
    let did = world.baton_reading(&["chat", "--thread", "t", "--model", &model], &lines);
    assert_eq!(did.code, 0, "{did:?}");
    let out: Vec<&str> = did.out.lines().collect();
    assert_eq!(out[0], "You said <one>.");
    assert!(out[1].starts_with(&format!("from now on: {other} (named by /model) · ")), "{}", out[1]);
    assert_eq!((out[2], out[3], out[4]), ("Another.", "from now on: CONSERVATIVE", "CONSERVATIVE"));
    assert!(out[5].starts_with("thread "), "{}", out[5]);
    assert_eq!(out[6..], ["Another.", "* main ends at 1"]);
    assert!(did.err.contains("nobody") && did.err.contains("there is no mode \"wild\""), "{}", did.err);
    let runs = world.baton(&["runs", "ls", "--thread", "t", "--json"]).json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "the third message began a thread");
}
