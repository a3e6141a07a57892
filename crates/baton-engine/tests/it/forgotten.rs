//! A store that fails for longer than any retry: a write that was done and reported as failed is not forgotten.

use std::sync::Arc;
use std::time::Duration;

use baton_core::run::RunStatus;
use baton_engine::{EngineError, RunRequest};
use baton_store::{FaultyStore, RunFilter, Store};
use serde_json::json;
use tokio::time::Instant;

use crate::rounds;
use crate::world::{TENANT, World, quick};

#[tokio::test]
async fn a_run_whose_start_or_claim_nobody_was_told_of_ends_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let inner = Store::memory();
    let store = Store::Faulty(Arc::new(FaultyStore::new(inner.clone(), 250, u64::from(std::process::id()))));
    let mut settings = quick();
    settings.store_patience = Duration::ZERO;
    settings.most_attempts = u32::MAX;
    let world = World::on(store, settings, folder);
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "ok"}}}], [{"text": "Done."}]]));
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    let mut untold = 0;
    for n in 0..rounds(100, 1_000) {
        let thread = Some(format!("t{n}").parse().unwrap());
        match engine.start(RunRequest { thread, ..RunRequest::new("go", "m") }).await {
            Ok(_) => {}
            Err(EngineError::Store(error)) if error.is_transient() => untold += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(untold > 0, "the die must strike");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let filter = RunFilter { status: Some(RunStatus::Running), limit: 2_000, ..RunFilter::default() };
        let running = inner.runs(&TENANT, &filter).await.unwrap();
        if running.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "nobody drives {running:#?}");
        tokio::task::yield_now().await;
    }
}
