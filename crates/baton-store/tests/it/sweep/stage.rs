//! A store in which every write has an effect.

use baton_core::json::sha256_hex;
use baton_core::run::{Choice, RunStatus};
use baton_store::{
    AuditEvent, AuditRow, ClaimMode, DerivedCalls, ForkAt, GcRequest, KeyRow, NewKey, NewThread, Outgoing,
    Owner, PruneRequest, Store, StoreError, Token, TrailSource, Transition,
};
use serde_json::json;

use crate::home::{Dump, Home, dump};
use crate::pen::Pen;
use crate::service::tokens::token;
use crate::service::{event, new_key, new_queued};
use crate::values::{
    approval, at, branch, decision, new_thread, numbered, run, talk, tenant, thread, user, warning,
};

const KEYS: [&str; 3] = ["ours", "theirs", "new"];
const BLOB: &[u8] = b"a long output";

/// Threads `t` with a run that is driven, `u` with one that has ended, `v` with one whose owner died, `w` with one that
/// was claimed from a dead owner, and `gone`, which is past its time to live; keys, tokens and events.
pub(crate) struct Stage {
    pub(crate) store: Store,
    owner: Owner,
    other: Owner,
    /// The run that is driven.
    pen: Pen,
    /// The epoch under which the run on `w` is held.
    epoch: u32,
}

/// All data of a store that a write may change.
#[derive(Debug, PartialEq)]
pub(crate) struct Everything {
    dump: Dump,
    tokens: Vec<Token>,
    requires_tokens: bool,
    remembered: Vec<String>,
    outbox: Vec<Outgoing>,
    trail: Vec<AuditRow>,
    keys: Vec<Option<KeyRow>>,
    blob: Option<Vec<u8>>,
}

impl Stage {
    /// The stage for a write.
    pub(crate) async fn of(home: &Home, write: &str) -> Stage {
        let store = home.store.clone();
        let (owner, other) = (store.enlist().unwrap(), store.enlist().unwrap());
        for id in ["t", "u", "v", "w"] {
            talk(&store, id, 2).await;
        }
        let mortal = NewThread { ttl_at: Some(at(50)), ..new_thread("gone", 0) };
        store.create_thread(&tenant(), mortal).await.unwrap();
        store.fork(&tenant(), &thread("t"), None, &ForkAt::Head, branch("side"), at(9)).await.unwrap();
        let mut pen = Pen::start(&store, owner.id, 1, ("t", "main")).await;
        let asks = Transition {
            asked: vec![approval("ap", pen.run)],
            audit: vec![event(1, true), event(2, true)],
            ..pen.says("may I?")
        };
        pen.commit(&store, asks).await.unwrap();
        let mut ended = Pen::start(&store, owner.id, 2, ("u", "main")).await;
        ended.commit(&store, ended.ends(RunStatus::Ok)).await.unwrap();
        let dead = store.enlist().unwrap();
        for (n, id) in [(3, "v"), (4, "w")] {
            Pen::start(&store, dead.id, n, (id, "main")).await;
        }
        drop(dead);
        let claimed = store.claim(&tenant(), run(4), owner.id, ClaimMode::IfFree, at(9)).await.unwrap();
        assert_eq!(claimed.row.attempts, 1);
        for (key, owner) in [("ours", &owner), ("theirs", &other)] {
            store.begin_key(&tenant(), &new_key(key, 900), None, Some(owner.id), at(1)).await.unwrap();
        }
        store.note_policy("one", event(3, false)).await.unwrap();
        match write {
            "require_tokens" => {}
            "add_calls" => {
                let kind = "agent.completed".to_owned();
                let completed = AuditEvent { kind, payload: json!({"run_id": run(2)}), ..event(5, false) };
                store.tell(&tenant(), completed).await.unwrap();
                store.seal(99).await.unwrap();
            }
            "require_no_tokens" => store.require_tokens().await.unwrap(),
            _ => store.add_token(&token("a", 1), None).await.unwrap(),
        }
        Stage { store, owner, other, pen, epoch: claimed.row.epoch }
    }

    pub(crate) async fn everything(&self) -> Everything {
        let store = &self.store;
        let mut keys = Vec::new();
        for key in KEYS {
            keys.push(store.key(&tenant(), "/v1/runs", key, at(2)).await.unwrap());
        }
        Everything {
            dump: dump(store).await,
            tokens: store.tokens().await.unwrap(),
            requires_tokens: store.requires_tokens().await.unwrap(),
            remembered: store.remembered("").await.unwrap(),
            outbox: store.outbox(0, 99).await.unwrap(),
            trail: store.audit(None, 0, 99).await.unwrap(),
            keys,
            blob: store.blob(&tenant(), &sha256_hex(BLOB)).await.unwrap(),
        }
    }

    /// Makes a write, on this store or on another one over it. A retry is the same write, with the same ids.
    pub(crate) async fn make(&self, store: &Store, write: &str) -> Result<(), StoreError> {
        match write {
            "claim" | "commit" | "decide" | "enqueue" | "forgive" | "release" | "start" | "watch"
            | "watch_all" => self.make_of_run(store, write).await,
            "answer_call" | "begin_key" | "retake_key" => self.make_of_key(store, write).await,
            "add_calls" | "add_token" | "collect" | "note_policy" | "put_blob" | "receive" | "remember"
            | "require_no_tokens" | "require_tokens" | "revoke_token" | "seal" | "sent" | "tell"
            | "trim_outbox" => self.make_of_service(store, write).await,
            _ => self.make_of_thread(store, write).await,
        }
    }

