//! `baton chat`, driven by lines as a user would type them.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::pty::Terminal;
use crate::world::World;

/// The output of the chat for these lines.
fn chat(world: &World, args: &[&str], lines: &[&str]) -> String {
    let did = world.baton_reading(&[&["chat"], args].concat(), &(lines.join("\n") + "\n"));
    assert_eq!(did.code, 0, "{did:?}");
    did.out
}

fn echo(world: &World) -> String {
    world.script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "You said {user}."}]}}))
}

#[test]
fn a_conversation_can_be_forked_and_rewound() {
    let world = World::new();
    let model = echo(&world);
    let lines = [
        "one",
        "two",
        "/branches",
        "/fork 1 other",
        "/fork",
        "/checkout other",
        "three",
        "/branches",
        "/rewind 1",
        "/branches",
        "/checkout main",
        "/branches",
        "/quit",
        "never said",
    ];
    let expected = "\
You said one.
You said two.
* main ends at 3
branch other ends at 1; /checkout other goes on there
branch fork-1 ends at 3; /checkout fork-1 goes on there
on branch other
You said three.
  fork-1 ends at 3, from main at 3
  main ends at 3
* other ends at 3, from main at 1
branch other ends at 1 (before: 3); /undo brings the rest back
  fork-1 ends at 3, from main at 3
  main ends at 3
* other ends at 1, from main at 1
on branch main
  fork-1 ends at 3, from main at 3
* main ends at 3
  other ends at 1, from main at 1
";
    assert_eq!(chat(&world, &["--model", &model], &lines), expected);
}

#[test]
fn a_new_thread_is_begun_unless_the_last_is_wanted() {
    let world = World::new();
    let model = echo(&world);
    chat(&world, &["--model", &model], &["one"]);
    let shown = "[0] user\n    one\n[1] assistant\n    You said one.\n* main ends at 1\n";
    assert_eq!(chat(&world, &["--model", &model, "--last"], &["/branches"]), shown);
    assert_eq!(
        chat(&world, &["--model", &model, "--thread", "mine"], &["two", "/branches"]),
        "You said two.\n* main ends at 1\n"
    );
    assert_eq!(World::new().baton(&["chat", "--last"]).code, 1);
}

#[test]
fn mistakes_are_explained_and_the_chat_goes_on() {
    let world = World::new();
    let did = world.baton_reading(
        &["chat", "--model", &echo(&world)],
        "/dance\n/rewind 5\none\n/rewind 9\n/checkout no\n/help\n",
    );
    assert_eq!(did.code, 0);
    for expected in
        ["/dance is not understood", "index 9 is not on branch \"main\"", "there is no branch \"no\""]
    {
        assert!(did.err.contains(expected), "{}", did.err);
    }
    assert!(did.out.contains("You said one.") && did.out.contains("/checkout BRANCH"), "{}", did.out);
}

