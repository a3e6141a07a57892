//! One tenant's flood: others get their share of what there is, at once or next.

use serde_json::{Value, json};

use crate::serve::served::{Served, until};
use crate::serve::wire::Answer;
use crate::world::World;

/// A service with two tenants, `a` and `b`.
struct Tenants {
    served: Served,
    tokens: [(&'static str, String); 2],
}

impl Tenants {
    /// With these settings, and a model of its own.
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

    /// One more run; answers whether it was begun.
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

    /// How many runs a tenant gets at once.
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
