//! Threads, and the entries that are pushed to them.

use baton_core::run::RunStatus;
use baton_core::thread::entry::AgentCall;
use baton_core::thread::{Entry, Place, PlacedEntry, Tail};
use baton_store::{
    BranchEnd, BranchView, ForkAt, NewRun, NewThread, Slice, StoreError, ThreadView, Transition,
};
use serde_json::json;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{
    approval, assistant, at, branch, call, entry, entry_id, input, new_thread, numbered, push_many, result,
    run, talk, tenant, thread, user,
};

on_every_store!(
    a_thread_begins_with_an_empty_main_branch,
    threads_are_listed_newest_first_in_pages,
    a_deleted_thread_takes_its_runs_along,
    a_thread_in_use_is_not_deleted,
    a_thread_gets_another_id_with_everything_on_it,
    what_is_pushed_follows_the_table,
    a_call_id_is_used_once_on_a_branch,
    an_agent_call_without_an_id_gets_its_entrys,
    nothing_follows_the_end_of_a_conversation,
    anything_that_can_be_said_comes_back_as_it_was,
    a_slice_is_cut_from_the_end_across_lanes,
    a_branch_in_use_takes_no_push_and_shows_where_its_run_is,
    the_end_of_a_branch_says_which_lane_it_may_extend,
    however_many_calls_are_open_the_end_of_a_branch_knows_them,
    what_was_said_of_a_lane_does_no_harm_when_it_is_no_longer_true,
);

async fn a_thread_begins_with_an_empty_main_branch(home: Home) {
    let new = NewThread { ttl_at: Some(at(99)), meta: json!({"title": "né\u{0}e"}), ..new_thread("t", 7) };
    home.store.create_thread(&tenant(), new.clone()).await.unwrap();
    let main =
        BranchView { name: branch("main"), head: Place { lane: 0, index: -1 }, forked_from: None, run: None };
    let expected = ThreadView {
        id: thread("t"),
        current: branch("main"),
        created: at(7),
        ttl_at: Some(at(99)),
        meta: json!({"title": "né\u{0}e"}),
        branches: vec![main],
    };
    assert_eq!(home.store.thread(&tenant(), &thread("t")).await, Ok(expected));
    let end = home.store.end(&tenant(), &thread("t"), None).await;
    assert_eq!(end, Ok(BranchEnd::without_entries(branch("main"))));
    assert_eq!(home.store.entries(&tenant(), &thread("t"), None, Slice::default()).await, Ok(vec![]));

    let before = dump(&home.store).await;
    let again = home.store.create_thread(&tenant(), new).await.unwrap_err();
    assert_eq!(again.to_string(), "there already is a thread \"t\"");
    assert_eq!(dump(&home.store).await, before);
    let missing = home.store.thread(&tenant(), &thread("u")).await;
    assert_eq!(missing, Err(StoreError::NotFound { what: "thread", id: "u".to_owned() }));
}

