//! Tenants on one service: a tenant cannot tell another tenant's things from missing ones.
//!
//! Every route is called with every kind of id: the tenant's own, another tenant's, a missing one, and a malformed one.
//! The answer for another tenant's id is the answer for a missing one, and nothing of the other tenant changes.

mod rows;
mod tenants;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::wire::Answer;
use crate::mask::Mask;
use rows::{ROWS, Row};
use tenants::{Ids, MARK, Tenants};

/// A missing id of each kind.
const MISSING: [(&str, &str); 9] = [
    ("thread", "nobodys"),
    ("branch", "nowhere"),
    ("entry", "01a1dff3-037b-75c8-bb5f-3ef904772acc"),
    ("run", "01a1dff3-037b-75c8-bb5f-3ef904772acd"),
    ("step", "999"),
    ("blob", "0000000000000000000000000000000000000000000000000000000000000000"),
    ("asking", "01a1dff3-037b-75c8-bb5f-3ef904772acd"),
    ("approving", "01a1dff3-037b-75c8-bb5f-3ef904772acd"),
    ("approval", "01a1dff3-037b-75c8-bb5f-3ef904772acd:1"),
];

/// A malformed id of each kind.
const MALFORMED: [(&str, &str); 9] = [
    ("thread", "no~name!"),
    ("branch", "no~name!"),
    ("entry", "no-entry"),
    ("run", "no-run"),
    ("step", "-7"),
    ("blob", "no-hash"),
    ("asking", "no-run"),
    ("approving", "no-run"),
    ("approval", "no~approval!"),
];

fn ids(table: [(&'static str, &str); 9]) -> Ids {
    table.map(|(kind, id)| (kind, id.to_owned())).into()
}

/// The kinds of ids that a row has places for.
fn kinds(row: &Row) -> Vec<&'static str> {
    let text = format!("{} {}", row.path, row.body.unwrap_or_default());
    MISSING.iter().map(|(kind, _)| *kind).filter(|kind| text.contains(&format!("{{{kind}}}"))).collect()
}

/// The route of a row, as `/openapi.json` names it, but for the names of its places.
fn route(method: &str, path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> =
        path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part }).collect();
    format!("{method} {}", parts.join("/"))
}

/// Asks with these ids.
fn asked(tenants: &Tenants, row: &Row, ids: &Ids) -> Answer {
    let filled = |text: &str| {
        ids.iter().fold(text.to_owned(), |text, (kind, id)| text.replace(&format!("{{{kind}}}"), id))
    };
    let answer = tenants.send("a", row.method, &filled(row.path), &[], row.body.map(filled).as_deref());
    let body = String::from_utf8_lossy(&answer.body);
    assert!(!body.contains(MARK), "{} {}: {body}", row.method, row.path);
    answer
}

/// The comparable part of an answer: without the ids of the request, and without values that differ each time.
fn comparable(answer: &Answer, ids: &Ids) -> (u16, BTreeMap<String, String>, String) {
    let mut mask = Mask::default();
    let mut plain = |text: &str| {
        let by_length: BTreeSet<(usize, &String)> = ids.values().map(|id| (id.len(), id)).collect();
        let text = by_length.iter().rev().fold(text.to_owned(), |text, (length, id)| match length {
            0..5 => text,
            _ => text.replace(id.as_str(), "ASKED"),
        });
        let text =
            ["retry: ", "\"execution_time_ms\":"].iter().fold(text, |text, before| without(&text, before));
        mask.text(&text)
    };
    let kept = answer.headers.iter().filter(|(name, _)| !["date", "content-length"].contains(&name.as_str()));
    let headers = kept.map(|(name, value)| (name.clone(), plain(value))).collect();
    (answer.status, headers, plain(&String::from_utf8_lossy(&answer.body)))
}

