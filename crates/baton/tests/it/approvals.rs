//! `baton approvals`: a call that needs a decision does not run without one, and then runs exactly once.

use serde_json::{Value, json};

use crate::mask::Mask;
use crate::serve::served::until;
use crate::stage::Stage;
use crate::world::World;

/// A stage on which a run waits for an approval; returns the approval's id.
fn asked() -> (Stage, String) {
    let stage = Stage::careful();
    let did = stage.baton(&["ask", "--thread", "t", "the effect"]);
    assert_eq!(did.code, 3, "{did:?}");
    assert_eq!(stage.effects(), [] as [&str; 0]);
    let id = pending(&stage)[0]["id"].as_str().unwrap().to_owned();
    (stage, id)
}

fn pending(stage: &Stage) -> Value {
    stage.baton(&["approvals", "ls", "--json"]).json()["items"].clone()
}

fn statuses(stage: &Stage) -> Vec<String> {
    let all = stage.baton(&["approvals", "ls", "--status", "all", "--json"]).json();
    let status = |item: &Value| item["status"].as_str().unwrap().to_owned();
    all["items"].as_array().unwrap().iter().map(status).collect()
}

#[test]
fn an_approval_shows_the_exact_call() {
    let (stage, id) = asked();
    let file = stage.path("effects");
    let args = json!({"file": file, "line": "as asked", "class": "unsafe", "delay_ms": 0});
    let item = json!({
        "id": "ap-ID1-1", "call_id": "ID1-1", "run_id": "ID1", "kind": "call", "name": "test_effect", "args": args,
        "digest": "HASH", "reason": stage.document(&["approvals", "show", &id])["reason"],
        "created": "TIME", "expires_at": "TIME", "status": "pending",
    });
    let mut mask = Mask::default();
    mask.text(id.trim_start_matches("ap-"));
    let listed = mask.value(stage.baton(&["approvals", "ls", "--json"]).json());
    assert_eq!(listed, json!({"items": [item]}));
    let shown = mask.value(stage.baton(&["approvals", "show", &id, "--json"]).json());
    assert_eq!(shown, item);

    let text = mask.text(&stage.baton(&["approvals", "ls"]).ok());
    assert!(text.starts_with("APPROVAL") && text.contains("ap-ID1-1  pending"), "{text}");
    let text = mask.text(&stage.baton(&["approvals", "show", &id]).ok());
    assert!(
        text.starts_with("approval ap-ID1-1\n  status   pending\n  asks     May test_effect run?\n"),
        "{text}"
    );
    assert!(text.ends_with("decide with: baton approvals approve|deny|edit ap-ID1-1\n"), "{text}");
}

#[test]
fn an_approved_call_runs_once_and_the_run_goes_on() {
    let (stage, id) = asked();
    let short = &id[id.len() - 8..];
    let did = stage.baton(&["approvals", "approve", short]);
    assert_eq!((did.code, did.out.as_str()), (0, "Done: wrote as asked\n"), "{did:?}");
    assert!(did.err.starts_with("test_effect is approved\n"), "{did:?}");
    assert_eq!(stage.effects(), ["as asked"]);
    assert_eq!(pending(&stage), json!([]));

    for decision in ["approve", "deny"] {
        let again = stage.baton(&["approvals", decision, &id]);
        let said = Mask::default().text(&again.err);
        let expected = "error: approval ap-ID1-1 is already decided: approved by cli at TIME\n  the first decision counts\n";
        assert_eq!((again.code, said.as_str()), (1, expected));
    }
    assert_eq!(stage.effects(), ["as asked"]);
}

#[test]
fn a_denied_call_never_runs_and_the_agent_is_told_why() {
    let (stage, id) = asked();
    let did = stage.baton(&["approvals", "deny", &id, "--reason", "not today"]);
    assert_eq!(did.code, 0, "{did:?}");
    assert!(did.out.starts_with("Done: ") && did.out.contains("not today"), "{did:?}");
    assert_eq!(stage.effects(), [] as [&str; 0]);
    assert_eq!(statuses(&stage), ["denied"]);
}

