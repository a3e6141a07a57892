//! Idempotency keys: work that was begun under a key is begun only once.

use baton_core::id::{OwnerId, Tenant};
use baton_core::run::RunStatus;
use baton_store::{KeyRow, NewKey, NewRun, Store, StoreError};
use uuid::Uuid;

use super::{led_to, new_key, theirs};
use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{at, run, talk, tenant, user, warning};

on_every_store!(
    a_key_is_begun_once,
    a_key_is_forgotten_when_it_expires,
    only_its_owner_answers_a_key_and_others_take_over_by_name,
    a_start_under_a_used_key_writes_nothing,
    a_start_under_the_key_of_its_own_run_was_done_and_not_told,
    a_start_under_a_key_that_has_expired_is_a_new_one,
    of_many_starts_under_one_key_one_is_made,
);

const ROUTE: &str = "/v1/runs";

fn owner(n: u128) -> OwnerId {
    OwnerId(Uuid::from_u128(n))
}

async fn known(store: &Store, tenant: &Tenant, key: &str, ms: u64) -> Option<KeyRow> {
    store.key(tenant, ROUTE, key, at(ms)).await.unwrap()
}

async fn a_key_is_begun_once(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    assert_eq!(known(store, &tenant(), "k", 0).await, None);
    let begin = async |store: &Store, tenant: &Tenant, new: &NewKey, n: u128| {
        store.begin_key(tenant, new, Some(run(n)), None, at(1)).await.unwrap()
    };
    assert_eq!(begin(store, &tenant(), &new_key("k", 100), 1).await, None);
    let other_body = NewKey { body_hash: "other".to_owned(), ..new_key("k", 900) };
    let first = Some(led_to("k", run(1)));
    assert_eq!(begin(&elsewhere, &tenant(), &other_body, 2).await, first);
    assert_eq!(known(&elsewhere, &tenant(), "k", 99).await, first, "and nothing changed");

    let other_route = NewKey { route: "/process".to_owned(), ..new_key("k", 100) };
    assert_eq!(begin(store, &tenant(), &other_route, 3).await, None);
    assert_eq!(begin(store, &theirs(), &new_key("k", 100), 4).await, None);
    assert_eq!(known(store, &tenant(), "k", 99).await, first);
    assert_eq!(known(store, &theirs(), "k", 99).await, Some(led_to("k", run(4))));
    let by_route = store.key(&tenant(), "/process", "k", at(99)).await.unwrap();
    assert_eq!(by_route, Some(led_to("k", run(3))));
}

async fn a_key_is_forgotten_when_it_expires(home: Home) {
    let store = &home.store;
    store.begin_key(&tenant(), &new_key("k", 100), None, Some(owner(1)), at(0)).await.unwrap();
    store.answer_key(&tenant(), ROUTE, "k", owner(1), b"old".to_vec()).await.unwrap();
    assert!(known(store, &tenant(), "k", 99).await.is_some());
    assert_eq!(known(store, &tenant(), "k", 100).await, None);
    let again = store.begin_key(&tenant(), &new_key("k", 200), Some(run(2)), None, at(100)).await;
    assert_eq!(again, Ok(None));
    assert_eq!(known(store, &tenant(), "k", 100).await, Some(led_to("k", run(2))), "nothing old is left");
}

async fn only_its_owner_answers_a_key_and_others_take_over_by_name(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let row = |n, answer: Option<&[u8]>| {
        let (body_hash, answer) = ("hash of k".to_owned(), answer.map(<[u8]>::to_vec));
        Some(KeyRow { body_hash, run: None, owner: Some(owner(n)), answer })
    };
    store.begin_key(&tenant(), &new_key("k", 100), None, Some(owner(1)), at(0)).await.unwrap();
    store.answer_key(&tenant(), ROUTE, "k", owner(2), b"no".to_vec()).await.unwrap();
    assert_eq!(known(store, &tenant(), "k", 1).await, row(1, None), "it is not theirs to answer");
    let retake =
        async |from, to| elsewhere.retake_key(&tenant(), ROUTE, "k", owner(from), owner(to)).await.unwrap();
    assert_eq!((retake(2, 3).await, retake(1, 2).await, retake(1, 3).await), (false, true, false));
    store.answer_key(&tenant(), ROUTE, "k", owner(1), b"late".to_vec()).await.unwrap();
    assert_eq!(known(store, &tenant(), "k", 1).await, row(2, None), "it was taken from them");
    store.answer_key(&tenant(), ROUTE, "k", owner(2), b"\0yes".to_vec()).await.unwrap();
    store.answer_key(&tenant(), ROUTE, "k", owner(2), b"again".to_vec()).await.unwrap();
    assert_eq!(known(store, &tenant(), "k", 1).await, row(2, Some(b"\0yes")), "the first answer counts");
    assert!(!retake(2, 3).await, "nothing is left to do");
    assert!(!elsewhere.retake_key(&tenant(), ROUTE, "nil", owner(1), owner(2)).await.unwrap());
}