/// Without the number that comes after a text.
fn without(text: &str, before: &str) -> String {
    let Some((head, rest)) = text.split_once(before) else { return text.to_owned() };
    format!("{head}{before}{}", rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.'))
}

/// The tenant's own ids, with one kind or all of them replaced by those of others.
fn with(own: &Ids, others: &Ids, replaced: &[&'static str]) -> Ids {
    let mut mixed = own.clone();
    mixed.extend(replaced.iter().map(|kind| (*kind, others[kind].clone())));
    mixed
}

#[test]
fn every_route_has_a_row() {
    let tenants = Tenants::new();
    let described = tenants.document("a", "/openapi.json");
    let mut routes = BTreeSet::new();
    for (path, operations) in described["paths"].as_object().unwrap() {
        routes
            .extend(operations.as_object().unwrap().keys().map(|method| route(&method.to_uppercase(), path)));
    }
    let rows: BTreeSet<String> = ROWS.iter().map(|row| route(row.method, row.path)).collect();
    assert_eq!(rows, routes);
}

#[test]
fn what_is_somebody_elses_is_answered_like_what_there_is_not() {
    let tenants = Tenants::new();
    let theirs = tenants.settle("b", "bee");
    let own = tenants.settle("a", "ant");
    tenants.until_sealed("b");
    let held = tenants.held("b");
    let (missing, malformed) = (ids(MISSING), ids(MALFORMED));
    for row in ROWS {
        let all = kinds(row);
        let each: Vec<Vec<&'static str>> = all.iter().map(|kind| vec![*kind]).chain([all.clone()]).collect();
        for replaced in each.iter().filter(|replaced| !replaced.is_empty()) {
            let place = format!("{} {} with another {replaced:?}", row.method, row.path);
            let (foreign, absent) = (with(&own, &theirs, replaced), with(&own, &missing, replaced));
            let told = asked(&tenants, row, &foreign);
            assert_eq!(
                comparable(&told, &foreign),
                comparable(&asked(&tenants, row, &absent), &absent),
                "{place}"
            );
            let refused = asked(&tenants, row, &with(&own, &malformed, replaced));
            assert!(
                [400, 404].contains(&refused.status) || is_about_a_tool(row, &refused),
                "{place}: {refused:?}"
            );
            // A request on a missing thread has created it, also under another tenant's name.
            for id in [&theirs["thread"], &missing["thread"]] {
                tenants.send("a", "DELETE", &format!("/v1/threads/{id}"), &[], None);
            }
        }
        assert_eq!(tenants.held("b"), held, "{} {}", row.method, row.path);
    }
}

/// Anything about a tool is an answer.
fn is_about_a_tool(row: &Row, answer: &Answer) -> bool {
    row.path == "/execute" && answer.status == 200 && answer.json()["status"] == "error"
}

#[test]
fn what_is_ones_own_is_there() {
    let tenants = Tenants::new();
    tenants.settle("b", "bee");
    tenants.until_sealed("b");
    let held = tenants.held("b");
    for (n, row) in ROWS.iter().enumerate() {
        let own = tenants.settle("a", &format!("ant{n}"));
        let answer = asked(&tenants, row, &own);
        assert_eq!(answer.status, row.own, "{} {}: {answer:?}", row.method, row.path);
        if row.path == "/execute" {
            assert_eq!(answer.json()["status"], "success", "{answer:?}");
        }
    }
    assert_eq!(tenants.held("b"), held);
}

#[test]
fn lists_show_nothing_of_others() {
    let tenants = Tenants::new();
    let (theirs, own) = (tenants.settle("b", "bee"), tenants.settle("a", "ant"));
    for (tenant, own, others) in [("a", &own, &theirs), ("b", &theirs, &own)] {
        let listed = |path: &str, field: &str| -> BTreeSet<String> {
            let items = tenants.document(tenant, path)["items"].as_array().unwrap().clone();
            items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
        };
        let set = |all: &[&str]| all.iter().map(|kind| own[kind].clone()).collect::<BTreeSet<String>>();
        assert_eq!(listed("/v1/runs?limit=1000", "id"), set(&["run", "asking", "approving"]));
        assert_eq!(listed("/v1/approvals?limit=1000", "id"), set(&["approval"]));
        let threads = listed("/v1/threads?limit=1000", "id");
        let word = own["thread"].trim_end_matches("done");
        assert_eq!(threads, ["done", "asks", "waits"].map(|end| format!("{word}{end}")).into());
        let all = tenants.document(tenant, "/v1/runs?limit=1000").to_string();
        assert!(others.iter().all(|(kind, id)| *kind == "step" || !all.contains(id)), "{all}");
    }
}

#[test]
fn the_same_names_are_different_threads() {
    let tenants = Tenants::new();
    for tenant in ["a", "b"] {
        tenants.say(tenant, "trip", &format!("I am {tenant}"));
    }
    tenants.until_sealed("b");
    let held = tenants.held("b");
    tenants.say("a", "trip", "And still a");
    let fork = tenants.send("a", "POST", "/v1/threads/trip/fork", &[], Some(r#"{"name": "side"}"#));
    assert_eq!(fork.status, 201, "{fork:?}");
    let rewind = tenants.send("a", "POST", "/v1/threads/trip/rewind", &[], Some(r#"{"index": -1}"#));
    assert_eq!(rewind.status, 200, "{rewind:?}");
    assert_eq!(tenants.send("a", "DELETE", "/v1/threads/trip", &[], None).status, 204);
    assert_eq!(tenants.send("a", "GET", "/v1/threads/trip", &[], None).status, 404);
    assert_eq!(tenants.held("b"), held);
    let said = tenants.document("b", "/v1/threads/trip/entries");
    let texts: Vec<&Value> = said["items"].as_array().unwrap().iter().map(|item| &item["data"]).collect();
    assert_eq!(texts, [&json!({"text": "I am b"}), &json!({"content": "You said: I am b"})]);
}

#[test]
fn keys_of_requests_are_ones_own() {
    let tenants = Tenants::new();
    let say = |tenant: &str, text: &str| {
        let body = json!({"message": text, "thread_id": "t"}).to_string();
        tenants.send(tenant, "POST", "/process", &[("idempotency-key", "k")], Some(&body))
    };
    let (first, theirs, again) = (say("a", "hi"), say("b", "hi"), say("a", "hi"));
    let run = |answer: &Answer| answer.json()["run_id"].clone();
    assert_eq!([first.status, theirs.status, again.status], [200; 3]);
    assert!(run(&first) == run(&again) && run(&first) != run(&theirs), "{first:?} {theirs:?}");
    assert_eq!(say("a", "ho").problem(), (422, "idempotency_mismatch".to_owned()));
    let execute = |tenant: &str, expression: &str| {
        let body = json!({"tool_name": "calculator", "arguments": {"expression": expression}}).to_string();
        tenants.send(tenant, "POST", "/execute", &[("idempotency-key", "k")], Some(&body))
    };
    assert_eq!(execute("a", "1+1").json()["output"], execute("a", "1+1").json()["output"]);
    let theirs = execute("b", "2+2");
    assert_eq!((theirs.status, &theirs.json()["status"]), (200, &json!("success")), "{theirs:?}");
    assert_eq!(execute("a", "2+2").problem().0, 422);
}

#[test]
fn the_trail_keeps_tenants_apart() {
    let tenants = Tenants::new();
    let (theirs, own) = (tenants.settle("b", "bee"), tenants.settle("a", "ant"));
    let event = r#"{"correlation_id": "told", "event_type": "t", "source": "s", "payload": {"word": 1}}"#;
    for _ in 0..2 {
        let told = tenants.send("a", "POST", "/events", &[("idempotency-key", "e")], Some(event));
        assert_eq!(told.status, 202, "{told:?}");
    }
    assert_eq!(tenants.send("b", "POST", "/events", &[("idempotency-key", "e")], Some(event)).status, 202);
    for (tenant, own) in [("a", &own), ("b", &theirs)] {
        tenants.until_sealed(tenant);
        let listed = tenants.served.world.baton(&["audit", "ls", "--json", "--tenant", tenant]).json();
        let items = listed["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["tenant"] == tenant), "{listed}");
        // The list also has the row of the tenant's own token.
        let (tokens, items): (Vec<_>, Vec<_>) =
            items.iter().partition(|item| item["event_type"] == "token.added");
        assert_eq!(tokens.len(), 1, "{listed}");
        let seen: BTreeSet<&str> =
            items.iter().map(|item| item["correlation_id"].as_str().unwrap()).collect();
        let expected = ["run", "asking", "approving"].map(|kind| own[kind].as_str());
        assert_eq!(seen, expected.into_iter().chain(["told"]).collect());
        assert_eq!(items.iter().filter(|item| item["correlation_id"] == "told").count(), 1);
    }
}

/// A model that knows the hash cannot read it either.
#[test]
fn a_model_reads_no_blob_of_another_tenant() {
    let world = crate::world::World::new();
    let file = format!("file={}", world.path("effects").display());
    let call =
        ["tools", "call", "test_effect", &file, "line=l", "class=unsafe", "output_bytes=50000", "--json"];
    let output = world.baton(&call).json()["output"].as_str().unwrap().to_owned();
    let hash = output.split("hash ").nth(1).and_then(|rest| rest.get(..64)).unwrap();
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "read_blob", "arguments": {"hash": hash, "offset": 49_990}}}]},
        {"do": [{"text": "{last_result}"}]},
    ]}));
    world.settings(&format!("model = '{model}'\n"));
    let token = |tenant| {
        let made = world.baton(&["tokens", "add", "--json", "--tenant", tenant, tenant]).json();
        format!("Bearer {}", made["token"].as_str().unwrap())
    };
    let (local, other) = (token("local"), token("other"));
    let served = super::served::Served::on(world, &[], &[]);
    let said = |token: &str| {
        let answer =
            served.send("POST", "/process", &[("authorization", token)], Some(r#"{"message": "Read it"}"#));
        answer.json()["response"].as_str().unwrap().to_owned()
    };
    assert!(said(&local).contains("xxxxxxxxxx"), "{}", said(&local));
    let refused = said(&other);
    assert!(!refused.contains("xxx") && refused.starts_with("Error: There is no blob"), "{refused}");
}