async fn threads_are_listed_newest_first_in_pages(home: Home) {
    for (ms, id) in (0..).zip(["d", "a", "e", "c", "b"]) {
        home.store.create_thread(&tenant(), new_thread(id, ms)).await.unwrap();
    }
    let page = async |limit, after: Option<&str>| {
        let after = after.map(thread);
        let page = home.store.threads(&tenant(), limit, after.as_ref()).await?;
        Ok::<_, StoreError>(page.into_iter().map(|view| view.id.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(page(9, None).await.unwrap(), ["b", "c", "e", "a", "d"]);
    assert_eq!(page(2, None).await.unwrap(), ["b", "c"]);
    assert_eq!(page(2, Some("c")).await.unwrap(), ["e", "a"]);
    assert_eq!(page(2, Some("a")).await.unwrap(), ["d"]);
    assert_eq!(page(2, Some("d")).await.unwrap(), [""; 0]);
    assert_eq!(page(0, None).await.unwrap(), [""; 0]);
    assert_eq!(page(2, Some("x")).await.unwrap_err().to_string(), "there is no thread \"x\"");

    home.store.delete_thread(&tenant(), &thread("b"), None).await.unwrap();
    home.store.create_thread(&tenant(), new_thread("z", 9)).await.unwrap();
    assert_eq!(page(9, None).await.unwrap(), ["z", "c", "e", "a", "d"]);
}

async fn a_deleted_thread_takes_its_runs_along(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for (n, id) in [(1, "kept"), (2, "gone")] {
        talk(store, id, 2).await;
        let mut pen = Pen::start(store, owner.id, n, (id, "main")).await;
        let asked = vec![approval(&format!("ap-{id}"), pen.run)];
        pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
        store.post(&tenant(), pen.run, input("hello"), None, at(30)).await.unwrap();
        pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    }
    let mut expected = dump(store).await;
    expected.threads.retain(|(view, _)| view.id == thread("kept"));
    expected.runs.retain(|run| run.row.thread == thread("kept"));
    expected.approvals.retain(|approval| approval.id == "ap-kept");

    store.delete_thread(&tenant(), &thread("gone"), None).await.unwrap();
    assert_eq!(dump(store).await, expected);
    let no_run = StoreError::NotFound { what: "run", id: run(2).to_string() };
    assert_eq!(store.run(&tenant(), run(2)).await, Err(no_run.clone()));
    assert_eq!(store.steps(&tenant(), run(2), 0, 9).await, Err(no_run.clone()));
    assert_eq!(store.claims(&tenant(), run(2)).await, Err(no_run.clone()));
    assert_eq!(store.inbox(&tenant(), run(2), 0).await, Err(no_run));
    let no_approval = StoreError::NotFound { what: "approval", id: "ap-gone".to_owned() };
    assert_eq!(store.approval(&tenant(), "ap-gone").await, Err(no_approval));
    let no_thread = StoreError::NotFound { what: "thread", id: "gone".to_owned() };
    assert_eq!(store.delete_thread(&tenant(), &thread("gone"), None).await, Err(no_thread));

    talk(store, "gone", 1).await;
    let entries = store.entries(&tenant(), &thread("gone"), None, Slice::default()).await.unwrap();
    assert_eq!(entries.len(), 1, "a new thread of the same name has none of the old one's entries");
}

async fn a_thread_in_use_is_not_deleted(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    pen.commit(store, pen.suspends(900)).await.unwrap();
    let before = dump(store).await;
    let refused = store.delete_thread(&tenant(), &thread("t"), None).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("branch \"main\" is busy with run {}", run(1)));
    assert_eq!(dump(store).await, before);
}

async fn a_thread_gets_another_id_with_everything_on_it(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    talk(store, "taken", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let busy = store.rename_thread(&tenant(), &thread("t"), &thread("u")).await.unwrap_err();
    assert_eq!(busy.to_string(), format!("branch \"main\" is busy with run {}", run(1)));
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let taken = store.rename_thread(&tenant(), &thread("t"), &thread("taken")).await.unwrap_err();
    assert_eq!(taken.to_string(), "there already is a thread \"taken\"");
    let all = async |id: &str| {
        let entries = store.entries(&tenant(), &thread(id), None, Default::default()).await.unwrap();
        (entries, store.thread(&tenant(), &thread(id)).await.unwrap().branches)
    };
    let before = all("t").await;
    store.rename_thread(&tenant(), &thread("t"), &thread("u")).await.unwrap();
    assert_eq!(all("u").await, before);
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().thread, thread("u"));
    let gone = store.thread(&tenant(), &thread("t")).await.unwrap_err();
    assert_eq!(gone.to_string(), "there is no thread \"t\"");
}

async fn what_is_pushed_follows_the_table(home: Home) {
    let store = &home.store;
    store.create_thread(&tenant(), new_thread("t", 0)).await.unwrap();
    let question = entry("Waiting", json!({"kind": "user_input", "deadline": 12.5, "correlation_id": "1"}));
    let answer = entry("UserResponse", json!({"text": "yes"}));
    let said =
        [user("hi"), assistant("looking"), call("1"), call("2"), question, answer.clone(), result("2")];
    for (n, entry) in (1..).zip(said.clone()) {
        let index = store.push(&tenant(), &thread("t"), None, numbered(n, entry)).await;
        assert_eq!(index, Ok(i64::from(n) - 1));
    }
    let before = dump(store).await;
    for (refused, why) in [
        (user("x"), "UserMessage cannot stand here: call \"1\" is still open; expected a result for \"1\""),
        (result("2"), "ToolResult cannot stand here: call \"2\" is not open; expected a result for \"1\""),
        (call("1"), "ToolCall cannot stand here: call \"1\" is already open; expected a result for \"1\""),
        (answer, "UserResponse cannot stand here: nothing was asked; expected a result for \"1\""),
    ] {
        let error = store.push(&tenant(), &thread("t"), None, numbered(99, refused)).await.unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    assert_eq!(dump(store).await, before);

    assert_eq!(store.push(&tenant(), &thread("t"), None, numbered(8, result("1"))).await, Ok(7));
    let placed = |(n, entry): (u32, Entry)| {
        let new = numbered(n, entry);
        PlacedEntry { index: i64::from(n) - 1, id: new.id, at: new.at, run: None, entry: new.entry }
    };
    let expected: Vec<_> = (1..).zip(said.into_iter().chain([result("1")])).map(placed).collect();
    assert_eq!(store.entries(&tenant(), &thread("t"), None, Slice::default()).await, Ok(expected));
    let nowhere = store.push(&tenant(), &thread("t"), Some(&branch("b")), numbered(9, user("x"))).await;
    assert_eq!(nowhere.unwrap_err().to_string(), "there is no branch \"b\"");
}

async fn a_call_id_is_used_once_on_a_branch(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 1).await;
    store.fork(&tenant(), &t, None, &ForkAt::Head, branch("before"), at(1)).await.unwrap();
    store.push(&tenant(), &t, None, numbered(2, call("1"))).await.unwrap();
    store.push(&tenant(), &t, None, numbered(3, result("1"))).await.unwrap();
    push_many(store, "t", "main", 4, 40).await;

    let error = store.push(&tenant(), &t, None, numbered(50, call("1"))).await.unwrap_err();
    let why = "ToolCall cannot stand here: id \"1\" was used before on this branch; expected a new id";
    assert_eq!(error.to_string(), why, "however long ago");
    let other = store.push(&tenant(), &t, Some(&branch("before")), numbered(50, call("1"))).await;
    assert_eq!(other, Ok(1), "on a branch that does not hold it, it is new");
}

async fn an_agent_call_without_an_id_gets_its_entrys(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 1).await;
    let asked = entry("AgentCall", json!({"agent_id": "a", "message": "m"}));
    store.push(&tenant(), &t, None, numbered(2, asked)).await.unwrap();
    let id = entry_id(2).to_string();
    let placed = store.entries(&tenant(), &t, None, Slice { last_n: Some(1), before: None }).await.unwrap();
    let call = AgentCall { agent_id: "a".into(), message: "m".into(), correlation_id: Some(id.clone()) };
    assert_eq!(placed.into_iter().map(|p| p.entry).collect::<Vec<_>>(), [Entry::AgentCall(call)]);

    let again = entry("AgentCall", json!({"agent_id": "a", "message": "m", "correlation_id": id}));
    let error = store.push(&tenant(), &t, None, numbered(3, again)).await.unwrap_err();
    assert!(error.to_string().contains("is already open"), "{error}");
    let answered = entry("AgentResult", json!({"correlation_id": id, "result": "r"}));
    assert_eq!(store.push(&tenant(), &t, None, numbered(4, answered)).await, Ok(2));
}

async fn nothing_follows_the_end_of_a_conversation(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 2).await;
    store.push(&tenant(), &t, None, numbered(3, Entry::Finished)).await.unwrap();
    let error = store.push(&tenant(), &t, None, numbered(4, user("wait"))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "UserMessage cannot stand here: the conversation is finished; expected nothing: fork before the Finished entry to go on"
    );
    let finished = Tail { finished: true, ..Tail::default() };
    let end = BranchEnd { head: 2, tail: finished, ..BranchEnd::without_entries(branch("main")) };
    assert_eq!(store.end(&tenant(), &t, None).await, Ok(end));
    store.fork(&tenant(), &t, None, &ForkAt::Index(1), branch("on"), at(9)).await.unwrap();
    assert_eq!(store.push(&tenant(), &t, Some(&branch("on")), numbered(5, user("more"))).await, Ok(2));
}

