//! `baton threads`: branches, and moving a thread between machines.

use serde_json::{Value, json};

use crate::mask::Mask;
use crate::stage::Stage;

/// A stage with the thread `trip`: `main` with four entries.
fn trip() -> Stage {
    let stage = Stage::new();
    for text in ["one", "two"] {
        stage.baton(&["ask", "--thread", "trip", text]).ok();
    }
    stage
}

fn threads(stage: &Stage, args: &[&str]) -> (i32, String) {
    let did = stage.baton(&[&["threads"], args].concat());
    (did.code, if did.code == 0 { did.out } else { did.err })
}

/// The entries of a branch without the runs that wrote them: those stay where they ran.
fn entries(stage: &Stage, thread: &str, branch: &str) -> Vec<Value> {
    let list = stage.baton(&["threads", "show", thread, "--branch", branch, "--json"]).json();
    let mut items = list["items"].as_array().unwrap().clone();
    items.iter_mut().for_each(|item| drop(item["run_id"].take()));
    items
}

fn branches(stage: &Stage, thread: &str) -> Value {
    stage.baton(&["threads", "tree", thread, "--json"]).json()["items"].take()
}

#[test]
fn a_thread_is_listed_and_read() {
    let stage = trip();
    let said = "[0] user\n    one\n[1] assistant\n    You said: one\n[2] user\n    two\n[3] assistant\n    You said: two\n";
    assert_eq!(threads(&stage, &["show", "trip"]), (0, said.to_owned()));
    assert_eq!(
        threads(&stage, &["show", "trip", "--before", "3", "--last-n", "1"]),
        (0, "[2] user\n    two\n".to_owned())
    );
    let entry = |index: i64, id: &str, t: &str, data: Value, run: &str| json!({"index": index, "id": id, "ts": "TIME", "t": t, "data": data, "run_id": run});
    let entries = json!([
        entry(0, "ID1", "UserMessage", json!({"text": "one"}), "ID2"),
        entry(1, "ID3", "AssistantMessage", json!({"content": "You said: one"}), "ID2"),
        entry(2, "ID4", "UserMessage", json!({"text": "two"}), "ID5"),
        entry(3, "ID6", "AssistantMessage", json!({"content": "You said: two"}), "ID5"),
    ]);
    assert_eq!(stage.document(&["threads", "show", "trip"])["items"], entries);

    let main = json!({"name": "main", "head_index": 3, "length": 4, "current": true});
    let thread =
        json!({"id": "trip", "current": "main", "created": "TIME", "meta": null, "branches": [main]});
    assert_eq!(stage.document(&["threads", "ls"]), json!({"items": [thread]}));
    let listed = Mask::default().text(&threads(&stage, &["ls"]).1);
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((&row[..3], &row[4..]), (&["trip", "TIME", "one"][..], &["0", "USD", "main", "1", "4"][..]));
}

#[test]
fn lists_are_paged_newest_first() {
    let stage = Stage::new();
    assert_eq!(stage.baton(&["threads", "ls"]).err, "there are no threads yet: baton ask \"…\" begins one\n");
    for thread in ["first", "second", "third"] {
        stage.baton(&["ask", "--thread", thread, "hi"]).ok();
    }
    let page = |args: &[&str]| {
        let list = stage.baton(&[&["threads", "ls", "--json", "--limit", "2"], args].concat()).json();
        let ids = list["items"].as_array().unwrap().iter().map(|thread| thread["id"].clone()).collect();
        (Value::Array(ids), list["next"].clone())
    };
    assert_eq!(page(&[]), (json!(["third", "second"]), json!("second")));
    assert_eq!(page(&["--after", "second"]), (json!(["first"]), Value::Null));
    let told = stage.baton(&["threads", "ls", "--limit", "2"]);
    assert_eq!(told.err, "there are more: baton threads ls --after second\n");
}

