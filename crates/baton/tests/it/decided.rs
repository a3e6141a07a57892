//! Decisions whose run cannot go on at once, and the commands for a call with an unknown outcome.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::mask::Mask;
use crate::stage::Did;
use crate::world::World;

const SEARCH: &str = "[search]\nprovider = \"searxng\"\nurl = \"http://127.0.0.1:1\"\n";

fn adds_up() -> Value {
    json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}]},
        {"do": [{"text": "It is {last_result}"}]},
    ]})
}

/// A run that waits for an approval; returns the approval and the run.
fn asked(settings: &str) -> (World, String, String) {
    let world = World::new();
    world.settings(&format!("[policy]\napprove = [\"calculator\"]\n{settings}"));
    let did = world.baton(&["ask", "--thread", "t", "--model", &world.script(&adds_up()), "hi"]);
    assert_eq!(did.code, 3, "{did:?}");
    let approval = first(&world, &["approvals", "ls"], "id");
    let run = first(&world, &["runs", "ls"], "id");
    (world, approval, run)
}

fn first(world: &World, args: &[&str], field: &str) -> String {
    let listed = world.baton(&[args, &["--json"]].concat()).json();
    listed["items"][0][field].as_str().unwrap().to_owned()
}

fn short(run: &str) -> String {
    run.parse::<baton_core::id::RunId>().unwrap().short()
}

/// Checks the branch's refusal of another message, and the run's text: it is to be resumed.
fn is_to_be_resumed(world: &World, approval: &str, run: &str) {
    let short = short(run);
    let busy = world.baton(&["ask", "--thread", "t", "--model", "offline", "and now?"]);
    let expected = format!(
        "error: branch \"main\" is busy with run {run}\n  baton runs resume {short} goes on with it, baton runs cancel {short} ends it\n"
    );
    assert_eq!((busy.code, busy.err.as_str()), (1, expected.as_str()));
    let shown = world.baton(&["runs", "show", run]).ok();
    let decided =
        format!("\n  decided    approval {approval} is approved, to be resumed: baton runs resume {short}\n");
    assert!(shown.contains(&decided) && !shown.contains("waiting"), "{shown}");
    let tail = world.baton(&["runs", "tail", run]);
    let decided = format!("\ncalculator is approved; baton runs resume {short} goes on with it\n");
    assert!(tail.err.ends_with(&decided) && !tail.err.contains("May calculator run?"), "{tail:?}");
}

#[test]
fn a_decision_that_is_only_recorded_says_what_goes_on_with_the_run() {
    let (world, approval, run) = asked("");
    let shown = world.baton(&["runs", "show", &run]).ok();
    assert!(shown.contains(&format!("\n  waiting    approval {approval} until ")), "{shown}");
    assert_eq!(world.baton(&["approvals", "approve", &approval, "--detach"]).code, 0);
    is_to_be_resumed(&world, &approval, &run);
    let did = world.baton(&["runs", "resume", &run]);
    assert_eq!((did.code, did.out.contains("42")), (0, true), "{did:?}");
}

#[test]
fn a_decision_where_the_tools_of_the_run_are_not_configured_counts_and_says_how_to_go_on() {
    for (json, more) in [(false, None), (true, Some("--json"))] {
        let (world, approval, run) = asked(SEARCH);
        world.settings("[policy]\napprove = [\"calculator\"]\n");
        let args: Vec<&str> = ["approvals", "approve", &approval].into_iter().chain(more).collect();
        let did = world.baton(&args);
        let said = format!(
            "its run needs tools that are not configured here: web_search\n  where they are, baton --config FILE runs resume {} goes on with it\n",
            short(&run)
        );
        assert_eq!((did.code, did.err.as_str()), (3, said.as_str()));
        match json {
            true => assert_eq!(did.json()["status"], "approved"),
            false => assert_eq!(did.out, "calculator is approved\n"),
        }
        is_to_be_resumed(&world, &approval, &run);

        let with = world.write("with.toml", SEARCH);
        let did = world.baton(&["--config", with.to_str().unwrap(), "runs", "resume", &run]);
        assert_eq!((did.code, did.out.contains("42")), (0, true), "{did:?}");
    }
}

/// A run whose call was cut off by a crash: its outcome is unknown, and the user is asked.
#[cfg(feature = "failpoints")]
fn interrupted() -> (World, Did, String) {
    let world = World::new();
    world.settings(
        "[policy.modes.CONSERVATIVE]\non_unknown = \"ask_person\"\n\n[policy.modes.MODERATE]\non_unknown = \"ask_person\"\n",
    );
    let file = world.path("effects");
    let call = json!({"file": file, "line": "once", "class": "unsafe", "delay_ms": 60_000});
    let script = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "test_effect", "arguments": call}}]},
        {"do": [{"text": "So: {last_result}"}]},
    ]}));
    let mut running = world.start(&["ask", "--json", "--thread", "t", "--model", &script, "hi"]);
    running.until("tool_start");
    running.signal(Signal::KILL);
    running.end();
    let run = first(&world, &["runs", "ls"], "id");
    let did = world.baton(&["runs", "resume", &run]);
    assert_eq!(did.code, 3, "{did:?}");
    let approval = first(&world, &["approvals", "ls"], "id");
    (world, did, approval)
}

#[cfg(feature = "failpoints")]
#[test]
fn where_nobody_knows_what_happened_every_command_says_what_it_means() {
    let (world, did, approval) = interrupted();
    let mut mask = Mask::default();
    let ways = "  baton approvals approve ou-ID1-1-0                           runs it AGAIN, with the same key\n  \
                baton approvals deny ou-ID1-1-0                              leaves it unknown; the agent is told so\n  \
                baton approvals edit ou-ID1-1-0 --arguments '{\"output\": …}'  it happened, and this came of it\n";
    let told = mask.text(&did.err);
    assert!(told.contains("\nDid test_effect happen? May it run again? {"), "{told}");
    assert!(told.ends_with(ways), "{told}");
    let shown = mask.text(&world.baton(&["approvals", "show", &approval]).ok());
    assert!(shown.ends_with(&format!("decide with:\n{ways}")), "{shown}");

    // A chat asks with keys of its own, and a bare yes, which could mean either, decides nothing.
    let chat = world.baton_reading(
        &["chat", "--thread", "t", "--model", &format!("scripted/{}", world.path("script.json").display())],
        "y\no\n\"it is there\"\n",
    );
    let help = "a runs it AGAIN with the same key, n leaves it unknown and tells the agent so, o: it happened, and this came of it\n";
    assert_eq!(chat.err.matches(help).count(), 2, "{chat:?}");
    assert!(chat.out.ends_with("So: it is there\n"), "{chat:?}");
}