async fn anything_that_can_be_said_comes_back_as_it_was(home: Home) {
    let store = &home.store;
    let t = thread("t");
    store.create_thread(&tenant(), new_thread("t", 0)).await.unwrap();
    let long: String = (0..4000).map(|n| char::from_u32(0x4e00 + n % 5000).unwrap()).collect();
    let said = [
        user("\u{0} \u{1b}[31m \u{202e} \"quoted\" \\ \n"),
        user(&"x".repeat(200_000)),
        assistant(&long),
        Entry::from_parts("my.Note", 7, json!({"deep": [[[{"n": -0.5, "big": u64::MAX}]]]})).unwrap(),
        entry("Summary", json!({"text": "s", "up_to": 2})),
    ];
    for (n, entry) in (1..).zip(said.clone()) {
        store.push(&tenant(), &t, None, numbered(n, entry)).await.unwrap();
    }
    let read = store.entries(&tenant(), &t, None, Slice::default()).await.unwrap();
    assert_eq!(read.into_iter().map(|placed| placed.entry).collect::<Vec<_>>(), said);
}

async fn a_slice_is_cut_from_the_end_across_lanes(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 6).await; // 0 to 5
    store.fork(&tenant(), &t, None, &ForkAt::Index(2), branch("b"), at(9)).await.unwrap();
    push_many(store, "t", "b", 103, 2).await; // 3 and 4 on a lane of its own
    store.fork(&tenant(), &t, Some(&branch("b")), &ForkAt::Index(3), branch("c"), at(9)).await.unwrap();
    push_many(store, "t", "c", 204, 2).await; // 4 and 5 on a third
    let ids = async |before, last_n| {
        let slice = Slice { before, last_n };
        let read = store.entries(&tenant(), &t, Some(&branch("c")), slice).await.unwrap();
        read.into_iter().map(|placed| (placed.index, placed.id.0.as_u128())).collect::<Vec<_>>()
    };
    let all = [(0, 1), (1, 2), (2, 3), (3, 103), (4, 204), (5, 205)];
    for (before, last_n, expected) in [
        (None, None, &all[..]),
        (None, Some(0), &[]),
        (None, Some(1), &all[5..]),
        (None, Some(3), &all[3..]),
        (None, Some(4), &all[2..]),
        (None, Some(6), &all[..]),
        (None, Some(u32::MAX), &all[..]),
        (Some(5), None, &all[..5]),
        (Some(4), Some(2), &all[2..4]),
        (Some(3), Some(1), &all[2..3]),
        (Some(1), None, &all[..1]),
        (Some(0), None, &[]),
        (Some(-3), Some(5), &[]),
        (Some(i64::MIN), Some(5), &[]),
        (Some(i64::MAX), Some(2), &all[4..]),
    ] {
        assert_eq!(ids(before, last_n).await, expected, "before {before:?}, last {last_n:?}");
    }
}

