use baton_core::fault::*;
use baton_core::id::*;
use baton_core::policy::*;
use baton_engine::*;
use baton_store::Store;
use baton_tools::*;
use std::sync::Arc;

#[tokio::test]
async fn smoke() {
    let tools = Registry::new(vec![testing::test_effect()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ledger");
    let script = serde_json::json!({"v":1,"replies":[
        {"do":[{"text":"looking now"},{"call":{"name":"test_effect","arguments":{"file":file,"line":"x","class":"unsafe"}}}]},
        {"do":[{"text":"done: {last_result}"}]}]}).to_string();
    let model: Arc<dyn baton_model::Model> = Arc::new(baton_model::Scripted::parse(&script).unwrap());
    for store in [Store::memory(), Store::Sqlite(baton_store::SqliteStore::open(dir.path()).unwrap().store)] {
        let m = model.clone();
        let engine = Engine::new(Parts {
            store,
            tools: tools.clone(),
            models: Arc::new(move |_| Ok::<_, Fault>(m.clone())),
            policy: Policy { rules: vec![], otherwise: default_decision() },
            clock: Arc::new(SystemClock),
            settings: Settings { reload: true, ..Settings::default() },
        })
        .unwrap();
        let mut handle = engine.start(RunRequest::new("hi", "scripted")).await.unwrap();
        let mut reader = engine.events(handle.tenant(), handle.run, Cursor::default()).await.unwrap();
        while let Some(seen) = reader.next().await.unwrap() {
            println!("{seen:?}");
        }
        println!("{:?}", handle.rested().await);
        let view = engine.view(handle.tenant(), handle.run).await.unwrap();
        println!("{view:#?}");
        for e in
            engine.store().entries(&Tenant::local(), &handle.thread, None, Default::default()).await.unwrap()
        {
            println!("{e:?}");
        }
        engine.shutdown().await;
    }
    println!("{}", std::fs::read_to_string(&file).unwrap());
}