#[test]
fn branches_are_forked_checked_out_rewound_and_removed() {
    let stage = trip();
    let forked = json!({"name": "b", "head_index": 1, "length": 2, "forked_from": {"branch": "main", "index": 1}, "current": false});
    assert_eq!(stage.document(&["threads", "fork", "trip", "--index", "1", "--name", "b"]), forked);
    let taken = "error: there already is a branch \"b\": choose another name\n";
    assert_eq!(threads(&stage, &["fork", "trip", "--name", "b"]), (1, taken.to_owned()));
    let named = stage.document(&["threads", "fork", "trip", "--from", "b", "--index=-1"]);
    let name = named["name"].as_str().unwrap().to_owned();
    assert!(name.len() == 6 && name.starts_with("b-"), "{name}");
    assert_eq!((&named["length"], &named["forked_from"]), (&json!(0), &json!({"branch": "b", "index": -1})));

    assert_eq!(
        threads(&stage, &["checkout", "trip", "b"]),
        (0, "b is now the current branch: 2 entries\n".to_owned())
    );
    stage.baton(&["ask", "--thread", "trip", "three"]).ok();
    let tree = format!(
        "thread trip\nmain: 4 entries\n└─ b (current): 4 entries, forked at 1\n   └─ {name}: 0 entries, forked at -1\n"
    );
    assert_eq!(threads(&stage, &["tree", "trip"]), (0, tree));

    let kept =
        "error: branch \"b\" cannot be deleted: it is the current branch; check out another one first\n";
    assert_eq!(threads(&stage, &["rm-branch", "trip", "--branch", "b"]), (1, kept.to_owned()));
    assert_eq!(stage.document(&["threads", "checkout", "trip", "--branch", "main"])["current"], json!(true));
    let (code, said) = threads(&stage, &["rm-branch", "trip", "b"]);
    assert_eq!(code, 0, "{said}");
    let undo = said.split("until prune, baton ").nth(1).unwrap().split(" brings").next().unwrap();
    let undo: Vec<&str> = undo.split(' ').chain(["--name", "again"]).collect();
    stage.baton(&undo).ok();
    assert_eq!(branches(&stage, "trip")[0]["length"], json!(4));
}