async fn a_branch_in_use_takes_no_push_and_shows_where_its_run_is(home: Home) {
    let store = &home.store;
    let t = thread("t");
    let owner = store.enlist().unwrap();
    talk(store, "t", 3).await;
    store.fork(&tenant(), &t, None, &ForkAt::Index(0), branch("b"), at(9)).await.unwrap();
    let mut pen = Pen::start(store, owner.id, 1, ("t", "b")).await;
    pen.commit(store, pen.next(vec![assistant("so far"), call("1")], vec![])).await.unwrap();

    let busy = StoreError::Busy { branch: "b".to_owned(), run: run(1) };
    assert_eq!(store.push(&tenant(), &t, Some(&branch("b")), numbered(9, user("x"))).await, Err(busy));
    let shown = |name: &str, lane, index, from: Option<i64>, run| BranchView {
        name: branch(name),
        head: Place { lane, index },
        forked_from: from.map(|index| (branch("main"), index)),
        run,
    };
    let view = store.thread(&tenant(), &t).await.unwrap();
    assert_eq!(view.branches, [shown("b", 1, 3, Some(0), Some(run(1))), shown("main", 0, 2, None, None)]);
    let end = store.end(&tenant(), &t, Some(&branch("b"))).await.unwrap();
    assert_eq!((end.head, end.tail), (3, Tail::of(&[call("1")])));

    pen.commit(store, pen.next(vec![result("1")], vec![])).await.unwrap();
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let view = store.thread(&tenant(), &t).await.unwrap();
    assert_eq!(view.branches[0], shown("b", 1, 5, Some(0), None));
    let written_by = async |on: &str| store.end(&tenant(), &t, Some(&branch(on))).await.unwrap().written_by;
    assert_eq!([written_by("b").await, written_by("main").await], [Some(run(1)), None]);
    assert_eq!(store.push(&tenant(), &t, Some(&branch("b")), numbered(9, user("x"))).await, Ok(6));
    assert_eq!(written_by("b").await, None);
}

