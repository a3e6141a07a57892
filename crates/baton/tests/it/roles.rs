//! The tables of `baton.toml` and their effect on the requests to a model's server.

use serde_json::{Value, json};

use crate::imitation::{compatible, ollama};
use crate::server::{Answer, Server};
use crate::world::World;

fn body(server: &Server, at: usize) -> Value {
    serde_json::from_str(&server.requests()[at].body).unwrap()
}

#[test]
fn what_a_role_says_reaches_the_model() {
    let (world, server) = (World::new(), ollama(&["x:latest"], ["<think>Hm.</think>", "Yes."]));
    world.settings(&format!(
        "[providers.ollama]\nbase_url = \"{}\"\n\
         [[roles.reasoning]]\nmodel = \"ollama/x\"\ntemperature = 0.5\nmax_tokens = 77\ncontext_window = 32768\nthink_tags = true\n",
        server.url()
    ));
    let did = world.baton(&["ask", "--thread", "t", "Hello"]);
    assert_eq!((did.code, did.out.as_str()), (0, "Yes.\n"), "{did:?}");
    let options = json!({"temperature": 0.5, "num_predict": 77, "num_ctx": 32768});
    assert_eq!(body(&server, 0)["options"], options);
    let shown = world.baton(&["ask", "--thread", "t", "--show-reasoning", "Again"]);
    assert!(shown.err.contains("Hm.") && shown.out == "Yes.\n", "{shown:?}");
    let named = world.baton(&["ask", "--model", "ollama/x", "Hello"]);
    assert_eq!(named.code, 0);
    assert_eq!(body(&server, 2)["options"], options, "what is known of a model holds when it is named, too");
}

#[test]
fn calls_that_are_written_as_text_are_calls() {
    let call = "<tool_call>{\"name\": \"calculator\", \"arguments\": {\"expression\": \"6*7\"}}</tool_call>";
    let server = Server::deciding(move |n, request| {
        let line = |content: &str, done: bool| {
            let message = json!({"role": "assistant", "content": content});
            let mut line = json!({"model": "x", "message": message, "done": done});
            if done {
                line["done_reason"] = json!("stop");
            }
            format!("{line}\n")
        };
        assert_eq!(request.path, "/api/chat");
        let said = if n == 0 { call } else { "It is 42." };
        Answer::stream("application/x-ndjson").chunk(line(said, false)).chunk(line("", true)).end()
    });
    let world = World::new();
    world.settings(&format!(
        "[providers.ollama]\nbase_url = \"{}\"\n[[roles.reasoning]]\nmodel = \"ollama/x\"\ntool_call_tags = true\n",
        server.url()
    ));
    let did = world.baton(&["ask", "What is 6*7?"]);
    assert_eq!((did.code, did.out.as_str()), (0, "It is 42.\n"), "{did:?}");
    assert!(did.err.contains("→ calculator {\"expression\":\"6*7\"}"), "{}", did.err);
}

#[test]
fn a_time_limit_of_the_file_is_kept() {
    let server = Server::deciding(|_, _| Answer::stream("application/x-ndjson").stall());
    let world = World::new();
    world.settings(&format!(
        "[providers.ollama]\nbase_url = \"{}\"\n[[roles.reasoning]]\nmodel = \"ollama/x\"\nfirst_byte_s = 1\n",
        server.url()
    ));
    let did = world.baton(&["ask", "Hello"]);
    assert_eq!(did.code, 1, "{did:?}");
    assert!(did.err.contains("the run failed (llm_timeout): "), "{}", did.err);
}

#[test]
fn an_unset_api_is_found_out_and_a_set_one_is_taken_at_its_word() {
    let (world, server) = (World::new(), compatible(["Well ", "met."]));
    let provider = |more: &str| {
        format!("model = \"lab/big\"\n[providers.lab]\nbase_url = \"{}/v1\"\n{more}", server.url())
    };
    world.settings(&provider(""));
    let did = world.baton(&["ask", "Hello"]);
    assert_eq!((did.code, did.out.as_str()), (0, "Well met.\n"), "{did:?}");
    world.settings(&provider("api = \"anthropic\"\n"));
    let asked = server.requests().len();
    let did = world.baton(&["ask", "Hello"]);
    assert_eq!(did.code, 1, "{did:?}");
    assert!(server.paths()[asked..].iter().all(|path| path == "/v1/messages"), "{:?}", server.paths());
}

#[test]
fn entries_that_are_left_out_are_not_sent() {
    let (world, server) = (World::new(), ollama(&["x:latest"], ["a ", "b"]));
    world.settings(&format!(
        "model = \"ollama/x\"\nsystem = \"\"\nlast_n = 2\n[providers.ollama]\nbase_url = \"{}\"\n[render]\npolicy = \"last_n\"\nexclude = [\"AssistantMessage\"]\n",
        server.url()
    ));
    for text in ["one", "two", "three"] {
        assert_eq!(world.baton(&["ask", "--thread", "t", text]).code, 0);
    }
    assert_eq!(body(&server, 2)["messages"], json!([{"role": "user", "content": "three"}]));
}
