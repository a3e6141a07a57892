//! The checks of `baton doctor` of the providers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::imitation::{compatible, ollama};
use crate::models::configured;
use crate::server::{Answer, Barrier, Server};
use crate::stage::Did;
use crate::world::{AS_EVER, World};

/// The doctor's hint about choosing a model.
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
               "detail": "lab/big, for short questions ollama/small (the roles in baton.toml); nothing but page visits leaves this machine"}),
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
               "detail": "openai/gpt-5-mini (`model` in baton.toml); nothing but page visits leaves this machine until it has its key"}),
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

/// Each of the three providers answers once all of them have been asked.
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
    let of = |first: &str, second: &str| {
        world.settings(&format!(
            "{first}[providers.gone]\nbase_url = \"{nobody}\"\n[providers.slow]\nbase_url = \"{}\"\n{second}",
            stalls.url()
        ));
        let did = world.baton_with(&[AS_EVER], &["doctor", "--json"]);
        (did.code, ["provider gone", "provider slow"].map(|name| check(&did, name)))
    };
    let expected = |state: &str, more: &str| {
        [
            json!({"name": "provider gone", "state": state, "fix": "is it running, and is `providers.gone.base_url` right?",
                   "detail": format!("{nobody} (key: not needed): cannot connect to {nobody}: Connection refused (os error 111); is the server running?{more}")}),
            json!({"name": "provider slow", "state": state, "fix": "is it running, and is `providers.slow.base_url` right?",
                   "detail": format!("{} (key: not needed) did not answer within 2 s{more}", stalls.url())}),
        ]
    };
    let used = "[[roles.reasoning]]\nmodel = \"gone/x\"\n[[roles.router]]\nmodel = \"slow/x\"\n";
    assert_eq!(of("", used), (1, expected("failed", "")));
    let unused = of("model = \"offline\"\n", "");
    assert_eq!(unused, (0, expected("warning", "; no role asks it")), "nobody needs them");
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
        "note  model                 offline (`model` in baton.toml); nothing but page visits leaves this machine; it is no language model".to_owned(),
        format!("note  provider a-long-name  {nobody} (key: not needed): {why}; no role asks it"),
        "                            is it running, and is `providers.a-long-name.base_url` right?".to_owned(),
        format!("note  provider ollama       {nobody} (key: not needed): {why}; no role asks it"),
        "                            start it with `ollama serve`; OLLAMA_BASE_URL says where it is".to_owned(),
    ];
    let mut lines: Vec<&str> = did.out.lines().take(8).collect();
    let fix = lines.remove(3);
    assert!(fix.starts_with("                            for a language model: run Ollama"), "{fix}");
    assert_eq!((did.code, lines), (0, expected.iter().map(String::as_str).collect()));
}

#[test]
fn the_doctor_renders_the_template_once() {
    let world = World::new();
    world.settings("model = \"offline\"\nbehavior_template = \"support.md\"\n");
    let (settings, file) = (
        world.path("home/config/baton/baton.toml").display().to_string(),
        world.path("home/config/baton/templates/support.md"),
    );
    let looked = |code| {
        let did = world.baton(&["doctor", "--json"]);
        assert_eq!(did.code, code, "{did:?}");
        check(&did, "instructions")
    };
    let missing = format!(
        "{settings}:2: the template {} cannot be read: No such file or directory (os error 2)",
        file.display()
    );
    let expected = json!({"name": "instructions", "state": "failed", "detail": missing,
        "fix": "put the file there, or write the template itself as behavior_template"});
    assert_eq!(looked(1), expected);
    let ask = world.baton(&["ask", "hi"]);
    assert_eq!(ask.err.lines().next(), Some(format!("error: {missing}").as_str()));
    world.write("home/config/baton/templates/support.md", "Be kind.\n{{ name }}\n");
    let wrong = "the behavior_template is not right, line 2: undefined value; it may name system, mode, channel and tools";
    let expected = json!({"name": "instructions", "state": "failed", "detail": format!("{}: {wrong}", file.display()),
        "fix": "no run begins before that is right; docs/models.md has examples"});
    assert_eq!(looked(1), expected);
    let ask = world.baton(&["ask", "hi"]);
    assert!(ask.err.contains(wrong), "{}", ask.err);
    world.write("home/config/baton/templates/support.md", "{{ system }} {{ channel }}");
    let expected = json!({"name": "instructions", "state": "ok", "detail": format!("the template {} gives them", file.display())});
    assert_eq!(looked(0), expected);
}

#[test]
fn names_that_fit_nothing_are_warnings_and_one_that_should_wait_for_a_person_is_a_failure() {
    let world = World::new();
    world.settings(
        "model = \"offline\"\n[policy]\ntools = [\"clock\", \"read_*\", \"write_*\"]\napprove = [\"clok\"]\n\
         [render]\nexclude = [\"ToolCallState\", \"Waiting\", \"Toolcall\"]\n",
    );
    let file = world.path("home/config/baton/baton.toml").display().to_string();
    let did = world.baton(&["doctor", "--json"]);
    let found = did.json();
    let checks = found["checks"].as_array().unwrap().iter();
    let told: Vec<Value> = checks.filter(|check| check["name"] == "settings").cloned().collect();
    let (tools, types) = (
        "baton tools ls shows what there is",
        "types are UserMessage, UserResponse, AssistantMessage, ToolCall, ToolResult, AgentCall, AgentResult, Summary; others are never shown to a model",
    );
    let warning = |detail: String, fix: &str| json!({"name": "settings", "state": "warning", "detail": detail, "fix": fix});
    let expected = [
        warning(format!("`policy.tools` (file {file}:3): \"write_*\" fits no tool"), tools),
        json!({"name": "settings", "state": "failed", "fix": tools,
               "detail": format!("`policy.approve` (file {file}:4): \"clok\" fits no tool; did you mean `clock`?")}),
        warning(
            format!(
                "`render.exclude` (file {file}:6): \"Toolcall\" is no type that a model sees; did you mean `ToolCall`?"
            ),
            types,
        ),
    ];
    assert_eq!((did.code, told), (1, expected.to_vec()));
}

#[test]
fn a_window_without_a_place_for_anything_is_a_failure() {
    let world = World::new();
    let system = "x".repeat(4000);
    let look = |window: u64| {
        world.settings(&format!(
            "system = \"{system}\"\n[policy]\ntools = []\n[[roles.reasoning]]\nmodel = \"offline\"\ncontext_window = {window}\nmax_tokens = 24\n",
        ));
        world.baton(&["doctor", "--json"])
    };
    let did = look(1000);
    let expected = json!({"name": "context window", "state": "failed",
        "detail": "instructions and tools (1000 tokens) and an answer (24) do not fit the context_window of offline (1000): 24 too many",
        "fix": "offer fewer tools with policy.tools, shorten the instructions, or say a larger context_window if it has one"});
    assert_eq!((did.code, check(&did, "context window")), (1, expected));
    assert_eq!(look(1024).code, 0);
}
