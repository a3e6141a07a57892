//! Messages to a run, and decisions about its calls.

use baton_core::run::{Approval, ApprovalStatus, Choice, Message, RunStatus};
use baton_store::{Posted, Pulse, Store, StoreError, Transition};
use serde_json::json;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{approval, at, decision, input, run, talk, tenant};

on_every_store!(
    messages_are_numbered_from_one,
    an_input_is_posted_once,
    of_many_who_post_the_same_input_one_does,
    what_was_not_read_is_not_written_over,
    a_run_that_has_ended_takes_no_messages,
    the_first_decision_wins,
    an_edit_puts_other_arguments_in_their_place,
    what_came_of_a_call_leaves_its_arguments_as_they_are,
    a_decision_is_about_a_call_of_its_own_run,
    only_what_is_still_pending_expires,
    approvals_are_listed_newest_first,
    an_owner_feels_the_pulse_of_its_runs,
    many_runs_are_watched_in_one_go,
);

async fn started(store: &Store) -> (baton_store::Owner, Pen) {
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    (owner, pen)
}

async fn post(store: &Store, message: Message) -> Result<u32, StoreError> {
    store.post(&tenant(), run(1), message, Some("ann".to_owned()), at(40)).await
}

async fn messages_are_numbered_from_one(home: Home) {
    let store = &home.store;
    let (_owner, pen) = started(store).await;
    let messages = [input("a"), Message::Cancel, input("\u{0}b")];
    for (n, message) in (1..).zip(&messages) {
        assert_eq!(post(store, message.clone()).await, Ok(n));
    }
    let posted: Vec<Posted> = (1..).zip(messages).map(|(n, message)| Posted { n, message }).collect();
    for after in 0..=3 {
        let rest = posted[after as usize..].to_vec();
        assert_eq!(store.inbox(&tenant(), pen.run, after).await, Ok(rest), "after {after}");
    }
    assert_eq!(store.run(&tenant(), pen.run).await.unwrap().inbox, 3);
}

async fn an_input_is_posted_once(home: Home) {
    let store = &home.store;
    let (owner, mut pen) = started(store).await;
    talk(store, "u", 1).await;
    let other = Pen::start(store, owner.id, 2, ("u", "main")).await;
    assert_eq!(post(store, input("a")).await, Ok(1));
    assert_eq!(post(store, input("b")).await, Ok(2));
    let before = dump(store).await;
    assert_eq!(post(store, input("a")).await, Ok(1));
    let reworded = Message::Input { input_id: "in-b".to_owned(), text: "other words".to_owned() };
    assert_eq!(post(&home.elsewhere(), reworded).await, Ok(2), "what counts is its id");
    assert_eq!(dump(store).await, before);
    for n in [3, 4] {
        assert_eq!(post(store, Message::Cancel).await, Ok(n), "only inputs have one");
    }
    let elsewhere = store.post(&tenant(), other.run, input("a"), None, at(40)).await;
    assert_eq!(elsewhere, Ok(1), "another run has an inbox of its own");
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(post(store, input("b")).await, Ok(2), "it was posted in time");
    let ended = StoreError::Ended { run: run(1), status: RunStatus::Ok };
    assert_eq!(post(store, input("c")).await, Err(ended));
}

async fn of_many_who_post_the_same_input_one_does(home: Home) {
    let stores = [home.store.clone(), home.elsewhere()];
    let (_owner, pen) = started(&home.store).await;
    let posts = (0..16).map(|n| {
        let store = stores[n % 2].clone();
        tokio::spawn(async move { post(&store, input("a")).await })
    });
    for posted in posts.collect::<Vec<_>>() {
        assert_eq!(posted.await.unwrap(), Ok(1));
    }
    let message = input("a");
    assert_eq!(home.store.inbox(&tenant(), pen.run, 0).await, Ok(vec![Posted { n: 1, message }]));
    assert_eq!(post(&home.store, input("b")).await, Ok(2), "and no number is lost");
}