#[test]
fn an_edited_call_runs_as_edited() {
    let (stage, id) = asked();
    let wrong = stage.baton(&["approvals", "edit", &id, "--arguments", "{\"line\": 1}"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(
        wrong.err.contains("do not fit `test_effect`") && wrong.err.contains("baton tools show test_effect")
    );
    let broken = stage.baton(&["approvals", "edit", &id, "--arguments", "{"]);
    assert_eq!((broken.code, broken.err.starts_with("error: --arguments is not valid JSON")), (2, true));
    assert_eq!(statuses(&stage), ["pending"]);

    let arguments =
        json!({"file": stage.path("effects"), "line": "as edited", "class": "unsafe"}).to_string();
    // The model repeats the result that it was given.
    let told = format!("Done: wrote as edited\n(A person changed the arguments to {arguments}.)\n");
    let did = stage.baton(&["approvals", "edit", &id, "--arguments", &arguments]);
    assert_eq!((did.code, did.out), (0, told));
    assert_eq!(stage.effects(), ["as edited"]);
    assert_eq!(statuses(&stage), ["edited"]);
}

#[test]
fn what_was_asked_for_and_why_it_was_changed_stay_with_the_approval() {
    let (stage, id) = asked();
    let before = stage.document(&["approvals", "show", &id]);
    let arguments = json!({"file": stage.path("effects"), "line": "as edited", "class": "unsafe"});
    let edit = ["approvals", "edit", &id, "--reason", "a typo", "--arguments", &arguments.to_string()];
    assert_eq!(stage.baton(&edit).code, 0);
    let after = stage.document(&["approvals", "show", &id]);
    assert_eq!((&after["original_args"], &after["args"]), (&before["args"], &arguments));
    assert_eq!((&after["reason"], &after["decision_reason"]), (&before["reason"], &json!("a typo")));
    let shown = stage.baton(&["approvals", "show", &id]).ok();
    for line in ["  because  a typo", "  arguments as asked for", "  arguments that were put in their place"]
    {
        assert!(shown.lines().any(|shown| shown == line), "{shown}");
    }
    assert!(shown.contains("\"line\": \"as asked\"") && shown.contains("\"line\": \"as edited\""), "{shown}");
}

#[test]
fn a_detached_decision_is_found_by_whoever_goes_on() {
    let (stage, id) = asked();
    let did = stage.baton(&["approvals", "approve", &id, "--detach"]);
    assert_eq!((did.code, did.out.as_str()), (0, "test_effect is approved\n"), "{did:?}");
    assert_eq!(stage.effects(), [] as [&str; 0]);
    let did = stage.baton(&["runs", "resume", &stage.newest_run()]);
    assert_eq!((did.code, did.out.as_str()), (0, "Done: wrote as asked\n"), "{did:?}");
    assert_eq!(stage.effects(), ["as asked"]);
}

#[test]
fn with_json_a_decision_prints_the_approval_alone() {
    let (stage, id) = asked();
    let did = stage.baton(&["approvals", "approve", &id, "--json"]);
    assert_eq!((did.code, did.err.as_str()), (0, ""), "{did:?}");
    let approval = did.json();
    let decided = [&approval["id"], &approval["status"], &approval["by"]];
    assert_eq!(decided, [&json!(id), &json!("approved"), &json!("cli")]);
    assert_eq!(stage.effects(), ["as asked"]);
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    let (stage, id) = asked();
    stage.baton(&["ask", "--thread", "u", "the effect"]);
    let cases = [
        (
            vec!["approvals", "approve", "zzzz"],
            1,
            "error: there is no approval \"zzzz\"\n  baton approvals ls --status all shows what there is\n",
        ),
        (
            vec!["approvals", "show", "ap-0"],
            2,
            "error: \"ap-0\" fits more than one approval\n  give more of the id\n",
        ),
        (vec!["approvals", "show", &id[id.len() - 3..]], 1, ""),
        (vec!["approvals", "ls", "--status", "maybe"], 2, ""),
    ];
    for (args, code, err) in cases {
        let did = stage.baton(&args);
        assert_eq!(did.code, code, "{args:?} {did:?}");
        assert!(err.is_empty() || did.err == err, "{args:?} {did:?}");
    }
    assert_eq!(statuses(&stage), ["pending", "pending"]);
    assert_eq!(stage.baton(&["approvals", "ls", "--status", "denied"]).err, "there are none\n");
}

#[test]
fn an_approval_whose_time_is_over_is_expired_wherever_it_is_shown() {
    let world = World::new();
    world.settings("[policy]\napprove = [\"calculator\"]\n\n[policy.channels.CHAT]\npatience_s = 1\n");
    let call = json!({"call": {"name": "calculator", "arguments": {"expression": "6*7"}}});
    let model = world.script(&json!({"v": 1, "replies": [{"do": [call]}, {"do": [{"text": "So be it."}]}]}));
    let asked = world.baton(&["ask", "--model", &model, "--thread", "t", "go"]);
    assert_eq!(asked.code, 3, "{asked:?}");
    let column = |args: &[&str]| {
        let listed = world.baton(args).ok();
        let row = listed.lines().nth(1).unwrap_or_default().to_owned();
        row.split_whitespace().nth(1).unwrap_or_default().to_owned()
    };
    let id = world.baton(&["approvals", "ls", "--json"]).json()["items"][0]["id"].clone();
    let id = id.as_str().unwrap();
    // Its run has no owner, so no process has written the expiry yet.
    until("its time is over", || column(&["approvals", "ls"]) == "expired");
    assert_eq!(column(&["approvals", "ls", "--status", "all"]), "expired");
    assert_eq!(world.baton(&["approvals", "ls", "--json"]).json()["items"][0]["status"], "expired");
    let shown = world.baton(&["approvals", "show", id]).ok();
    assert!(shown.contains("  status   expired") && !shown.contains("decide with"), "{shown}");
    assert_eq!(world.baton(&["approvals", "show", id, "--json"]).json()["status"], "expired");

    let late = world.baton(&["approvals", "approve", id]);
    assert_eq!(
        (late.code, late.err.contains(&format!("approval {id} is already decided: expired"))),
        (1, true)
    );
    assert_eq!(column(&["approvals", "ls"]), "", "its run was told, and nothing waits any more");
    assert_eq!(column(&["approvals", "ls", "--status", "expired"]), "expired");
}