    async fn make_of_run(&self, store: &Store, write: &str) -> Result<(), StoreError> {
        let (tenant, pen) = (tenant(), &self.pen);
        match write {
            "claim" => store.claim(&tenant, run(3), self.owner.id, ClaimMode::IfFree, at(9)).await.map(drop),
            "commit" => store.commit(&tenant, &pen.says("more")).await,
            "decide" => {
                let decided = decision("ap", Choice::Approve, None);
                store.decide(&tenant, pen.run, decided, None, at(30), Some(told())).await.map(drop)
            }
            "enqueue" => store.enqueue(&tenant, new_queued(5, ("t", "main"))).await,
            "forgive" => store.forgive(&tenant, run(4), self.epoch).await,
            "release" => store.release(&tenant, pen.run, pen.epoch).await,
            "start" => {
                let mut pen = Pen { branch: branch("side"), run: run(6), step: 0, seq: 0, ..pen.clone() };
                pen.head = 1;
                let first = pen.next(vec![user("go")], vec![warning("begun")]);
                store.start(&tenant, pen.new_run(self.owner.id), first).await.map(drop)
            }
            "watch" => store.watch(&tenant, pen.run, at(500)).await,
            _ => store.watch_all(&[(tenant, pen.run)], at(500)).await,
        }
    }

    async fn make_of_key(&self, store: &Store, write: &str) -> Result<(), StoreError> {
        let (tenant, route, owner) = (tenant(), "/v1/runs", self.owner.id);
        match write {
            "answer_call" => {
                store.answer_call(&tenant, route, "ours", owner, b"done".to_vec(), Some(told())).await
            }
            "begin_key" => {
                store.begin_key(&tenant, &new_key("new", 900), Some(run(1)), None, at(1)).await.map(drop)
            }
            _ => store.retake_key(&tenant, route, "theirs", self.other.id, owner).await.map(drop),
        }
    }

    async fn make_of_service(&self, store: &Store, write: &str) -> Result<(), StoreError> {
        let sent =
            || async { self.store.outbox(0, 99).await.map(|all| all.into_iter().map(|it| it.n).collect()) };
        match write {
            "add_calls" => {
                let page = self.store.rested_runs(99).await?;
                let derived = DerivedCalls { events: vec![(tenant(), told())], told: Vec::new() };
                store.add_calls(&page, derived).await.map(drop)
            }
            "add_token" => store.add_token(&token("new", 2), Some(told())).await,
            "collect" => {
                let request =
                    GcRequest { now: at(60), runs_before: None, blobs_before: None, dry_run: false };
                let trail = TrailSource { source: "baton".into(), by: "test".into(), send: true };
                store.collect(&request, Some(&trail)).await.map(drop)
            }
            "note_policy" => store.note_policy("two", told()).await.map(drop),
            "put_blob" => store.put_blob(&tenant(), &sha256_hex(BLOB), BLOB.to_vec(), at(9)).await,
            "receive" => {
                let key = NewKey { body_hash: "of the event".to_owned(), ..new_key("new", 900) };
                store.receive(&tenant(), event(9, false), Some(key)).await.map(drop)
            }
            "remember" => store.remember("a name").await,
            "require_no_tokens" => store.require_no_tokens(None).await.map(drop),
            "require_tokens" => store.require_tokens().await,
            "revoke_token" => store.revoke_token("a", Some((tenant(), told()))).await,
            "seal" => store.seal(99).await.map(drop),
            "sent" => {
                let numbers: Vec<i64> = sent().await?;
                store.sent(&numbers).await
            }
            "tell" => store.tell(&tenant(), told()).await,
            _ => store.trim_outbox(at(3), 1 << 20, at(70)).await.map(drop),
        }
    }

    async fn make_of_thread(&self, store: &Store, write: &str) -> Result<(), StoreError> {
        let (tenant, [t, u]) = (tenant(), ["t", "u"].map(thread));
        match write {
            "checkout" => store.checkout(&tenant, &t, &branch("side")).await,
            "create_thread" => store.create_thread(&tenant, new_thread("new", 5)).await,
            "delete_branch" => store.delete_branch(&tenant, &t, &branch("side")).await,
            "delete_thread" => store.delete_thread(&tenant, &u, Some(told())).await,
            "distrust" => store.distrust(&tenant, &t).await,
            "fork" => store.fork(&tenant, &t, None, &ForkAt::Index(0), branch("new"), at(9)).await.map(drop),
            "prune" => {
                let request =
                    PruneRequest { idle_before: Some(at(99)), keep: vec![branch("main")], dry_run: false };
                store.prune(&tenant, &t, &request).await.map(drop)
            }
            "push" => store.push(&tenant, &u, None, numbered(77, user("pushed"))).await.map(drop),
            "rename_thread" => store.rename_thread(&tenant, &u, &thread("renamed")).await,
            "rewind" => store.rewind(&tenant, &u, None, 0).await.map(drop),
            other => panic!("there is no {other} here: add one, so that its failures are tried"),
        }
    }
}

/// The audit event that is recorded with a write.
fn told() -> AuditEvent {
    event(4, true)
}
