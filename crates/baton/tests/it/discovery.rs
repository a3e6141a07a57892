//! The choice of the model with and without configuration; a configured model is never replaced.

use serde_json::{Value, json};

use crate::imitation::{compatible, ollama, said_to, tags};
use crate::lab::{Lab, says};
use crate::server::{Answer, Server};
use crate::world::{AS_EVER, PATIENT, World};

const LLAMA: &[&str] = &["other:latest", "llama3.2:3b"];
/// The note about page visits where everything else stays on this machine.
const HERE: &str = "nothing but page visits leaves this machine";

/// The line that `ask` prints beside its answer, without the thread and the run.
fn introduced(err: &str) -> &str {
    let line = err.lines().next().unwrap();
    assert!(line.chars().count() <= 100, "{line}");
    line.split(" · thread ").next().unwrap()
}

/// The line after it, where no model is configured.
fn reason(err: &str) -> &str {
    err.lines().nth(1).unwrap()
}

#[test]
fn an_ollama_that_has_the_model_answers_by_itself() {
    let (world, server) = (World::new(), ollama(LLAMA, ["Good ", "day."]));
    let did = world.baton_with(&[("BATON_TEST_OLLAMA", &server.url())], &["ask", "Hello"]);
    assert_eq!((did.code, did.out.as_str()), (0, "Good day.\n"), "{did:?}");
    assert_eq!(introduced(&did.err), format!("ollama/llama3.2:3b · {HERE}"));
    assert_eq!(server.paths(), ["/api/tags", "/api/chat"]);
    let body: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
    assert_eq!((&body["model"], &body["options"]["temperature"]), (&json!("llama3.2:3b"), &json!(0.0)));
    assert_eq!(said_to(&server.requests()[1]), [json!({"role": "user", "content": "Hello"})]);
}

#[test]
fn an_ollama_without_the_model_is_left_alone_and_told() {
    let world = World::new();
    let server = ollama(&["qwen3:8b", "other:latest", "third:latest"], ["x", "y"]);
    let here = [("BATON_TEST_OLLAMA", &*server.url())];
    let why =
        "nothing is configured, and Ollama runs here and has qwen3:8b (and 2 more): --model ollama/qwen3:8b";
    let did = world.baton_with(&here, &["ask", "What is 1+1?"]);
    assert_eq!((did.code, introduced(&did.err)), (0, format!("offline · {HERE}").as_str()));
    assert_eq!(reason(&did.err), format!("{why}; baton doctor says what helps"));
    assert_eq!(server.paths(), ["/api/tags"]);
    let doctor = world.baton_with(&here, &["doctor", "--json"]).json();
    let model = doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == "model").unwrap();
    let told =
        format!("offline ({why}); nothing but page visits leaves this machine; it is no language model");
    assert_eq!(model["detail"], told);
}

#[test]
fn a_server_that_is_slow_or_no_ollama_is_not_waited_for() {
    let stalls = Server::deciding(|_, _| Answer::nothing().stall());
    let other = Server::answering([Answer::whole(200, &[("content-type", "text/html")], "<html>")]);
    let slow = "nothing is configured, and the Ollama here did not answer within 300 ms";
    let none = "nothing is configured, and no Ollama here has llama3.2:3b";
    for (server, patience, why) in [(&stalls, AS_EVER, slow), (&other, PATIENT, none)] {
        let variables = [("BATON_TEST_OLLAMA", &*server.url()), patience];
        let did = World::new().baton_with(&variables, &["ask", "What is 1+1?"]);
        assert_eq!((did.code, introduced(&did.err)), (0, format!("offline · {HERE}").as_str()));
        assert_eq!(reason(&did.err), format!("{why}; baton doctor says what helps"));
    }
    // On a busy machine, the time may be up before anything was sent.
    assert!(stalls.paths().iter().all(|path| path == "/api/tags"), "{:?}", stalls.paths());
    assert_eq!(other.paths(), ["/api/tags"]);
}

#[test]
fn commands_that_ask_no_model_look_for_nobody() {
    let (world, server) = (World::new(), ollama(LLAMA, ["x", "y"]));
    let here = server.url();
    let quiet = [
        "threads ls",
        "runs ls",
        "approvals ls",
        "tools ls",
        "usage",
        "config show",
        "completions bash",
        "init",
    ];
    for command in quiet {
        let args: Vec<&str> = command.split(' ').collect();
        assert_eq!(world.baton_with(&[("BATON_TEST_OLLAMA", &here)], &args).code, 0, "{command}");
    }
    let named =
        world.baton_with(&[("BATON_TEST_OLLAMA", &here)], &["ask", "--model", "offline", "What is 1+1?"]);
    assert_eq!(introduced(&named.err), format!("offline · {HERE}"));
    assert!(!named.err.contains("configured"), "it was named: {}", named.err);
    let nobody: Vec<String> = Vec::new();
    assert_eq!(server.paths(), nobody);
}

