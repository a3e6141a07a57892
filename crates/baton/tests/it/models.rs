//! `baton models`, and the errors of a wrong configuration of models.

use serde_json::{Value, json};

use crate::imitation::{compatible, ollama};
use crate::server::Server;
use crate::world::World;

/// The hint of these commands about changing the model.
const CHANGE: &str = "BATON_MODEL or baton.toml changes it, as does --model of ask and chat";

/// Two providers, two roles, a price.
pub(crate) fn configured(ollama: &Server, lab: &Server) -> World {
    let world = World::new();
    world.settings(&format!(
        "[providers.ollama]\nbase_url = \"{}\"\n\
         [providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\n\
         [[roles.reasoning]]\nmodel = \"lab/big\"\ncontext_window = 32768\ntemperature = 0.2\n\
         [[roles.reasoning]]\nmodel = \"openai/gpt-5-mini\"\n\
         [[roles.router]]\nmodel = \"ollama/small\"\n\
         [prices.\"openai/gpt-5-mini\"]\ninput = 0.25\noutput = 2\n",
        ollama.url(),
        lab.url()
    ));
    world
}

/// A text without its times, which are never the same twice.
fn without_times(text: &str) -> String {
    let masked = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        while let Some(at) = words.iter().position(|word| *word == "ms" || *word == "s") {
            words.splice(at - 1..=at, ["TIME"]);
        }
        words.join(" ")
    };
    text.lines().map(masked).collect::<Vec<_>>().join("\n")
}

#[test]
fn roles_are_listed_with_everybody_who_may_answer() {
    let (ollama, lab) = (ollama(&["small:latest"], ["a", "b"]), compatible(["a", "b"]));
    let did = configured(&ollama, &lab).baton(&["models", "ls"]);
    let expected = "\
ROLE       MODEL              WHERE           API               CONTEXT  USD PER MILLION  KEY
reasoning  lab/big            this machine    chat_completions  32768    0 in, 0 out      not needed
           openai/gpt-5-mini  api.openai.com  responses         -        0.25 in, 2 out   OPENAI_API_KEY is not set
router     ollama/small       this machine    ollama            -        0 in, 0 out      not needed
coding     lab/big            this machine    chat_completions  32768    0 in, 0 out      not needed
           openai/gpt-5-mini  api.openai.com  responses         -        0.25 in, 2 out   OPENAI_API_KEY is not set
";
    assert_eq!((did.code, did.out.as_str()), (0, expected));
    let told = format!(
        "lab/big, for short questions ollama/small (the roles in baton.toml) · nothing but page visits leaves this machine · {CHANGE}\n"
    );
    assert_eq!(did.err, told);
    assert!(ollama.requests().is_empty() && lab.requests().is_empty(), "listing asks nobody");
}

#[test]
fn a_model_without_its_key_is_listed_and_tried() {
    let world = World::new();
    world.settings("model = \"openai/gpt-5-mini\"\n");
    let told = format!(
        "openai/gpt-5-mini (`model` in baton.toml) · nothing but page visits leaves this machine until it has its key · {CHANGE}\n"
    );
    let did = world.baton(&["models", "ls"]);
    let expected = "\
ROLE       MODEL              WHERE           API        CONTEXT  USD PER MILLION  KEY
reasoning  openai/gpt-5-mini  api.openai.com  responses  -        not known        OPENAI_API_KEY is not set
router     openai/gpt-5-mini  api.openai.com  responses  -        not known        OPENAI_API_KEY is not set
coding     openai/gpt-5-mini  api.openai.com  responses  -        not known        OPENAI_API_KEY is not set
";
    assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (0, expected, told.as_str()));
    let did = world.baton(&["models", "test"]);
    let missing = "the key of openai is expected in OPENAI_API_KEY; it is not set";
    let expected = format!(
        "MODEL ANSWERS FIRST BYTE IN ALL STREAMED TOOLS STRUCTURED READ WRITTEN\n\
         openai/gpt-5-mini no - - - - - - -\n\nopenai/gpt-5-mini, answer (llm_auth): {missing}"
    );
    assert_eq!((did.code, without_times(&did.out), did.err), (1, expected, told));
    let ask = world.baton(&["ask", "Hello"]);
    assert_eq!((ask.code, ask.err.lines().next()), (2, Some(format!("error: {missing}").as_str())));
}

