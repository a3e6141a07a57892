//! One tenant's flood: other tenants get their share of the places, at once or next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::serve::served::{Served, until};
use crate::serve::wire::Answer;
use crate::server::{Answer as Reply, Barrier, Server};
use crate::world::World;

/// A service with two tenants, `a` and `b`.
struct Tenants {
    served: Served,
    tokens: [(&'static str, String); 2],
}

impl Tenants {
    /// A service with these settings, and a model of its own.
    fn new(world: World, settings: &str) -> Tenants {
        world.settings(settings);
        let tokens = ["a", "b"].map(|tenant| {
            let made = world.baton(&["tokens", "add", "--json", "--tenant", tenant, tenant]).json();
            (tenant, made["token"].as_str().unwrap().to_owned())
        });
        Tenants { served: Served::on(world, &[], &[]), tokens }
    }

    fn send(&self, tenant: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let (_, token) = self.tokens.iter().find(|(name, _)| *name == tenant).unwrap();
        let bearer = format!("Bearer {token}");
        let body = body.map(|body| body.to_string());
        self.served.send(method, path, &[("authorization", &bearer)], body.as_deref())
    }

    /// Begins one more run; returns whether it was accepted.
    fn begins(&self, tenant: &str) -> bool {
        let begun = self.send(
            tenant,
            "POST",
            "/v1/runs",
            Some(json!({"flow": "turn", "input": format!("of {tenant}")})),
        );
        if begun.status == 202 {
            return true;
        }
        assert_eq!(begun.problem(), (503, "overloaded".to_owned()), "{begun:?}");
        assert_eq!(begun.header("retry-after"), "1");
        false
    }

    /// The number of runs that a tenant gets at once.
    fn gets(&self, tenant: &str) -> usize {
        (0..100).take_while(|_| self.begins(tenant)).count()
    }
}

#[test]
fn a_tenant_whose_runs_take_all_places_leaves_others_their_share() {
    let world = World::new();
    let model = world
        .script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "First "}, {"stall": true}]}}));
    let tenants = Tenants::new(world, &format!("model = '{model}'\n[serve]\nruns = 20\n"));
    assert_eq!(tenants.gets("a"), 20, "one tenant alone has all places");
    assert_eq!(tenants.gets("b"), 10, "another one has its share at once");
    assert!(!tenants.begins("a"));
    let runs = tenants.send("a", "GET", "/v1/runs?status=running", None).json();
    let run = runs["items"][0]["id"].as_str().unwrap().to_owned();
    tenants.send("a", "POST", &format!("/v1/runs/{run}/cancel"), None);
    let path = format!("/v1/runs/{run}");
    until("it ends", || tenants.send("a", "GET", &path, None).json()["status"] == "cancelled");
    assert!(!tenants.begins("a"), "it has more than its share");
}

/// A model server with four places whose replies wait, each for a barrier of its own: those of its calls, in the order in
/// which they came.
fn slow_model() -> (Server, Vec<Barrier>) {
    let barriers: Vec<Barrier> = (0..16).map(|_| Barrier::new()).collect();
    let waits = barriers.clone();
    let chats = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::deciding(move |_, request| {
        if request.path != "/v1/chat/completions" {
            return Reply::json(404, "{}");
        }
        let n = chats.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let message = json!({"role": "assistant", "content": "Done."});
        let chunk = json!({"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]});
        Reply::nothing()
            .wait(&waits[n])
            .streaming("text/event-stream")
            .chunk(format!("data: {chunk}\n\ndata: [DONE]\n\n"))
            .end()
    });
    (server, barriers)
}

/// The tenants whose calls came to the model, in order.
fn callers(model: &Server) -> Vec<&'static str> {
    let chats = model.requests().into_iter().filter(|request| request.path == "/v1/chat/completions");
    chats.map(|request| if request.body.contains("of b") { "b" } else { "a" }).collect()
}

#[test]
fn a_call_of_another_tenant_gets_the_next_free_place_of_a_model() {
    let (model, barriers) = slow_model();
    let settings = format!(
        "model = 'lab/m'\n[providers.lab]\nbase_url = '{}/v1'\napi = 'chat_completions'\n\
         [[roles.reasoning]]\nmodel = 'lab/m'\nmax_concurrency = 4\n",
        model.url()
    );
    let tenants = Tenants::new(World::new(), &settings);
    let waiting =
        |tenant: &str| tenants.send(tenant, "GET", "/health", None).json()["queue"]["model_calls"].as_u64();
    assert!((0..12).all(|_| tenants.begins("a")));
    until("eight calls of a wait", || callers(&model).len() == 4 && waiting("a") == Some(8));
    assert!(tenants.begins("b"));
    until("the call of b waits", || waiting("b") == Some(1));
    assert_eq!(waiting("a"), Some(8));
    barriers[2].open();
    until("a place is free", || callers(&model).len() == 5);
    assert_eq!(callers(&model), ["a", "a", "a", "a", "b"]);
    for barrier in &barriers {
        barrier.open();
    }
    until("all are answered", || callers(&model).len() == 13 && waiting("a") == Some(0));
}

#[test]
fn events_of_another_tenant_are_sent_long_before_a_flood_is_through() {
    let is_open = Arc::new(AtomicBool::new(false));
    let takes = is_open.clone();
    let context = Server::deciding(move |_, _| match takes.load(SeqCst) {
        true => Reply::whole(202, &[], ""),
        false => Reply::json(503, ""),
    });
    let world = World::new();
    world.settings(&format!("[services.context]\nurl = \"{}\"\n", context.url()));
    let model = world.script(&json!({"v": 1, "replies": [{"do": [{"text": "Done."}]}]}));
    world.baton(&["ask", "--model", &model, "go"]).ok();
    let refused = context.requests().len();
    let db = rusqlite::Connection::open(world.path("home/data/baton/baton.db")).unwrap();
    let columns = "at, kind, source, digest, send, bytes, body, crc, external";
    for (tenant, count) in [("a", 3000), ("b", 1)] {
        let copies = format!(
            "WITH RECURSIVE c(k) AS (VALUES(1) UNION ALL SELECT k + 1 FROM c WHERE k < {count})
             INSERT INTO outbox(tenant, correlation, {columns})
             SELECT '{tenant}', '{tenant}' || k, {columns} FROM outbox, c WHERE kind = 'agent.started' AND tenant = 'local'"
        );
        assert_eq!(db.execute(&copies, []).unwrap(), count);
    }
    is_open.store(true, SeqCst);
    let service = world.start(&["serve", "--port", "0", "--model", &model, "--json"]);
    let place = || {
        let requests = context.requests();
        requests.iter().skip(refused).position(|request| request.body.contains("\"correlation_id\":\"b1\""))
    };
    until("the event of b is sent", || place().is_some());
    let place = place().unwrap();
    assert!(place < 256, "{place} others were sent before it");
    service.signal(Signal::TERM);
    service.end();
}