#[test]
fn a_configured_ollama_that_is_down_is_a_failure_and_never_offline() {
    let nobody = Server::nobody();
    let by_variable = |world: &World| world.baton_with(&[("OLLAMA_BASE_URL", &nobody)], &["ask", "Hello"]);
    let by_file = |world: &World| {
        world.settings(&format!("[providers.ollama]\nbase_url = \"{nobody}\"\n"));
        world.baton(&["ask", "Hello"])
    };
    let by_model = |world: &World| {
        world.settings("model = \"ollama/llama3.2:3b\"\n");
        world.baton(&["ask", "Hello"])
    };
    let by_role = |world: &World| {
        world.settings("[[roles.reasoning]]\nmodel = \"ollama/llama3.2:3b\"\n");
        world.baton(&["ask", "Hello"])
    };
    let by_flag = |world: &World| world.baton(&["ask", "--model", "ollama/llama3.2:3b", "Hello"]);
    let ways: [&dyn Fn(&World) -> crate::stage::Did; 5] =
        [&by_variable, &by_file, &by_model, &by_role, &by_flag];
    for ask in ways {
        let did = ask(&World::new());
        assert_eq!(did.code, 1, "{did:?}");
        assert!(did.err.contains("the run failed (llm_connection): "), "{}", did.err);
        assert!(!did.err.contains("offline") && !did.out.contains("offline"), "{did:?}");
        assert!(introduced(&did.err).starts_with("ollama/llama3.2:3b · "), "{}", did.err);
    }
}

#[test]
fn where_ollama_is_may_be_said_by_a_variable() {
    let (world, server) = (World::new(), ollama(LLAMA, ["Good ", "day."]));
    let did = world.baton_with(&[("OLLAMA_BASE_URL", &server.url())], &["ask", "Hello"]);
    assert_eq!((did.code, did.out.as_str()), (0, "Good day.\n"));
    assert_eq!(introduced(&did.err), format!("ollama/llama3.2:3b · {HERE}"));
    assert_eq!(server.paths(), ["/api/chat"], "what is configured is not looked for");
}

#[test]
fn text_that_leaves_this_machine_is_told_with_its_host() {
    // The proxy is on loopback: nothing of this test leaves the machine, though Baton cannot know that.
    let (world, proxy) = (World::new(), compatible(["From ", "afar."]));
    world.settings("[providers.lab]\nbase_url = \"http://models.example/v1\"\napi = \"chat_completions\"\n");
    let variables = [("HTTP_PROXY", proxy.url()), ("http_proxy", proxy.url())];
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, url)| (*name, url.as_str())).collect();
    let did = world.baton_with(&variables, &["ask", "--model", "lab/big", "Hello"]);
    assert_eq!((did.code, did.out.as_str()), (0, "From afar.\n"), "{did:?}");
    let told = "lab/big · text goes to models.example";
    assert_eq!(introduced(&did.err), told);
    let chat = world.command(&["chat", "--model", "lab/big"]).output().unwrap();
    let chat = String::from_utf8(chat.stderr).unwrap();
    assert_eq!(introduced(&chat), told);
    let listed = world.baton_with(&[("BATON_MODEL", "lab/big")], &["models", "ls", "--json"]).json();
    let found = (&listed["leaves_this_machine"], &listed["hosts"], &listed["why"]);
    assert_eq!(found, (&json!(true), &json!(["models.example"]), &json!("named by BATON_MODEL")));
}

#[test]
fn a_key_alone_chooses_its_provider() {
    let world = World::new();
    let who = |variables: &[(&str, &str)]| {
        let listed = world.baton_with(variables, &["models", "ls", "--json"]).json();
        (listed["roles"][0]["candidates"][0]["model"].clone(), listed["why"].clone(), listed["hosts"].clone())
    };
    let (openai, anthropic) = (("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", "sk-2"));
    let first = (json!("openai/gpt-5-mini"), json!("OPENAI_API_KEY is set"), json!(["api.openai.com"]));
    assert_eq!(who(&[openai, anthropic]), first);
    let second = (
        json!("anthropic/claude-sonnet-4-5"),
        json!("ANTHROPIC_API_KEY is set"),
        json!(["api.anthropic.com"]),
    );
    assert_eq!(who(&[anthropic]), second);
    let server = Server::deciding(|_, _| tags(LLAMA));
    let ollama = ("BATON_TEST_OLLAMA", server.url());
    let third = (json!("ollama/llama3.2:3b"), json!("Ollama runs here and has it"), json!([]));
    assert_eq!(who(&[openai, (ollama.0, &ollama.1)]), third, "what stays here comes first");
    assert_eq!(who(&[("OPENAI_API_KEY", "")]).0, json!("offline"), "an empty variable is none");
}