#[test]
fn a_rewind_says_how_to_undo_it() {
    let stage = trip();
    let before = entries(&stage, "trip", "main");
    let (code, said) = threads(&stage, &["rewind", "trip", "--index", "1"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        Mask::default().text(&said),
        "main now ends at index 1 (before: 3); until prune, baton threads fork trip --entry ID1 brings the rest back\n"
    );
    assert_eq!(entries(&stage, "trip", "main"), before[..2]);
    let id = said.split("--entry ").nth(1).unwrap().split(' ').next().unwrap();
    threads(&stage, &["fork", "trip", "--entry", id, "--name", "back"]);
    assert_eq!(entries(&stage, "trip", "back"), before);

    let rewound = json!({"branch": "back", "head_index": -1, "previous_head": 3, "previous_entry": "ID1"});
    assert_eq!(stage.document(&["threads", "rewind", "trip", "--branch", "back", "--index", "-1"]), rewound);
    assert_eq!(
        threads(&stage, &["show", "trip", "--branch", "back"]),
        (0, "nothing has been said here yet\n".to_owned())
    );
    let beyond = "error: index 9 is not on branch \"main\": it has indices up to 1\n";
    assert_eq!(threads(&stage, &["rewind", "trip", "--index", "9"]), (1, beyond.to_owned()));
}

#[test]
fn a_prune_frees_what_nothing_reaches() {
    let stage = trip();
    threads(&stage, &["fork", "trip", "--index", "0", "--name", "old"]);
    threads(&stage, &["fork", "trip", "--index", "0", "--name", "kept"]);
    threads(&stage, &["rewind", "trip", "--index", "1"]);
    let freed = |branches: Value, dry_run: bool| json!({"branches": branches, "lanes": 0, "entries": 2, "dry_run": dry_run});
    let prune = ["threads", "prune", "trip", "--older-than", "0s", "--keep", "kept"];
    assert_eq!(stage.document(&[&prune[..], &["--dry-run"]].concat()), freed(json!(["old"]), true));
    assert_eq!(
        threads(&stage, &["prune", "trip", "--dry-run"]),
        (0, "would remove no branch and 2 entries that no branch reaches\n".to_owned())
    );
    assert_eq!(stage.document(&prune), freed(json!(["old"]), false));
    let names: Vec<Value> =
        branches(&stage, "trip").as_array().unwrap().iter().map(|b| b["name"].clone()).collect();
    assert_eq!(names, ["kept", "main"]);
    assert_eq!(
        threads(&stage, &["prune", "trip"]),
        (0, "removed no branch and 0 entries that no branch reaches\n".to_owned())
    );
    assert_eq!(threads(&stage, &["prune", "trip", "--older-than", "soon"]).0, 2);
}

#[test]
fn entries_are_pushed_in_order_or_not_at_all() {
    let stage = trip();
    let pushed =
        stage.document(&["threads", "push", "trip", "--t", "UserMessageState", "{\"text\": \"by hand\"}"]);
    assert_eq!(
        pushed,
        json!({"index": 4, "id": "ID1", "ts": "TIME", "t": "UserMessage", "data": {"text": "by hand"}, "run_id": null})
    );
    let cases = [
        (
            &["--t", "ToolResult", "{\"tool_call_id\": \"x\", \"tool_name\": \"t\", \"result\": 1}"][..],
            1,
            "call \"x\" is not open",
        ),
        (&["--t", "UserMessage", "{\"txt\": 1}"], 2, "unknown field `txt`"),
        (&["--t", "UserMessage", "{"], 2, "the fields are not valid JSON"),
        (&["--t", "no name"], 2, "is not a type name"),
    ];
    for (args, code, said) in cases {
        let (was, text) = threads(&stage, &[&["push", "trip"], args].concat());
        assert!(was == code && text.contains(said), "{args:?}: {was} {text}");
    }
    assert_eq!(threads(&stage, &["finish", "trip"]), (0, "Finished is entry 5 of thread trip\n".to_owned()));
    let (code, said) = threads(&stage, &["push", "trip", "--t", "note"]);
    assert!(code == 1 && said.contains("the conversation is finished"), "{said}");
    assert_eq!(entries(&stage, "trip", "main").len(), 6);
}

#[test]
fn a_branch_in_use_is_left_alone() {
    let stage = Stage::careful();
    stage.baton(&["ask", "--thread", "t", "the effect"]);
    let id = stage.newest_run();
    let short = &id[id.len() - 8..];
    let busy = format!(
        "error: branch \"main\" is busy with run {id}\n  baton runs resume {short} goes on with it, baton runs cancel {short} ends it\n"
    );
    for args in
        [&["push", "t", "--t", "note"][..], &["finish", "t"], &["rewind", "t", "--index", "0"], &["rm", "t"]]
    {
        assert_eq!(threads(&stage, args), (1, busy.clone()), "{args:?}");
    }
    assert_eq!(stage.document(&["threads", "fork", "t", "--name", "b"])["name"], json!("b"));
    stage.baton(&["runs", "cancel", &id]).ok();
    assert_eq!(threads(&stage, &["rm", "t"]), (0, "thread t is deleted, with its runs\n".to_owned()));
    assert_eq!(stage.document(&["threads", "ls"]), json!({"items": []}));
    assert_eq!(stage.document(&["runs", "ls"]), json!({"items": []}));
}

#[test]
fn ids_may_be_shortened() {
    let stage = trip();
    let made = "01890a5d-ac96-774b-bcce-b302099a8057";
    for thread in ["notes-2026", made, "01890a5d-ac96-774b-bcce-b302099a8058"] {
        stage.baton(&["ask", "--thread", thread, "hi"]).ok();
    }
    let tree = format!("thread {made}\nmain (current): 2 entries\n");
    assert_eq!(threads(&stage, &["tree", "099a8057"]), (0, tree));
    let cases = [
        ("01890a5d", 2, "error: \"01890a5d\" fits more than one thread\n  give more of the id\n"),
        // A name that a user chose must match exactly: "notes" must never become "notes-2026".
        ("notes", 1, "error: there is no thread \"notes\"\n  baton threads ls shows what there is\n"),
        ("nowhere", 1, "error: there is no thread \"nowhere\"\n  baton threads ls shows what there is\n"),
    ];
    for (given, code, err) in cases {
        assert_eq!(threads(&stage, &["show", given]), (code, err.to_owned()));
    }
    let missing = "error: there is no branch \"x\"\n  baton threads tree trip shows what there is\n";
    assert_eq!(threads(&stage, &["checkout", "trip", "x"]), (1, missing.to_owned()));
    assert_eq!(threads(&stage, &["checkout", "trip"]).0, 2);
}

/// A stage with a thread of every kind of history: tool calls, forks of forks, a rewind, a deleted branch.
fn travelled() -> Stage {
    let stage = Stage::new();
    let ask = |text: &str| stage.baton(&["ask", "--thread", "trip", text]).ok();
    let threads = |args: &[&str]| stage.baton(&[&["threads"], args].concat()).ok();
    ask("the effect");
    ask("two");
    threads(&["fork", "trip", "--index", "4", "--name", "b"]);
    threads(&["checkout", "trip", "b"]);
    ask("on b");
    threads(&["fork", "trip", "--index", "5", "--name", "c"]);
    threads(&["checkout", "trip", "c"]);
    ask("the effect");
    threads(&["fork", "trip", "--index", "2", "--name", "d"]);
    threads(&["checkout", "trip", "main"]);
    threads(&["rewind", "trip", "--index", "1", "--branch", "b"]);
    threads(&["rm-branch", "trip", "c"]);
    threads(&["checkout", "trip", "d"]);
    threads(&["push", "trip", "--t", "my.Note", "{\"k\": [1, {\"x\": null}]}", "--v", "3"]);
    stage
}

#[test]
fn a_thread_moves_to_another_machine_whole() {
    let (here, there) = (travelled(), Stage::new());
    let file = here.path("trip.json");
    let file = file.to_str().unwrap();
    let written = here.document(&["threads", "export", "trip", file]);
    assert_eq!(written, json!({"thread_id": "trip", "file": file, "branches": 3, "entries": 8}));
    assert_eq!(
        threads(&there, &["import", file]),
        (0, "thread trip is here: 3 branches, 8 entries\n".to_owned())
    );

    assert_eq!(branches(&there, "trip"), branches(&here, "trip"));
    for branch in ["main", "b", "d"] {
        assert_eq!(entries(&there, "trip", branch), entries(&here, "trip", branch), "{branch}");
    }
    let view = |stage: &Stage| stage.baton(&["threads", "ls", "--json"]).json();
    assert_eq!(view(&there), view(&here));
    let document = |stage: &Stage| stage.baton(&["threads", "export", "trip"]).ok();
    assert_eq!(document(&there), document(&here));
    // It is a thread like any other.
    there.baton(&["ask", "--thread", "trip", "--branch", "main", "hi"]).ok();
    assert_eq!(entries(&there, "trip", "main").len(), 9);
}

#[test]
fn an_import_never_touches_what_is_there() {
    let stage = trip();
    let file = stage.path("trip.json");
    let exported = stage.baton(&["threads", "export", "trip", "-"]).ok();
    std::fs::write(&file, &exported).unwrap();
    let name = file.to_str().unwrap();
    let exists = "error: there already is a thread \"trip\"\n  --id gives the imported one another id\n";
    assert_eq!(threads(&stage, &["import", name]), (1, exists.to_owned()));
    let copied = stage.baton_reading(&["threads", "import", "-", "--id", "copy"], &file);
    assert_eq!(copied.out, "thread copy is here: 1 branch, 4 entries\n");
    assert_eq!(entries(&stage, "copy", "main"), entries(&stage, "trip", "main"));
    let there = format!("error: there already is a file {name}\n  give another name, or remove it first\n");
    assert_eq!(threads(&stage, &["export", "trip", name]), (1, there));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported);
}

