//! Places in the limit of concurrent work: each is kept until the run or call that it was taken for counts by itself.

use baton_core::id::Tenant;
use baton_core::policy::Mode;
use baton_engine::{Engine, Execute, Orchestrator, Rested, RunRequest};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::everywhere;
use crate::world::{TENANT, World};

everywhere!(
    the_place_of_a_message_is_kept_until_its_run_counts,
    the_place_of_an_answer_is_kept_until_the_run_that_asked_counts,
    the_place_of_a_call_is_kept_until_the_call_counts,
);

/// A place that reports the engine's load at the moment when it is given back.
struct Place {
    engine: Engine,
    given_back: UnboundedSender<u64>,
}

impl Place {
    fn new(engine: &Engine) -> (Place, UnboundedReceiver<u64>) {
        let (given_back, loads) = unbounded_channel();
        (Place { engine: engine.clone(), given_back }, loads)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.given_back.send(self.engine.load(&TENANT).own);
    }
}

fn orchestrator(engine: &Engine) -> Orchestrator {
    Orchestrator::new(engine.clone(), RunRequest::new("", "scripted"))
}

fn holds() -> Value {
    json!([{"call": {"name": "safe", "arguments": {"do": "hold"}}}])
}

/// Sends a message; answers the engine's load when its place was given back, and the reply.
async fn sent(world: &World, engine: &Engine, message: &str) -> (Option<u64>, String) {
    let (place, mut loads) = Place::new(engine);
    let agent = orchestrator(engine);
    let handling = agent.handle_holding("t", message, Mode::Moderate, "CHAT", place);
    let (result, load) = tokio::join!(handling, async {
        let load = loads.recv().await;
        world.ledger.open();
        load
    });
    (load, result.reply)
}

async fn the_place_of_a_message_is_kept_until_its_run_counts(world: World) {
    world.script(json!([holds(), [{"text": "You said {user}"}]]));
    let engine = world.engine();
    assert_eq!(sent(&world, &engine, "one").await, (Some(1), "You said one".to_owned()));
    let (_, reply) = sent(&world, &engine, " ").await;
    assert_eq!(reply, "The message is empty: say what you want.");
}

async fn the_place_of_an_answer_is_kept_until_the_run_that_asked_counts(world: World) {
    let asks = json!([{"call": {"name": "ask_user", "arguments": {"question": "Which?"}}}]);
    world.script(json!([asks, holds(), [{"text": "It is blue"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("paint")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Suspended);
    while engine.load(&TENANT).own > 0 {
        tokio::task::yield_now().await; // its driver is about to end
    }
    assert_eq!(sent(&world, &engine, "blue").await, (Some(1), "It is blue".to_owned()));
}

async fn the_place_of_a_call_is_kept_until_the_call_counts(world: World) {
    world.script(json!([]));
    let engine = world.engine();
    let call = |name: &str, what: &str| Execute {
        tenant: Tenant::local(),
        mode: Mode::Exploratory,
        name: name.to_owned(),
        arguments: json!({"do": what}),
        timeout: None,
        key: None,
        metadata: Value::Null,
        by: None,
    };
    for (name, what, load, is_ok) in [("safe", "hold", 1, true), ("nope", "ok", 0, false)] {
        let (place, mut loads) = Place::new(&engine);
        let (executed, seen) = tokio::join!(engine.execute_holding(call(name, what), place), async {
            let seen = loads.recv().await;
            world.ledger.open();
            seen
        });
        assert_eq!((executed.unwrap().is_ok, seen), (is_ok, Some(load)), "{name}");
    }
}