#[test]
fn an_answer_goes_to_the_models_of_the_run_that_asked() {
    let world = World::new();
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}]},
        {"do": [{"text": "You like {last_result}."}]},
    ]}));
    assert_eq!(world.baton(&["ask", "--thread", "t", "--model", &model, "hi"]).code, 3);
    let did = world.baton(&["ask", "--thread", "t", "blue"]);
    assert_eq!((did.code, did.out.as_str()), (0, "You like blue.\n"), "{did:?}");
    let told = introduced(&did.err);
    let (who, text) = told.split_once(" · ").unwrap();
    assert!(model.starts_with(who.trim_end_matches('…')) && who.starts_with("scripted/"), "{told}");
    assert!([HERE, "only page visits leave this machine"].contains(&text), "{told}");
}

#[test]
fn a_role_s_second_model_stands_in_for_the_first() {
    let (world, server) = (World::new(), compatible(["I stand ", "in."]));
    world.settings(&format!(
        "[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\n\
         [[roles.reasoning]]\nmodel = \"ollama/gone\"\n[[roles.reasoning]]\nmodel = \"lab/big\"\n",
        server.url()
    ));
    let did = world.baton(&["ask", "Hello"]);
    assert_eq!((did.code, did.out.as_str()), (0, "I stand in.\n"), "{did:?}");
    assert_eq!(introduced(&did.err), format!("ollama/gone · {HERE}"));
}

#[test]
fn who_is_asked_what_is_short_is_told_and_a_channel_may_have_somebody_of_its_own() {
    let lab = Lab::new([("small", says("Paris.")), ("coder", says("sort()"))]);
    let told = |args: &[&str]| {
        let did = lab.world.baton(&[&["ask"], args].concat());
        assert_eq!(did.code, 0, "{did:?}");
        introduced(&did.err).to_owned()
    };
    let both = "lab/large or lab/small · nothing but page visits leaves this machine";
    assert_eq!(told(&["--thread", "t", "What is the capital of France?"]), both);
    // There are no tools there, so no page is visited.
    let coder = "lab/coder · nothing leaves this machine";
    assert_eq!(told(&["--channel", "CODE_TASK", "Sort a list"]), coder);
}

#[test]
fn a_stand_in_elsewhere_is_told_if_it_can_be_asked() {
    let (world, server) = (World::new(), compatible(["From ", "here."]));
    world.settings(&format!(
        "[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\n\
         [[roles.reasoning]]\nmodel = \"lab/big\"\n[[roles.reasoning]]\nmodel = \"openai/gpt-5-mini\"\n",
        server.url()
    ));
    let told = |variables: &[(&str, &str)]| {
        let did = world.baton_with(variables, &["ask", "Hello"]);
        assert_eq!((did.code, did.out.as_str()), (0, "From here.\n"), "{did:?}");
        introduced(&did.err).to_owned()
    };
    assert_eq!(told(&[]), format!("lab/big · {HERE}"));
    // The whole line does not fit: that text may leave does.
    assert_eq!(told(&[("OPENAI_API_KEY", "sk-1")]), "lab/big · text may go to api.openai.com");
}

#[test]
fn a_wrong_name_says_where_it_was_given() {
    let world = World::new();
    let first = |did: crate::stage::Did| (did.code, did.err.lines().next().unwrap_or_default().to_owned());
    let told = |place: &str, why: &str| (2, format!("error: {place}: {why}"));
    let meant = "\"llama3.2:3b\" is no model's name; did you mean `ollama/llama3.2:3b`?";
    let by_flag = world.baton(&["ask", "--model", "llama3.2:3b", "hi"]);
    assert_eq!(first(by_flag), told("--model", meant));
    let by_variable = |name| world.baton_with(&[("BATON_MODEL", name)], &["models", "ls"]);
    let meant = "there is no provider \"olama\"; did you mean `ollama`?";
    assert_eq!(first(by_variable("olama/x")), told("BATON_MODEL", meant));
    world.settings("last_n = 4\nmodel = \"olama/x\"\n");
    let place = format!("{}:2: `model`", world.path("home/config/baton/baton.toml").display());
    assert_eq!(first(world.baton(&["ask", "hi"])), told(&place, meant));
}
