//! Two tenants on one service: the data of each, its requests, and everything that the store holds of it.

use std::collections::BTreeMap;

use rusqlite::types::Value as Cell;
use serde_json::{Value, json};

use super::super::served::{Served, until};
use super::super::wire::Answer;
use crate::world::World;

/// A word that only one tenant's model and messages contain.
pub(super) const MARK: &str = "bumblebee";

/// A service, and the tokens of its tenants `a` and `b`.
pub(super) struct Tenants {
    pub(super) served: Served,
    tokens: BTreeMap<&'static str, String>,
}

/// Ids by their kind: the names that stand in braces in the table.
pub(super) type Ids = BTreeMap<&'static str, String>;

impl Tenants {
    /// A service without any data.
    pub(super) fn new() -> Tenants {
        let world = World::new();
        let call = |name: &str, arguments: Value| json!({"call": {"name": name, "arguments": arguments}});
        let sum = || call("calculator", json!({"expression": "1+1"}));
        let long = |bytes: u32| {
            let file = world.path("effects");
            call("test_effect", json!({"file": file, "line": "l", "class": "unsafe", "output_bytes": bytes}))
        };
        // B's outputs are longer than A's, and its runs have more steps.
        let model = world.script(&json!({
            "v": 1,
            "replies": [
                {"match": "for a", "do": [long(40_000)]},
                {"match": "for b", "do": [long(50_000)]},
                {"match": "for b", "do": [sum()]},
                {"match": "for b", "do": [sum()]},
                {"match": "ask", "do": [call("ask_user", json!({"question": "Which one?"}))]},
                {"match": "approve", "do": [call("system_health", json!({}))]},
            ],
            "otherwise": {"do": [{"text": "You said: {user}"}]},
        }));
        world.settings(&format!("model = '{model}'\n[policy]\napprove = [\"system_health\"]\n"));
        let token = |tenant| {
            let made = world.baton(&["tokens", "add", "--json", "--tenant", tenant, tenant]).json();
            (tenant, made["token"].as_str().unwrap().to_owned())
        };
        let tokens = ["a", "b"].map(token).into();
        Tenants { served: Served::on(world, &[], &[]), tokens }
    }

    /// Asks as a tenant.
    pub(super) fn send(
        &self,
        tenant: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        let authorization = format!("Bearer {}", self.tokens[tenant]);
        let mut all = vec![("authorization", authorization.as_str())];
        all.extend(headers);
        self.served.send(method, path, &all, body)
    }

    /// A document.
    #[track_caller]
    pub(super) fn document(&self, tenant: &str, path: &str) -> Value {
        let answer = self.send(tenant, "GET", path, &[], None);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Sends a message; returns the result.
    #[track_caller]
    pub(super) fn say(&self, tenant: &str, thread: &str, text: &str) -> Value {
        let body = json!({"message": text, "thread_id": thread}).to_string();
        let answer = self.send(tenant, "POST", "/process", &[], Some(&body));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Gives a tenant one of everything, on threads whose names begin with a word.
    pub(super) fn settle(&self, tenant: &str, word: &str) -> Ids {
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned();
        let thread = format!("{word}-done");
        let mark = if tenant == "b" { MARK } else { "" };
        let done = self.say(tenant, &thread, &format!("for {tenant} {mark}"));
        let branch = format!("{word}-side");
        let body = json!({"name": branch}).to_string();
        let forked = self.send(tenant, "POST", &format!("/v1/threads/{thread}/fork"), &[], Some(&body));
        assert_eq!(forked.status, 201, "{forked:?}");
        let asking = self.say(tenant, &format!("{word}-asks"), &format!("ask {mark}"));
        let approving = self.say(tenant, &format!("{word}-waits"), &format!("approve {mark}"));
        let entries = self.document(tenant, &format!("/v1/threads/{thread}/entries"));
        let long = entries.to_string();
        let blob =
            long.split("hash ").nth(1).and_then(|rest| rest.get(..64)).unwrap_or_else(|| panic!("{long}"));
        let steps = self.document(tenant, &format!("/v1/runs/{}/checkpoints", text(&done["run_id"])));
        // The last step but one: the run can be forked there.
        let step = steps["items"].as_array().unwrap().len() - 1;
        Ids::from([
            ("thread", thread),
            ("branch", branch),
            ("entry", text(&entries["items"][1]["id"])),
            ("run", text(&done["run_id"])),
            ("step", step.to_string()),
            ("blob", blob.to_owned()),
            ("asking", text(&asking["run_id"])),
            ("approving", text(&approving["run_id"])),
            ("approval", text(&approving["waiting"][0]["id"])),
        ])
    }

    /// Everything that the store holds of a tenant, table by table.
    pub(super) fn held(&self, tenant: &str) -> BTreeMap<String, Vec<String>> {
        let db = self.database();
        let with_tenant = "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c \
                           WHERE m.type = 'table' AND c.name = 'tenant' ORDER BY m.name";
        let mut tables = db.prepare(with_tenant).unwrap();
        let tables = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap);
        let mut tables: BTreeMap<String, String> =
            tables.map(|table: String| (table, "tenant = ?1".to_owned())).collect();
        // Tables that name a thread or a run by its number belong to the tenant of that thread or run.
        for (table, owner) in [("entries", "thread"), ("steps", "run")] {
            let owned = format!("{owner} IN (SELECT n FROM {owner}s WHERE tenant = ?1)");
            assert_eq!(tables.insert(table.to_owned(), owned), None);
        }
        assert!(tables.len() > 15, "{tables:?}");
        let rows = |(table, of_tenant): (&String, &String)| {
            let mut rows = db.prepare(&format!("SELECT * FROM {table} WHERE {of_tenant}")).unwrap();
            let columns = rows.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                let cells: Vec<Cell> = (0..columns).map(|at| row.get(at).unwrap()).collect();
                Ok(format!("{cells:?}"))
            };
            let mut all: Vec<String> = rows.query_map([tenant], row).unwrap().map(Result::unwrap).collect();
            all.sort();
            (table.clone(), all)
        };
        tables.iter().map(rows).collect()
    }

    /// Waits until no event of a tenant is on its way into the audit trail.
    pub(super) fn until_sealed(&self, tenant: &str) {
        until("all is sealed", || {
            let waiting = "SELECT count(*) FROM outbox WHERE tenant = ?1";
            self.database().query_row(waiting, [tenant], |row| row.get::<_, i64>(0)).unwrap() == 0
        });
    }

    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.served.world.path("home/data/baton/baton.db")).unwrap()
    }
}