async fn what_was_not_read_is_not_written_over(home: Home) {
    let store = &home.store;
    let (_owner, mut pen) = started(store).await;
    let reading = |pen: &Pen, n| Transition { inbox: Some(n), ..pen.says("next") };
    pen.commit(store, reading(&pen, 0)).await.unwrap();
    post(store, input("wait")).await.unwrap();
    post(store, input("stop")).await.unwrap();
    let before = dump(store).await;
    for n in [0, 1] {
        let refused = store.commit(&tenant(), &reading(&pen, n)).await;
        assert_eq!(refused, Err(StoreError::Unread { inbox: 2 }));
    }
    let ahead = store.commit(&tenant(), &reading(&pen, 3)).await;
    assert_eq!(ahead, Err(StoreError::Unread { inbox: 2 }), "nor what was never posted");
    let lost = Transition { epoch: 7, ..reading(&pen, 0) };
    let refused = store.commit(&tenant(), &lost).await;
    assert_eq!(refused, Err(StoreError::Fenced { run: pen.run, epoch: 1 }), "a lost run is the worse news");
    assert_eq!(dump(store).await, before);

    pen.commit(store, pen.says("whatever was posted")).await.unwrap();
    pen.commit(store, reading(&pen, 2)).await.unwrap();
    assert_eq!(store.run(&tenant(), pen.run).await.unwrap().step, 4);
}

async fn a_run_that_has_ended_takes_no_messages(home: Home) {
    let store = &home.store;
    let (_owner, mut pen) = started(store).await;
    let asked = vec![approval("ap", pen.run)];
    pen.commit(store, Transition { asked, ..pen.ends(RunStatus::Cancelled) }).await.unwrap();
    let before = dump(store).await;
    let ended = StoreError::Ended { run: pen.run, status: RunStatus::Cancelled };
    for message in [input("hello"), Message::Cancel, decision("ap", Choice::Approve, None)] {
        assert_eq!(post(store, message).await, Err(ended.clone()));
    }
    assert_eq!(dump(store).await, before, "an approval of it stays as it was");
    let nobody = store.post(&tenant(), run(9), input("x"), None, at(1)).await;
    assert_eq!(nobody, Err(StoreError::NotFound { what: "run", id: run(9).to_string() }));
}

async fn the_first_decision_wins(home: Home) {
    let store = &home.store;
    let (_owner, mut pen) = started(store).await;
    let asked = vec![approval("yes", pen.run), approval("no", pen.run)];
    pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
    assert_eq!(post(store, decision("yes", Choice::Approve, None)).await, Ok(1));
    assert_eq!(post(store, decision("no", Choice::Deny, None)).await, Ok(2));
    let decided = |id: &str, status| {
        Ok(Approval { status, by: Some("ann".to_owned()), at: Some(at(40)), ..approval(id, run(1)) })
    };
    assert_eq!(store.approval(&tenant(), "yes").await, decided("yes", ApprovalStatus::Approved));
    assert_eq!(store.approval(&tenant(), "no").await, decided("no", ApprovalStatus::Denied));

    let before = dump(store).await;
    let again = post(store, decision("yes", Choice::Deny, None)).await.unwrap_err();
    assert_eq!(again.to_string(), "approval \"yes\" is already decided: approved");
    let again = post(store, decision("no", Choice::Deny, None)).await.unwrap_err();
    assert_eq!(again, StoreError::AlreadyDecided { id: "no".to_owned(), status: ApprovalStatus::Denied });
    assert_eq!(dump(store).await, before, "and no message is posted");
}

async fn an_edit_puts_other_arguments_in_their_place(home: Home) {
    let store = &home.store;
    let (_owner, mut pen) = started(store).await;
    let asked = vec![approval("ap", pen.run)];
    pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
    let message = decision("ap", Choice::Edit, Some(json!({"path": "b.txt"})));
    assert_eq!(post(store, message.clone()).await, Ok(1));
    let expected = Approval {
        args: json!({"path": "b.txt"}),
        digest: baton_core::json::call_digest("write", &json!({"path": "b.txt"})),
        status: ApprovalStatus::Edited,
        by: Some("ann".to_owned()),
        at: Some(at(40)),
        original_args: Some(approval("ap", run(1)).args),
        ..approval("ap", run(1))
    };
    assert_eq!(store.approval(&tenant(), "ap").await, Ok(expected));
    assert_eq!(store.inbox(&tenant(), run(1), 0).await, Ok(vec![Posted { n: 1, message }]));
}