#[test]
fn questions_and_approvals_are_asked_in_the_chat() {
    let world = World::new();
    world.settings("[policy]\napprove = [\"calculator\"]\n");
    let sum =
        |expression: &str| json!({"call": {"name": "calculator", "arguments": {"expression": expression}}});
    let script = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which number?"}}}]},
        {"do": [sum("1+1")]},
        {"do": [sum("2+2")]},
        {"do": [sum("3+3")]},
        {"do": [{"text": "{results}"}]},
    ]}));
    let lines = ["go", "seven", "maybe", "y", "n", "e", "{\"expression\":\"4+4\"}", "/branches"];
    let out = chat(&world, &["--model", &script], &lines);
    let expected = "\
Which number?
May calculator run? {\"expression\":\"1+1\"}
May calculator run? {\"expression\":\"2+2\"}
May calculator run? {\"expression\":\"3+3\"}
";
    assert!(out.starts_with(expected), "{out}");
    assert!(
        out.contains("\"result\":\"2\"") && out.contains("\"result\":\"8\"") && !out.contains("\"6\""),
        "{out}"
    );
    assert!(out.contains("seven") && out.contains("a person said no"), "{out}");
}

#[test]
fn ctrl_c_cancels_the_turn_and_not_the_program() {
    let world = World::new();
    let script = world.script(&json!({"v": 1, "replies": [
        {"match": "stall", "do": [{"text": "hm "}, {"stall": true}]},
    ], "otherwise": {"do": [{"text": "Still here."}]}}));
    let input = world.write("input", "stall\nhello\n");
    let mut command = world.command(&["chat", "--model", &script]);
    command.stdin(std::fs::File::open(input).unwrap());
    let mut running = world.start_command(command);
    running.until("hm ");
    running.signal(Signal::INT);
    let did = running.end();
    assert_eq!((did.code, did.out.as_str()), (0, "hm \nStill here.\n"), "{did:?}");
    assert!(did.err.contains("cancelled; no tool had been called"), "{}", did.err);
}

#[test]
fn an_orphaned_run_of_the_thread_is_taken_up() {
    let world = World::new();
    let script = world.script(&json!({"v": 1, "replies": [{"do": [{"text": "x"}, {"stall": true}]}]}));
    let mut running = world.start(&["ask", "--thread", "t", "--model", &script, "hi"]);
    running.until("x");
    running.signal(Signal::KILL);
    running.end();
    world.script(&json!({"v": 1, "replies": [{"do": [{"text": "Finished after all."}]}]}));
    let out = chat(&world, &["--thread", "t", "--model", &script], &["/branches"]);
    assert!(out.ends_with("Finished after all.\n* main ends at 1\n"), "{out}");
}

/// A chat that waits at its prompt, on a terminal.
fn at_the_prompt(world: &World) -> Terminal {
    let mut terminal = Terminal::start(world.command(&["chat", "--model", &echo(world)]));
    terminal.until("you");
    terminal.types("one\r");
    terminal.until("You said one.");
    terminal.until("you");
    terminal
}

#[test]
fn a_chat_that_is_told_to_go_leaves_its_prompt() {
    for signal in [Signal::TERM, Signal::HUP] {
        let world = World::new();
        let terminal = at_the_prompt(&world);
        terminal.signal(signal);
        let (code, seen) = terminal.end();
        assert_eq!((code, seen.contains("error")), (143, false), "{signal:?}: {seen:?}");
    }
}

#[test]
fn a_chat_whose_terminal_is_gone_leaves() {
    let world = World::new();
    assert_eq!(at_the_prompt(&world).close(), 143);
    let waits = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which number?"}}}]},
    ]}));
    let mut asked = Terminal::start(world.command(&["chat", "--thread", "t", "--model", &waits]));
    asked.until("you");
    asked.types("go\r");
    asked.until("Which number?");
    asked.until("answer");
    assert_eq!(asked.close(), 143);
    let runs = world.baton(&["runs", "ls", "--json"]);
    assert!(runs.out.contains("\"suspended\""), "{runs:?}");
}

#[test]
fn a_piped_chat_that_is_told_to_go_says_so_by_its_exit_code() {
    let world = World::new();
    let mut command = world.command(&["chat", "--model", &echo(&world)]);
    command.stdin(Stdio::piped());
    let mut running = world.start_command(command);
    running.input().write_all(b"one\n").unwrap();
    running.until("You said one.");
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, 143);
}

#[test]
fn leaving_says_which_run_is_waited_for() {
    let world = World::new();
    world.settings("[engine]\nshutdown_s = 3600\n");
    let script = world.script(&json!({"v": 1, "replies": [{"do": [{"text": "so far "}, {"stall": true}]}]}));
    let mut lost = world.start(&["ask", "--model", &script, "hi"]);
    lost.until("so far ");
    lost.signal(Signal::KILL);
    let told = lost.end().err;
    let run = told.lines().next().unwrap().rsplit(' ').next().unwrap();
    let mut command = world.command(&["chat", "--model", &script]);
    command.stdin(Stdio::piped());
    let mut chat = world.start_command(command);
    chat.until_noted("/help");
    let mut tail = world.start(&["runs", "tail", run, "--from", "1.1"]);
    tail.until("so far ");
    chat.input().write_all(b"/quit\n").unwrap();
    chat.until_noted(&format!("waiting for run {run}; Ctrl-C leaves at once"));
    chat.signal(Signal::INT);
    assert_eq!(chat.end().code, 130);
}

#[test]
fn what_the_model_no_longer_sees_is_told() {
    let world = World::new();
    world.settings("last_n = 2\n[render]\npolicy = \"last_n\"\n");
    let did = world.baton_reading(&["chat", "--model", &echo(&world)], "one\ntwo\nthree\n");
    let told: Vec<&str> = did.err.lines().skip(2).collect();
    let expected = [
        "(the model no longer sees the first entry: only the latest are shown to it)",
        "(the model no longer sees the first 3 entries: only the latest are shown to it)",
    ];
    assert_eq!((did.code, told.as_slice()), (0, &expected[..]));
}
