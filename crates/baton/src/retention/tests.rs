use std::sync::Arc;

use baton_core::fault::Fault;
use baton_core::policy::{Policy, default_decision};
use baton_engine::{Parts, Settings};
use baton_model::{Model, Offline};
use baton_store::{NewThread, Store};
use baton_tools::Registry;
use serde_json::json;

use super::*;

const DAY_MS: i64 = 86_400_000;
const NOW: Timestamp = Timestamp(100 * DAY_MS);

fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

fn engine(store: &Store) -> Engine {
    let model: Arc<dyn Model> = Arc::new(Offline::new());
    let parts = Parts {
        store: store.clone(),
        tools: Registry::new(Vec::new()).unwrap(),
        models: Arc::new(move |_| Ok::<_, Fault>(model.clone())),
        renderers: Default::default(),
        policy: Policy::fixed(default_decision()),
        clock: Arc::new(SystemClock),
        settings: Settings::default(),
    };
    Engine::new(parts).unwrap()
}

#[test]
fn what_is_kept_for_ever_is_not_asked_for() {
    let every = Duration::from_secs(3600);
    let asked = |runs, dry_run| request(&Retention { runs, blobs: days(30), every }, NOW, dry_run);
    let (now, blobs_before) = (NOW, Some(Timestamp(70 * DAY_MS)));
    assert_eq!(asked(None, true), GcRequest { now, runs_before: None, blobs_before, dry_run: true });
    let runs_before = Some(Timestamp(9 * DAY_MS));
    assert_eq!(asked(Some(days(91)), false), GcRequest { now, runs_before, blobs_before, dry_run: false });
    let eternity = Retention { runs: Some(Duration::MAX), blobs: days(1), every };
    assert_eq!(request(&eternity, NOW, false).runs_before, Some(Timestamp(NOW.0 - i64::MAX)));
}

#[tokio::test]
async fn of_two_processes_one_throws_away() {
    let store = Store::memory();
    let (one, other) = (engine(&store), engine(&store));
    let past = Timestamp(SystemClock.now().0 - 1);
    let thread =
        |id: &str| NewThread { id: id.parse().unwrap(), at: past, ttl_at: Some(past), meta: json!(null) };
    store.create_thread(&Tenant::local(), thread("a")).await.unwrap();
    let retention = Retention { runs: None, blobs: days(30), every: Duration::from_secs(3600) };
    let gone = Collected { threads: 1, ..Collected::default() };
    assert_eq!(turn(&one, &retention).await.unwrap(), Some(gone));
    store.create_thread(&Tenant::local(), thread("b")).await.unwrap();
    assert_eq!(turn(&other, &retention).await.unwrap(), None, "it was done this hour");
    assert_eq!(turn(&one, &retention).await.unwrap(), None, "by whomever");
    assert!(store.thread(&Tenant::local(), &"b".parse().unwrap()).await.is_ok());
}
