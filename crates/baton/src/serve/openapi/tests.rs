use std::collections::BTreeSet;

use baton_core::id::RunId;
use baton_core::time::Timestamp;
use baton_store::RunRow;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::super::shapes::answers as gives;
use super::*;
use crate::shape;

/// Calls a function for every value of a document, with the path to it.
fn walk(value: &Value, at: &str, each: &mut impl FnMut(&str, &Value)) {
    each(at, value);
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| walk(value, &format!("{at}/{name}"), each))
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, &format!("{at}/-"), each)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let api = document();
    let mut missing = Vec::new();
    walk(&api, "", &mut |at, value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let place = reference.strip_prefix('#').unwrap_or("?");
            if api.pointer(place).is_none() {
                missing.push(format!("{at}: {reference}"));
            }
        }
    });
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_body_refuses_what_it_does_not_know() {
    let api = document();
    let mut bodies = 0;
    for route in ROUTES.iter().filter(|route| route.body.is_some()) {
        let operation = &api["paths"][route.path][route.method.as_str()];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let place = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')).unwrap();
        assert_eq!(api.pointer(place).unwrap()["additionalProperties"], false, "{}", route.path);
        bodies += 1;
    }
    assert!(bodies > 10, "{bodies}");
    assert_eq!(api["components"]["schemas"]["Config"]["additionalProperties"], false);
}

#[test]
fn an_operation_says_everything_about_itself() {
    let api = document();
    let operation = &api["paths"]["/v1/runs/{id}/events"]["get"];
    let parameters = operation["parameters"].as_array().unwrap();
    let named: Vec<(&str, &str)> =
        parameters.iter().map(|it| (it["name"].as_str().unwrap(), it["in"].as_str().unwrap())).collect();
    assert_eq!(
        named,
        [
            ("id", "path"),
            ("after", "query"),
            ("dialect", "query"),
            ("show_reasoning", "query"),
            ("Last-Event-ID", "header")
        ]
    );
    let statuses: Vec<&String> = operation["responses"].as_object().unwrap().keys().collect();
    assert_eq!(statuses, ["200", "400", "401", "403", "404", "421", "429", "500", "503"]);
    assert_eq!(operation["security"], json!([{"bearer": []}, {}]));
    let event = &operation["responses"]["200"]["content"]["text/event-stream"]["schema"];
    assert_eq!(event["required"], json!(["event", "data"]));
    assert!(event["properties"]["event"]["enum"].as_array().unwrap().contains(&json!("thinking")), "{event}");
    let dialect = parameters.iter().find(|it| it["name"] == "dialect").unwrap();
    assert!(dialect["schema"].get("anyOf").is_none(), "{dialect}");
}

#[test]
fn no_parameter_can_be_null() {
    let api = document();
    let mut found = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["schema"].to_string().contains("null") {
                    found.push(format!("{path} {}", parameter["name"]));
                }
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn names_are_used_for_one_type_alone() {
    let mut schemas = Schemas::new();
    for route in ROUTES {
        operation::describe(route, &mut schemas);
    }
    let (given, taken) = (schemas.given.definitions().clone(), schemas.taken.definitions().clone());
    let both: BTreeSet<&String> = given.keys().filter(|name| taken.contains_key(*name)).collect();
    for name in both {
        assert_eq!(given[name], taken[name], "{name}");
    }
    let numbered = |name: &&String| name.ends_with(|c: char| c.is_ascii_digit());
    assert_eq!(given.keys().chain(taken.keys()).filter(numbered).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Reads a document as the type that describes it.
fn fits<T: DeserializeOwned>(document: Value) {
    if let Err(error) = serde_json::from_value::<T>(document.clone()) {
        panic!("{document} is not what is described: {error}");
    }
}

#[test]
fn what_is_made_is_what_is_described() {
    let (id, at) = (RunId(Uuid::from_u128(7)), Timestamp(0));
    let row = RunRow::begun(id, &"t".parse().unwrap(), &"main".parse().unwrap(), -1, at);
    let view = baton_engine::RunView {
        row,
        definition: None,
        error: Some(baton_core::fault::Fault::new(baton_core::fault::Code::Refused, "no")),
        result: Some("r".to_owned()),
        waiting: Vec::new(),
        steps: Vec::new(),
    };
    fits::<gives::Run>(shape::run(&view));
    fits::<gives::List<gives::Run>>(shape::list(vec![shape::run(&view)], Some("x".to_owned())));
    let branch = baton_store::BranchView {
        name: "main".parse().unwrap(),
        head: baton_core::thread::Place { lane: 0, index: 3 },
        forked_from: Some(("b".parse().unwrap(), 1)),
        run: None,
    };
    let thread = baton_store::ThreadView {
        id: "t".parse().unwrap(),
        current: "main".parse().unwrap(),
        created: at,
        ttl_at: Some(at),
        meta: json!({"a": 1}),
        branches: vec![branch],
    };
    fits::<gives::Thread>(shape::thread(&thread));
    let pruned = baton_store::Pruned { branches: vec![], lanes: 1, entries: 2 };
    fits::<gives::Pruned>(shape::pruned(&pruned, true));
    let rewound =
        baton_store::Rewound { branch: "b".parse().unwrap(), previous_head: 3, previous_entry: None };
    fits::<gives::Rewound>(shape::rewound(&rewound, 1));
    fits::<gives::Problem>(super::super::problem::Problem::invalid("x").body());
}