#[test]
fn a_broken_file_changes_nothing() {
    let (stage, there) = (travelled(), Stage::new());
    let exported = stage.baton(&["threads", "export", "trip"]).ok();
    let cut = exported.len() / 2;
    let cases = [
        ("", "it is not an exported thread: EOF while parsing a value"),
        (&exported[..cut], "it is not an exported thread: EOF while parsing"),
        ("[1, 2]", "it is not an exported thread"),
        (
            &exported.replace("\"v\": 1\n}\n", "\"v\": 9\n}\n"),
            "it has version 9, and this build reads up to 1",
        ),
        (&exported.replacen("\"created\"", "\"creation\"", 1), "unknown field `creation`"),
        (
            &exported.replacen("\"UserMessage\"", "\"ToolResult\"", 1),
            "the fields of ToolResult are not right",
        ),
    ];
    for (text, why) in cases {
        let file = there.path("broken.json");
        std::fs::write(&file, text).unwrap();
        let (code, said) = threads(&there, &["import", file.to_str().unwrap()]);
        assert!(code == 1 && said.contains(why) && said.contains("nothing was changed"), "{why}: {said}");
    }
    assert_eq!(there.document(&["threads", "ls"]), json!({"items": []}));
    assert_eq!(threads(&there, &["import", "nowhere.json"]).0, 1);
}