async fn the_end_of_a_branch_says_which_lane_it_may_extend(home: Home) {
    let store = &home.store;
    let t = thread("t");
    let lane = async |on: &str| store.end(&tenant(), &t, Some(&branch(on))).await.unwrap().lane;
    let owner = store.enlist().unwrap();
    talk(store, "t", 4).await;
    store.fork(&tenant(), &t, None, &ForkAt::Head, branch("b"), at(9)).await.unwrap();
    assert_eq!((lane("main").await, lane("b").await), (Some(0), None), "a fork opens a lane of its own");
    push_many(store, "t", "b", 100, 1).await;
    assert_eq!((lane("main").await, lane("b").await), (Some(0), Some(1)));
    store.rewind(&tenant(), &t, None, 2).await.unwrap();
    store.rewind(&tenant(), &t, Some(&branch("b")), 3).await.unwrap();
    assert_eq!((lane("main").await, lane("b").await), (None, None), "never over what was there");
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    assert_eq!((pen.lane, lane("main").await), (2, Some(2)), "it is where its run writes");
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!((lane("main").await, lane("b").await), (Some(2), None));
    store.delete_branch(&tenant(), &t, &branch("b")).await.unwrap();
    store.fork(&tenant(), &t, None, &ForkAt::Index(2), branch("b"), at(9)).await.unwrap();
    store.prune(&tenant(), &t, &Default::default()).await.unwrap();
    assert_eq!(lane("b").await, None, "at the tip of a lane that another branch opened");
}

async fn however_many_calls_are_open_the_end_of_a_branch_knows_them(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 2).await;
    let calls: Vec<_> = (0..40).map(|n| call(&n.to_string())).collect();
    for (n, entry) in (10..).zip(&calls[..3]) {
        store.push(&tenant(), &t, None, numbered(n, entry.clone())).await.unwrap();
    }
    store.fork(&tenant(), &t, None, &ForkAt::Head, branch("b"), at(9)).await.unwrap();
    for open in [3, 4, 5, 32, 33, 40] {
        let head = store.end(&tenant(), &t, Some(&branch("b"))).await.unwrap().head;
        for (n, entry) in (20 + head as u32..).zip(&calls[head as usize - 1..open]) {
            store.push(&tenant(), &t, Some(&branch("b")), numbered(n, entry.clone())).await.unwrap();
        }
        let tail = Tail::of(&calls[..open]);
        let lane = (open > 3).then_some(1);
        let end = BranchEnd { head: open as i64 + 1, tail, lane, ..BranchEnd::without_entries(branch("b")) };
        assert_eq!(store.end(&tenant(), &t, Some(&branch("b"))).await, Ok(end), "{open} calls");
    }
}

/// The branch went on and was rewound before the run began: its lane holds more than the branch.
async fn what_was_said_of_a_lane_does_no_harm_when_it_is_no_longer_true(home: Home) {
    let store = &home.store;
    let t = thread("t");
    let owner = store.enlist().unwrap();
    talk(store, "t", 4).await;
    for (n, entries) in [(1, vec![user("go")]), (2, vec![])] {
        let end = store.end(&tenant(), &t, None).await.unwrap();
        store.push(&tenant(), &t, None, numbered(90 + n, user("meanwhile"))).await.unwrap();
        store.rewind(&tenant(), &t, None, end.head).await.unwrap();
        let mut pen = Pen::for_new(store, n.into(), ("t", "main")).await;
        let new = NewRun { lane: end.lane, ..pen.new_run(owner.id) };
        let first = pen.next(entries, vec![]);
        pen.lane = store.start(&tenant(), new, first.clone()).await.unwrap();
        assert_eq!((end.lane, pen.lane), (Some(n - 1), n), "it opens a lane of its own");
        pen.written(&first);
        pen.commit(store, pen.says("on")).await.unwrap();
        pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    }
    let ids: Vec<_> = store.entries(&tenant(), &t, None, Slice::default()).await.unwrap();
    assert_eq!(ids.iter().map(|placed| placed.index).collect::<Vec<_>>(), (0..=8).collect::<Vec<_>>());
}