/// If the question is whether a call happened, an edit holds its outcome: the run gets it, and the approval still shows
/// the arguments that ran.
async fn what_came_of_a_call_leaves_its_arguments_as_they_are(home: Home) {
    let store = &home.store;
    let (_owner, mut pen) = started(store).await;
    let outcome = Approval { kind: baton_core::run::ApprovalKind::Outcome, ..approval("ou", pen.run) };
    let asked = vec![outcome.clone()];
    pen.commit(store, Transition { asked, ..pen.says("did it happen?") }).await.unwrap();
    let message = decision("ou", Choice::Edit, Some(json!({"output": "it did"})));
    assert_eq!(post(store, message.clone()).await, Ok(1));
    let expected =
        Approval { status: ApprovalStatus::Edited, by: Some("ann".to_owned()), at: Some(at(40)), ..outcome };
    assert_eq!(store.approval(&tenant(), "ou").await, Ok(expected));
    assert_eq!(store.inbox(&tenant(), run(1), 0).await, Ok(vec![Posted { n: 1, message }]));
}

async fn a_decision_is_about_a_call_of_its_own_run(home: Home) {
    let store = &home.store;
    let (owner, mut pen) = started(store).await;
    talk(store, "u", 1).await;
    let mut other = Pen::start(store, owner.id, 2, ("u", "main")).await;
    for pen in [&mut pen, &mut other] {
        let asked = vec![approval(&format!("ap-{}", pen.thread), pen.run)];
        pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
    }
    let before = dump(store).await;
    for id in ["ap-u", "ap-x"] {
        let refused = post(store, decision(id, Choice::Approve, None)).await;
        assert_eq!(refused, Err(StoreError::NotFound { what: "approval", id: id.to_owned() }));
    }
    assert_eq!(dump(store).await, before);
}

async fn only_what_is_still_pending_expires(home: Home) {
    let store = &home.store;
    let (_owner, mut pen) = started(store).await;
    let asked = vec![approval("late", pen.run), approval("done", pen.run), approval("open", pen.run)];
    pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
    post(store, decision("done", Choice::Approve, None)).await.unwrap();
    let settled = ["late", "done", "unheard-of"].map(|id| (id.to_owned(), ApprovalStatus::Expired)).to_vec();
    let next = Transition { settled, ..pen.says("time is up") };
    let when = next.checkpoint.at;
    pen.commit(store, next).await.unwrap();
    let status = async |id: &str| {
        let approval = store.approval(&tenant(), id).await.unwrap();
        (approval.status, approval.at)
    };
    assert_eq!(status("late").await, (ApprovalStatus::Expired, Some(when)));
    assert_eq!(status("done").await, (ApprovalStatus::Approved, Some(at(40))));
    assert_eq!(status("open").await, (ApprovalStatus::Pending, None));
    let late = post(store, decision("late", Choice::Approve, None)).await.unwrap_err();
    assert_eq!(late.to_string(), "approval \"late\" is already decided: expired");
}

