//! A process that was suspended between the commit of an intent and the call: others may have taken its run meanwhile.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_core::id::{RunId, Tenant};
use baton_core::run::RunStatus;
use baton_core::tool::ToolSpec;
use baton_engine::{Engine, Rested};
use baton_store::{ClaimMode, FaultyStore, Mishap, Store};
use baton_tools::{CallContext, Output, Tool, ToolError};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::check::check;
use crate::world::{NOW, TENANT, World, quick};

/// The change to the run while its first owner is suspended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meanwhile {
    /// The owner counts as dead.
    Buried,
    /// An operator takes the run by its name.
    Taken,
    /// None: it is still the owner's.
    Nothing,
}

/// A world whose first engine is suspended for so long right after the commit that holds the intent of a call.
fn world(tool: &str, meanwhile: Meanwhile, stop: Duration) -> (World, Arc<OnceLock<(Engine, RunId)>>) {
    let (inner, first) = (Store::memory(), Arc::new(OnceLock::<(Engine, RunId)>::new()));
    let faulty = FaultyStore::new(inner.clone(), 0, 0);
    let stopped = first.clone();
    let then = move || {
        let (inner, stopped) = (inner.clone(), stopped.clone());
        let stop: futures_util::future::BoxFuture<'static, ()> = Box::pin(async move {
            tokio::time::advance(stop).await;
            let (engine, run) = stopped.get().unwrap();
            match meanwhile {
                Meanwhile::Nothing => {}
                Meanwhile::Buried => engine.bury(),
                Meanwhile::Taken => {
                    let other = inner.enlist().unwrap();
                    inner.claim(&Tenant::local(), *run, other.id, ClaimMode::Take, NOW).await.unwrap();
                }
            }
        });
        stop
    };
    faulty.plan("commit", 1, Mishap::Then(Arc::new(then)));
    let world = World::on(Store::Faulty(Arc::new(faulty)), quick(), tempfile::tempdir().unwrap());
    let call = json!([{"call": {"name": tool, "arguments": {"do": "ok"}}}]);
    world.script(json!([call, [{"text": "the end"}]]));
    (world, first)
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_may_have_lost_its_run_makes_no_call_that_must_not_be_made_twice() {
    let (short, long) = (Duration::ZERO, Duration::from_secs(1));
    let table = [
        // The numbers of calls: by the first owner, then by the resuming one.
        ("once", Meanwhile::Buried, short, (0, 0), "(unknown)"),
        ("once", Meanwhile::Taken, long, (0, 0), "(unknown)"),
        ("once", Meanwhile::Nothing, long, (1, 1), "\"did\":\"ok\""),
        ("idem", Meanwhile::Taken, long, (1, 1), "\"did\":\"ok\""),
    ];
    for (tool, meanwhile, stop, (by_the_first, by_all), closing) in table {
        let at = format!("{tool} {meanwhile:?} {stop:?}");
        let (world, first) = world(tool, meanwhile, stop);
        let engine = world.engine();
        let mut handle = engine.start(world.request("go")).await.unwrap();
        first.set((engine, handle.run)).unwrap();
        let rested = handle.rested().await;
        assert_eq!(world.ledger.count(tool), by_the_first, "{at}");
        if meanwhile == Meanwhile::Nothing {
            assert_eq!(rested, Rested::Ended(RunStatus::Ok), "{at}");
        } else {
            assert_eq!(rested, Rested::Lost, "{at}");
            let second = world.engine();
            let mut again = second.resume(&TENANT, handle.run, ClaimMode::Take).await.unwrap();
            assert_eq!(again.rested().await, Rested::Ended(RunStatus::Ok), "{at}");
        }
        assert_eq!(world.ledger.count(tool), by_all, "{at}");
        let transcript = world.transcript().await;
        assert!(transcript.iter().any(|line| line.contains(closing)), "{at}: {transcript:#?}");
        check(&world, handle.run, &[]).await.unwrap();
    }
}

/// A tool that asks for its permit when it is about to send, as those of a service do.
struct Careful {
    spec: ToolSpec,
    asked: Arc<AtomicU32>,
    sent: Arc<AtomicU32>,
}

impl Tool for Careful {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, _: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        let (asked, sent) = (self.asked.clone(), self.sent.clone());
        Box::pin(async move {
            asked.fetch_add(1, SeqCst);
            if !context.permit.holds().await {
                return Err(ToolError::before_start("it may not be sent any more"));
            }
            sent.fetch_add(1, SeqCst);
            Ok(Output::Text("done".to_owned()))
        })
    }

    fn asks_permit(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_asks_by_itself_before_it_sends_is_asked_for_by_nobody_else() {
    let ended = Rested::Ended(RunStatus::Ok);
    let (short, long) = (Duration::ZERO, Duration::from_secs(1));
    for (meanwhile, stop, sent, rested) in [
        (Meanwhile::Buried, short, 0, Rested::Lost),
        (Meanwhile::Taken, long, 0, Rested::Lost),
        (Meanwhile::Nothing, long, 1, ended),
    ] {
        let (world, first) = world("careful", meanwhile, stop);
        let counts: [Arc<AtomicU32>; 2] = Default::default();
        let [asked, is_sent] = counts.clone();
        let spec = ToolSpec {
            name: "careful".to_owned(),
            input_schema: json!({"type": "object"}),
            timeout_ms: 60_000,
            ..ToolSpec::default()
        };
        let engine =
            world.engine_of(world.scripted(), vec![Arc::new(Careful { spec, asked, sent: is_sent })]);
        let mut handle = engine.start(world.request("go")).await.unwrap();
        first.set((engine, handle.run)).unwrap();
        assert_eq!(handle.rested().await, rested, "{meanwhile:?}");
        assert_eq!(counts.map(|count| count.load(SeqCst)), [1, sent], "{meanwhile:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_is_asked_once_whether_the_run_is_still_held() {
    let mut asked = Vec::new();
    for is_slow in [false, true] {
        let (world, first) = world("once", Meanwhile::Nothing, Duration::from_secs(1));
        let Store::Faulty(faulty) = &world.store else { panic!("{:?}", world.store) };
        let slow = || -> futures_util::future::BoxFuture<'static, ()> {
            Box::pin(tokio::time::advance(Duration::from_millis(200)))
        };
        for nth in (0..60).filter(|_| is_slow) {
            faulty.plan("run", nth, Mishap::Then(Arc::new(slow)));
        }
        let engine = world.engine();
        let mut handle = engine.start(world.request("go")).await.unwrap();
        first.set((engine, handle.run)).unwrap();
        assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
        assert_eq!(world.ledger.count("once"), 1);
        asked.push(faulty.called("run"));
    }
    assert_eq!(asked[0], asked[1], "as often as where it answers at once");
}