#[test]
fn the_list_is_a_document_too() {
    let (ollama, lab) = (ollama(&[], ["a", "b"]), compatible(["a", "b"]));
    let document = configured(&ollama, &lab).baton(&["models", "ls", "--json"]).json();
    let of_lab = json!({
        "model": "lab/big", "provider": "lab", "base_url": lab.url(), "api": "chat_completions", "local": true,
        "temperature": 0.2, "max_tokens": null, "context_window": 32768, "price": {"input": 0.0, "output": 0.0},
        "key": "not needed",
    });
    let of_openai = json!({
        "model": "openai/gpt-5-mini", "provider": "openai", "base_url": "https://api.openai.com",
        "api": "responses", "local": false, "temperature": null, "max_tokens": null, "context_window": null,
        "price": {"input": 0.25, "output": 2.0}, "key": "OPENAI_API_KEY is not set",
    });
    let of_ollama = json!({
        "model": "ollama/small", "provider": "ollama", "base_url": ollama.url(), "api": "ollama", "local": true,
        "temperature": null, "max_tokens": null, "context_window": null, "price": {"input": 0.0, "output": 0.0},
        "key": "not needed",
    });
    let expected = json!({
        "why": "the roles in baton.toml", "leaves_this_machine": false, "hosts": [], "warnings": [],
        "roles": [
            {"role": "reasoning", "candidates": [of_lab, of_openai]},
            {"role": "router", "candidates": [of_ollama]},
            {"role": "coding", "candidates": [of_lab, of_openai]},
        ],
    });
    assert_eq!(document, expected);
    let offline = World::new().baton(&["models", "ls", "--json"]).json();
    let candidate = json!({
        "model": "offline", "provider": null, "base_url": null, "api": null, "local": true, "temperature": null,
        "max_tokens": null, "context_window": null, "price": {"input": 0.0, "output": 0.0}, "key": null,
    });
    assert_eq!(offline["roles"][0], json!({"role": "reasoning", "candidates": [candidate]}));
}

#[test]
fn models_are_tried_out_and_one_that_is_silent_fails_the_command() {
    let (ollama, lab) = (ollama(&["small:latest"], ["one ", "two"]), compatible(["one ", "two"]));
    let world = configured(&ollama, &lab);
    let did = world.baton(&["models", "test"]);
    let expected = "\
MODEL ANSWERS FIRST BYTE IN ALL STREAMED TOOLS STRUCTURED READ WRITTEN
lab/big yes TIME TIME yes yes yes 12 3
openai/gpt-5-mini no - - - - - - -
ollama/small yes TIME TIME yes yes yes 12 3

openai/gpt-5-mini, answer (llm_auth): the key of openai is expected in OPENAI_API_KEY; it is not set";
    let told = format!(
        "lab/big, for short questions ollama/small (the roles in baton.toml) · nothing but page visits leaves this machine · {CHANGE}\n"
    );
    assert_eq!((did.code, without_times(&did.out), did.err), (1, expected.to_owned(), told));
    let did = world.baton(&["models", "test", "ollama/small", "--json"]);
    let mut document = did.json();
    let tried = document["models"][0].as_object_mut().unwrap();
    assert!(["first_ms", "total_ms"].iter().all(|name| tried.remove(*name).unwrap().is_u64()));
    let expected = json!({"ok": true, "models": [{
        "model": "ollama/small", "api": "ollama", "local": true, "answers": true, "streamed": true, "tools": true,
        "structured": true, "usage": {"prompt_tokens": 12, "completion_tokens": 3, "cost_usd": 0.0}, "problems": [],
    }]});
    assert_eq!((did.code, document), (0, expected));
}

#[test]
fn a_model_that_cannot_be_reached_says_so() {
    let world = World::new();
    let nobody = Server::nobody();
    let did = world.baton_with(&[("OLLAMA_BASE_URL", &nobody)], &["models", "test", "--json"]);
    let document = did.json();
    let tried = &document["models"][0];
    assert_eq!(
        (did.code, &document["ok"], &tried["model"]),
        (1, &json!(false), &json!("ollama/llama3.2:3b"))
    );
    assert_eq!((&tried["answers"], &tried["problems"][0]["code"]), (&json!(false), &json!("llm_connection")));
    let wrong = world.baton(&["models", "test", "gpt"]);
    assert_eq!((wrong.code, wrong.out.as_str()), (2, ""));
    assert!(
        wrong.err.starts_with("error: \"gpt\" is no model's name\n  there are anthropic/MODEL, "),
        "{}",
        wrong.err
    );
}