async fn start(store: &Store, n: u128, on: &str, key: NewKey, ms: u64) -> Result<Pen, StoreError> {
    let owner = owner(9);
    let mut pen = Pen::for_new(store, n, (on, "main")).await;
    let first = pen.next(vec![user("go")], vec![warning("begun")]);
    let new = NewRun { key: Some(key), at: at(ms), ..pen.new_run(owner) };
    pen.lane = store.start(&tenant(), new, first.clone()).await?;
    pen.written(&first);
    Ok(pen)
}

async fn a_start_under_a_used_key_writes_nothing(home: Home) {
    let store = &home.store;
    talk(store, "a", 1).await;
    talk(store, "b", 1).await;
    let mut pen = start(store, 1, "a", new_key("k", 100), 5).await.unwrap();
    assert_eq!(known(store, &tenant(), "k", 6).await, Some(led_to("k", run(1))));
    let before = dump(store).await;
    let used = StoreError::KeyUsed(Box::new(led_to("k", run(1))));
    assert_eq!(start(store, 2, "b", new_key("k", 900), 99).await.unwrap_err(), used);
    assert_eq!(start(store, 2, "a", new_key("k", 900), 99).await.unwrap_err(), used, "rather than busy");
    assert_eq!((dump(store).await, known(store, &tenant(), "k", 100).await), (before, None));
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(start(store, 2, "b", new_key("k", 900), 99).await.unwrap_err(), used, "also when it is over");
}

async fn a_start_under_a_key_that_has_expired_is_a_new_one(home: Home) {
    let store = &home.store;
    talk(store, "a", 1).await;
    talk(store, "b", 1).await;
    start(store, 1, "a", new_key("k", 100), 5).await.unwrap();
    let busy = StoreError::Busy { branch: "main".to_owned(), run: run(1) };
    assert_eq!(start(store, 2, "a", new_key("new", 900), 5).await.unwrap_err(), busy);
    assert_eq!(known(store, &tenant(), "new", 6).await, None, "a start that is refused leaves no key");
    start(store, 2, "b", new_key("k", 900), 100).await.unwrap();
    assert_eq!(known(store, &tenant(), "k", 101).await, Some(led_to("k", run(2))));
}

async fn of_many_starts_under_one_key_one_is_made(home: Home) {
    let stores = [home.store.clone(), home.elsewhere()];
    let mut starts = Vec::new();
    for n in 1..=16_u128 {
        let on = format!("t{n}");
        talk(&home.store, &on, 1).await;
        let store = stores[n as usize % 2].clone();
        starts.push(tokio::spawn(async move { start(&store, n, &on, new_key("k", 100), 5).await }));
    }
    let (mut made, mut refused) = (Vec::new(), Vec::new());
    for start in starts {
        match start.await.unwrap() {
            Ok(pen) => made.push(pen.run),
            Err(error) => refused.push(error),
        }
    }
    assert_eq!((made.len(), refused.len()), (1, 15));
    let used = StoreError::KeyUsed(Box::new(led_to("k", made[0])));
    assert!(refused.iter().all(|error| *error == used), "{refused:?}");
    let runs = dump(&home.store).await.runs;
    assert_eq!(runs.iter().map(|run| run.row.id).collect::<Vec<_>>(), made);
}

async fn a_start_under_the_key_of_its_own_run_was_done_and_not_told(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    store.begin_key(&tenant(), &new_key("k", 100), Some(run(1)), None, at(1)).await.unwrap();
    let pen = Pen::for_new(store, 1, ("t", "main")).await;
    let first = pen.next(vec![user("go")], vec![]);
    let before = dump(store).await;
    let exists = StoreError::Exists { what: "run", id: run(1).to_string() };
    for lane in [None, Some(0)] {
        let new = NewRun { lane, key: Some(new_key("k", 100)), ..pen.new_run(owner.id) };
        assert_eq!(store.start(&tenant(), new, first.clone()).await, Err(exists.clone()), "{lane:?}");
    }
    assert_eq!(dump(store).await, before);
}
