//! The samples of version 3 of the database: keys, a queued run, outgoing and sealed events, tokens.

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::run::RunStatus;
use baton_store::{AuditRow, KeyRow, NewQueued, Outgoing, QueuedRun, Store, StoreError, Token, Transition};
use uuid::Uuid;

use super::governed;
use crate::pen::Pen;
use crate::service::tokens::token;
use crate::service::waiting::take_turn;
use crate::service::{event, new_key, new_queued, theirs};
use crate::values::{at, input, run, talk, tenant};

const ROUTE: &str = "/v1/runs";
const LINE: (&str, &str) = ("governed", "after");

fn worker() -> OwnerId {
    OwnerId(Uuid::from_u128(77))
}

/// Adds to the data of version 2 every table of a service, with a row in each of its states.
pub(super) async fn fill(store: &Store) {
    governed::fill(store).await;
    let waits = NewQueued { key: Some(new_key("led to a run", 900)), ..new_queued(4, LINE) };
    let waits = NewQueued { text: format!("\0 {}", "long ".repeat(600)), ..waits };
    let waits = NewQueued { capped: vec!["mode".to_owned()], ..waits };
    store.enqueue(&tenant(), waits).await.unwrap();
    store.post(&tenant(), run(4), input("and"), None, at(50)).await.unwrap();
    for key in ["answered", "worked on"] {
        let owner = Some(worker());
        store.begin_key(&tenant(), &new_key(key, 900), None, owner, at(0)).await.unwrap();
    }
    store.answer_key(&tenant(), ROUTE, "answered", worker(), b"\0\xffanswer".to_vec()).await.unwrap();
    talk(store, "served", 1).await;
    let mut pen = Pen::start(store, worker(), 5, ("served", "main")).await;
    let audit = (1..=5).map(|n| event(n, n != 2)).collect();
    pen.commit(store, Transition { audit, ..pen.ends(RunStatus::Ok) }).await.unwrap();
    store.sent(&[3]).await.unwrap();
    assert_eq!(store.seal(4).await, Ok(4));
    store.sent(&[4]).await.unwrap();
    store.receive(&theirs(), event(6, false), Some(new_key("received", 900))).await.unwrap();
    store.add_token(&token("t-1", 1), None).await.unwrap();
    store.add_token(&Token { expires_at: None, agents: vec![], ..token("t-2", 2) }, None).await.unwrap();
}

/// All service data as one value.
#[derive(Debug, PartialEq)]
pub(super) struct Kept {
    keys: Vec<Option<KeyRow>>,
    queued: Result<QueuedRun, StoreError>,
    due: Vec<(Tenant, RunId)>,
    outbox: Vec<Outgoing>,
    pub(super) audit: Vec<AuditRow>,
    tokens: Vec<Token>,
    requires_tokens: bool,
}

pub(super) async fn kept(store: &Store) -> Kept {
    let mut keys = Vec::new();
    for (tenant, key) in [
        (tenant(), "led to a run"),
        (tenant(), "answered"),
        (tenant(), "worked on"),
        (theirs(), "received"),
        (tenant(), "received"),
    ] {
        keys.push(store.key(&tenant, ROUTE, key, at(100)).await.unwrap());
    }
    Kept {
        keys,
        queued: store.queued(&tenant(), run(4)).await,
        due: store.due(at(0)).await.unwrap(),
        outbox: store.outbox(0, 99).await.unwrap(),
        audit: store.audit(None, 0, 99).await.unwrap(),
        tokens: store.tokens().await.unwrap(),
        requires_tokens: store.requires_tokens().await.unwrap(),
    }
}

/// Finishes all pending work.
pub(super) async fn go_on(store: &Store) {
    governed::go_on(store).await;
    let again = store.post(&tenant(), run(4), input("and"), None, at(60)).await;
    assert_eq!(again, Ok(1), "it is known");
    let mut pen = take_turn(store, worker(), 4, LINE).await.unwrap();
    let audit = vec![event(7, true)];
    pen.commit(store, Transition { audit, ..pen.ends(RunStatus::Error) }).await.unwrap();
    assert_eq!(
        store.retake_key(&tenant(), ROUTE, "worked on", worker(), OwnerId(Uuid::nil())).await,
        Ok(true)
    );
    store.sent(&[1]).await.unwrap();
    assert_eq!(store.seal(99).await, Ok(3));
    store.revoke_token("t-1", None).await.unwrap();
}