#[test]
fn what_is_probably_not_meant_is_told_beside_the_list() {
    let world = World::new();
    world.settings(
        "[[roles.reasonning]]\nmodel = \"offline\"\n\
         [[roles.router]]\nmodel = \"offline\"\nmax_tokens = 300\ncontext_window = 1000\n",
    );
    let file = world.path("home/config/baton/baton.toml");
    let warnings = [
        format!(
            "{}:2: `roles.reasonning` is a role of your own, which nobody asks for; did you mean `reasoning`?",
            file.display()
        ),
        format!(
            "{}:5: `roles.router[0].max_tokens` is 300, but answers are cut to 250 tokens: a quarter of the window",
            file.display()
        ),
    ];
    let did = world.baton(&["models", "ls"]);
    let told: Vec<String> = did.err.lines().skip(1).map(str::to_owned).collect();
    assert_eq!((did.code, told), (0, warnings.each_ref().map(|words| format!("warning: {words}")).to_vec()));
    assert_eq!(world.baton(&["models", "ls", "--json"]).json()["warnings"], json!(warnings));
    let doctor = world.baton(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "roles");
    let found: Vec<(&Value, &Value)> = checks.map(|check| (&check["state"], &check["detail"])).collect();
    let (state, expected) = (json!("warning"), warnings.map(|words| json!(words)));
    assert_eq!(found, expected.iter().map(|words| (&state, words)).collect::<Vec<_>>());
}

#[test]
fn a_wrong_table_is_told_with_its_line_by_every_command() {
    let world = World::new();
    let file = world.path("home/config/baton/baton.toml");
    world.settings("[[roles.reasoning]]\nmodel = \"lab/big\"\n");
    let there = "there are anthropic/MODEL, ollama/MODEL, openai/MODEL, `offline` and `scripted/FILE`; [providers.NAME] in baton.toml adds a provider";
    let expected = format!(
        "error: {}:2: `roles.reasoning[0]`: there is no provider \"lab\"\n  {there}\n",
        file.display()
    );
    for command in ["ask hi", "chat", "models ls", "threads ls", "config show"] {
        let did = world.baton(&command.split(' ').collect::<Vec<_>>());
        assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (2, "", expected.as_str()), "{command}");
    }
    let did = World::new().baton_with(&[("OLLAMA_BASE_URL", "localhost:11434")], &["ask", "hi"]);
    let expected = "error: OLLAMA_BASE_URL: `providers.ollama.base_url`: only http and https are spoken\n  \
                    write it like http://127.0.0.1:11434 or https://host/v1; a key is named by key_env or key_file\n";
    assert_eq!((did.code, did.err.as_str()), (2, expected));
}

#[test]
fn tables_are_shown_with_where_they_came_from() {
    let world = World::new();
    world.settings(
        "[providers.ollama]\nbase_url = \"http://127.0.0.1:2\"\n[[roles.router]]\nmodel = \"ollama/x\"\n",
    );
    let shown =
        world.baton_with(&[("OLLAMA_BASE_URL", "http://127.0.0.1:3")], &["config", "show", "--json"]).json();
    let settings = shown["settings"].as_array().unwrap();
    let tables: Vec<&Value> = settings.iter().rev().take(2).rev().collect();
    let file = world.path("home/config/baton/baton.toml");
    let expected = [
        json!({"key": "providers.ollama.base_url", "value": "http://127.0.0.1:3", "from": "environment", "place": "OLLAMA_BASE_URL"}),
        json!({"key": "roles.router[0].model", "value": "ollama/x", "from": "file", "place": format!("{}:4", file.display())}),
    ];
    assert_eq!(tables, expected.iter().collect::<Vec<_>>());
}

#[test]
fn every_table_that_is_shown_is_right() {
    let pages = crate::tidy::texts().into_iter().filter(|file| file.path.ends_with(".md"));
    let mut count = 0;
    for page in pages {
        for block in page.text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let world = World::new();
            world.settings(block);
            let did = world.baton(&["config", "show"]);
            assert_eq!(did.code, 0, "{}: {}\n{block}", page.path, did.err);
            count += 1;
        }
    }
    assert!(count >= 10, "{count}");
}
