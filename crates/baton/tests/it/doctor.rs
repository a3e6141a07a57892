//! What `baton doctor` says of those who serve models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::imitation::{compatible, ollama};
use crate::models::configured;
use crate::server::{Answer, Barrier, Server};
use crate::stage::Did;
use crate::world::{AS_EVER, World};

/// What the doctor says of choosing.
const CHOOSE: &str =
    "choose with --model PROVIDER/NAME, BATON_MODEL, or `model` and [[roles.NAME]] in baton.toml";

/// One check of the doctor's.
fn check(did: &Did, name: &str) -> Value {
    let found = did.json();
    let checks = found["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).cloned().unwrap()
}

#[test]
fn the_doctor_looks_at_every_provider_that_is_used() {
    let (ollama, lab) = (ollama(&["other:latest"], ["a", "b"]), compatible(["a", "b"]));
    let world = configured(&ollama, &lab);
    let did = world.baton(&["doctor", "--json"]);
    let expected: [Value; 4] = [
        json!({"name": "model", "state": "ok", "fix": CHOOSE,
               "detail": "lab/big (the roles in baton.toml); text goes to api.openai.com"}),
        json!({"name": "provider lab", "state": "ok",
               "detail": format!("{} (key: not needed) answers and has big", lab.url())}),
        json!({"name": "provider ollama", "state": "warning",
               "fix": "ollama pull small gets it; it may still be known under that name: baton models test ollama/small tries it",
               "detail": format!("{} (key: not needed) answers, and does not list small", ollama.url())}),
        json!({"name": "provider openai", "state": "failed",
               "detail": "the key of openai is expected in OPENAI_API_KEY; it is not set",
               "fix": "export OPENAI_API_KEY=…; [providers.openai] in baton.toml names another place"}),
    ];
    let names = ["model", "provider lab", "provider ollama", "provider openai"];
    assert_eq!((did.code, names.map(|name| check(&did, name))), (1, expected));
}

#[test]
fn a_model_without_its_key_fails_at_its_provider() {
    let world = World::new();
    world.settings("model = \"openai/gpt-5-mini\"\n");
    let did = world.baton(&["doctor", "--json"]);
    let expected = [
        json!({"name": "model", "state": "ok", "fix": CHOOSE,
               "detail": "openai/gpt-5-mini (`model` in baton.toml); text goes to api.openai.com"}),
        json!({"name": "provider openai", "state": "failed", "detail": "the key of openai is expected in OPENAI_API_KEY; it is not set",
               "fix": "export OPENAI_API_KEY=…; [providers.openai] in baton.toml names another place"}),
    ];
    assert_eq!((did.code, ["model", "provider openai"].map(|name| check(&did, name))), (1, expected));
}

#[test]
fn a_model_that_is_not_listed_is_no_failure() {
    let (world, lab) = (World::new(), compatible(["a", "b"]));
    world.settings(&format!(
        "[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\n\
         [[roles.reasoning]]\nmodel = \"lab/big-latest\"\n[[roles.router]]\nmodel = \"lab/big\"\n[[roles.coding]]\nmodel = \"lab/small\"\n",
        lab.url()
    ));
    let did = world.baton(&["doctor", "--json"]);
    let expected = json!({"name": "provider lab", "state": "warning",
        "detail": format!("{} (key: not needed) answers, and does not list big-latest, small", lab.url()),
        "fix": "it may still be known under that name: baton models test lab/big-latest lab/small tries it"});
    assert_eq!((did.code, check(&did, "provider lab")), (0, expected));
    assert_eq!(did.json()["ok"], true);
}

/// Each of the three answers once all of them have been asked.
#[test]
fn the_doctor_asks_everybody_at_once_and_tells_in_order() {
    let (world, asked, all) = (World::new(), Arc::new(AtomicUsize::new(0)), Barrier::new());
    let body = r#"{"object":"list","data":[{"id":"big","object":"model"}]}"#;
    let servers = [(); 3].map(|()| {
        let (asked, all) = (asked.clone(), all.clone());
        Server::deciding(move |_, _| {
            if asked.fetch_add(1, Ordering::SeqCst) == 2 {
                all.open();
            }
            Answer::nothing()
                .wait(&all)
                .head(200, &[("content-type", "application/json")], Some(body.len()))
                .raw(body)
        })
    });
    let tables = ["third", "first", "second"].iter().zip(&servers).map(|(name, server)| {
        format!("[providers.{name}]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\n", server.url())
    });
    world.settings(&format!("model = \"offline\"\n{}", tables.collect::<String>()));
    let did = world.baton(&["doctor", "--json"]);
    let found = did.json();
    let checks = found["checks"].as_array().unwrap().iter();
    let told: Vec<(&Value, &Value)> = checks
        .filter(|check| check["name"].as_str().unwrap().starts_with("provider "))
        .map(|check| (&check["name"], &check["detail"]))
        .collect();
    let expected =
        [("first", &servers[1]), ("second", &servers[2]), ("third", &servers[0])].map(|(name, server)| {
            let detail = format!("{} (key: not needed) answers and has 1 model", server.url());
            (json!(format!("provider {name}")), json!(detail))
        });
    assert_eq!((did.code, told), (0, expected.iter().map(|(name, detail)| (name, detail)).collect()));
}

#[test]
fn the_doctor_waits_for_nobody_for_long() {
    let world = World::new();
    let stalls = Server::deciding(|_, _| Answer::nothing().stall());
    let nobody = Server::nobody();
    world.settings(&format!(
        "model = \"offline\"\n[providers.gone]\nbase_url = \"{nobody}\"\n[providers.slow]\nbase_url = \"{}\"\n",
        stalls.url()
    ));
    let did = world.baton_with(&[AS_EVER], &["doctor", "--json"]);
    let found = did.json();
    let checks = found["checks"].as_array().unwrap().iter();
    let told: Vec<Value> = checks.filter(|check| check["state"] == "failed").cloned().collect();
    let expected = [
        json!({"name": "provider gone", "state": "failed", "fix": "is it running, and is `providers.gone.base_url` right?",
               "detail": format!("{nobody} (key: not needed): cannot connect to {nobody}: Connection refused (os error 111); is the server running?")}),
        json!({"name": "provider slow", "state": "failed", "fix": "is it running, and is `providers.slow.base_url` right?",
               "detail": format!("{} (key: not needed) did not answer within 2 s", stalls.url())}),
    ];
    assert_eq!((did.code, told), (1, expected.to_vec()));
}

#[test]
fn the_doctor_reads_the_scripts_that_answer() {
    let world = World::new();
    world.settings("[[roles.reasoning]]\nmodel = \"offline\"\n[[roles.router]]\nmodel = \"scripted/gone\"\n");
    let did = world.baton(&["doctor", "--json"]);
    let why = "cannot read it: No such file or directory (os error 2)";
    let expected = json!({"name": "model", "state": "failed", "fix": CHOOSE,
        "detail": format!("script {}: {why}", world.path("work/gone").display())});
    assert_eq!((did.code, check(&did, "model")), (1, expected));
}

#[test]
fn names_stand_in_one_column_and_a_fix_below_its_finding() {
    let (world, nobody) = (World::new(), Server::nobody());
    world.settings(&format!("model = \"offline\"\n[providers.a-long-name]\nbase_url = \"{nobody}\"\n"));
    let did = world.baton_with(&[("OLLAMA_BASE_URL", &nobody)], &["doctor"]);
    let why =
        format!("cannot connect to {nobody}: Connection refused (os error 111); is the server running?");
    let file = world.path("home/config/baton/baton.toml");
    let expected = [
        format!("ok    version               baton {}", env!("CARGO_PKG_VERSION")),
        format!("ok    configuration         {} (2 settings)", file.display()),
        "note  model                 offline (`model` in baton.toml); nothing leaves this machine; it is no language model".to_owned(),
        format!("fail  provider a-long-name  {nobody} (key: not needed): {why}"),
        "                            is it running, and is `providers.a-long-name.base_url` right?".to_owned(),
        format!("fail  provider ollama       {nobody} (key: not needed): {why}"),
        "                            start it with `ollama serve`; OLLAMA_BASE_URL says where it is".to_owned(),
    ];
    let mut lines: Vec<&str> = did.out.lines().take(8).collect();
    let fix = lines.remove(3);
    assert!(fix.starts_with("                            for a language model: run Ollama"), "{fix}");
    assert_eq!((did.code, lines), (1, expected.iter().map(String::as_str).collect()));
}