async fn approvals_are_listed_newest_first(home: Home) {
    let store = &home.store;
    let (_owner, mut pen) = started(store).await;
    let asked = [("a", 30), ("b", 10), ("c", 20), ("d", 20)]
        .map(|(id, ms)| Approval { created: at(ms), ..approval(id, run(1)) })
        .to_vec();
    pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
    post(store, decision("c", Choice::Deny, None)).await.unwrap();
    let page = async |status, after: Option<&'static str>, limit| {
        let found = store.approvals(&tenant(), status, after, limit).await.unwrap();
        found.into_iter().map(|approval| approval.id).collect::<Vec<_>>()
    };
    let list = async |status, limit| page(status, None, limit).await;
    assert_eq!(list(None, 9).await, ["a", "d", "c", "b"]);
    assert_eq!(list(None, 3).await, ["a", "d", "c"]);
    assert_eq!(list(Some(ApprovalStatus::Pending), 9).await, ["a", "d", "b"]);
    assert_eq!(list(Some(ApprovalStatus::Pending), 1).await, ["a"]);
    assert_eq!(list(Some(ApprovalStatus::Denied), 9).await, ["c"]);
    assert_eq!(list(Some(ApprovalStatus::Expired), 9).await, [""; 0]);
    let pending = Some(ApprovalStatus::Pending);
    assert_eq!(page(None, Some("a"), 2).await, ["d", "c"]);
    assert_eq!(page(None, Some("c"), 2).await, ["b"]);
    assert_eq!(page(None, Some("b"), 2).await, [""; 0]);
    assert_eq!(page(pending, Some("c"), 9).await, ["b"], "whatever its own status is");
    assert_eq!(page(pending, Some("a"), 1).await, ["d"]);
    for (whose, id) in [(tenant(), "nil"), (crate::service::theirs(), "a")] {
        let unknown = StoreError::NotFound { what: "approval", id: id.to_owned() };
        assert_eq!(store.approvals(&whose, None, Some(id), 9).await, Err(unknown));
    }
}

async fn an_owner_feels_the_pulse_of_its_runs(home: Home) {
    let store = &home.store;
    let (owner, mut pen) = started(store).await;
    let idle = store.enlist().unwrap();
    let pulse = |inbox, watched_until| Pulse { run: run(1), inbox, watched_until };
    assert_eq!(store.pulses(owner.id).await, Ok(vec![pulse(0, None)]));
    assert_eq!(store.news(owner.id).await, Ok(vec![]), "nobody wrote to it, and nobody watches");
    assert_eq!(store.pulses(idle.id).await, Ok(vec![]));
    post(store, input("hello")).await.unwrap();
    home.elsewhere().watch(&tenant(), run(1), at(77)).await.unwrap();
    assert_eq!(store.pulses(owner.id).await, Ok(vec![pulse(1, Some(at(77)))]));
    assert_eq!(store.news(owner.id).await, Ok(vec![pulse(1, Some(at(77)))]));
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().watched_until, Some(at(77)));
    pen.commit(store, pen.suspends(900)).await.unwrap();
    assert_eq!(store.pulses(owner.id).await, Ok(vec![]), "nobody holds a suspended run");
    let missing = store.watch(&tenant(), run(9), at(1)).await;
    assert_eq!(missing, Err(StoreError::NotFound { what: "run", id: run(9).to_string() }));
}

async fn many_runs_are_watched_in_one_go(home: Home) {
    let store = &home.store;
    let (owner, _pen) = started(store).await;
    for (n, on) in [(2, "u"), (3, "v")] {
        talk(store, on, 1).await;
        Pen::start(store, owner.id, n, (on, "main")).await;
    }
    let watched =
        [(tenant(), run(3)), (tenant(), run(9)), (crate::service::theirs(), run(2)), (tenant(), run(1))];
    assert_eq!(home.elsewhere().watch_all(&watched, at(77)).await, Ok(()));
    let mut pulses = store.pulses(owner.id).await.unwrap();
    pulses.sort_by_key(|pulse| pulse.run);
    let pulse = |n, watched_until| Pulse { run: run(n), inbox: 0, watched_until };
    assert_eq!(pulses, [pulse(1, Some(at(77))), pulse(2, None), pulse(3, Some(at(77)))]);
    let mut news = store.news(owner.id).await.unwrap();
    news.sort_by_key(|pulse| pulse.run);
    assert_eq!(news, [pulse(1, Some(at(77))), pulse(3, Some(at(77)))]);
    assert_eq!(store.watch_all(&[], at(99)).await, Ok(()));
}
