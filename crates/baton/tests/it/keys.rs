//! Keys: read from their place into one header, and stored nowhere else.

use std::path::Path;

use serde_json::json;

use crate::imitation::{compatible, ollama};
use crate::server::{Answer, Server};
use crate::stage::Did;
use crate::world::World;

const KEY: &str = "sk-test-5ecre7-4242";

/// The files of Baton's folders that hold the key.
fn left_behind(folder: &Path, except: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() {
            found.extend(left_behind(&path, except));
        } else if path != except && contains(&std::fs::read(&path).unwrap()) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn contains(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

fn is_silent(did: &Did) {
    assert!(!contains(did.out.as_bytes()) && !contains(did.err.as_bytes()), "{did:?}");
}

/// The commands of a user who looks for a problem.
const COMMANDS: [&str; 8] = [
    "ask -vvv Hello",
    "ask --json --steps Hello",
    "models ls",
    "models ls --json",
    "models test -vvv",
    "doctor --json",
    "config show",
    "config show --json",
];

#[test]
fn a_key_reaches_the_header_and_nothing_else() {
    for place in ["key_env = \"LAB_KEY\"", "key_file = \"lab.key\""] {
        let (world, server) = (World::new(), compatible(["Well ", "met."]));
        world.settings(&format!(
            "model = \"lab/big\"\n[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\n{place}\n",
            server.url()
        ));
        let file = world.write("home/config/baton/lab.key", &format!("{KEY}\n"));
        let variables: &[(&str, &str)] = if place.contains("env") { &[("LAB_KEY", KEY)] } else { &[] };
        for command in COMMANDS {
            let did = world.baton_with(variables, &command.split(' ').collect::<Vec<_>>());
            assert_eq!(did.code, 0, "{command}: {did:?}");
            is_silent(&did);
        }
        for request in server.requests() {
            let bearer = format!("Bearer {KEY}");
            assert_eq!(request.header("authorization"), Some(bearer.as_str()), "{}", request.path);
            let elsewhere = request.headers.iter().filter(|(name, _)| name != "authorization");
            assert!(
                elsewhere.into_iter().all(|(_, value)| !value.contains(KEY)) && !request.body.contains(KEY)
            );
        }
        assert_eq!(left_behind(&world.path(""), &file), Vec::<String>::new());
    }
}

#[test]
fn a_key_in_place_of_its_file_is_repeated_by_no_command() {
    let (world, server) = (World::new(), compatible(["Well ", "met."]));
    world.settings(&format!(
        "model = \"lab/big\"\n[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\nkey_file = \"{KEY}\"\n",
        server.url()
    ));
    for command in COMMANDS.into_iter().chain(["doctor", "chat", "-vvv", "ask --model lab/other Hello"]) {
        is_silent(&world.baton(&command.split(' ').collect::<Vec<_>>()));
    }
    let shown = world.baton(&["config", "show", "--json"]).json();
    let place = format!("{}:5", world.path("home/config/baton/baton.toml").display());
    let expected = json!({"key": "providers.lab.key_file", "value": "(set)", "from": "file", "place": place});
    assert_eq!(shown["settings"].as_array().unwrap().last(), Some(&expected));
    let shown = world.baton(&["config", "show"]).out;
    let words: Vec<&str> = shown.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(words, ["providers.lab.key_file", "=", "(set)", "#", "file", place.as_str()]);
    assert!(server.requests().is_empty());
}

#[test]
fn a_server_that_repeats_the_key_does_not_make_us_do_so() {
    let world = World::new();
    let body = json!({"error": {"message": format!("Incorrect API key provided: {KEY}."), "code": "invalid_api_key"}});
    let server = Server::deciding(move |_, _| Answer::json(401, &body.to_string()));
    world.settings(&format!(
        "model = \"lab/big\"\n[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\nkey_env = \"LAB_KEY\"\n",
        server.url()
    ));
    for (command, code) in
        [("ask -vvv Hello", 1), ("ask --json --steps Hello", 1), ("models test", 1), ("doctor", 1)]
    {
        let did = world.baton_with(&[("LAB_KEY", KEY)], &command.split(' ').collect::<Vec<_>>());
        assert_eq!(did.code, code, "{command}: {did:?}");
        is_silent(&did);
        let said = did.out + &did.err;
        assert!(said.contains("did not accept the key (status 401)"), "{command}: {said}");
    }
    assert_eq!(left_behind(&world.path(""), Path::new("")), Vec::<String>::new());
}

#[test]
fn a_key_that_is_missing_is_told_before_anything_is_sent() {
    let (world, server) = (World::new(), compatible(["x", "y"]));
    let provider = format!("[providers.lab]\nbase_url = \"{}/v1\"\n", server.url());
    world.settings(&format!("{provider}key_env = \"LAB_KEY\"\n"));
    let did = world.baton(&["ask", "--model", "lab/big", "Hello"]);
    let expected = "error: the key of lab is expected in LAB_KEY; it is not set\n  \
                    export LAB_KEY=…; [providers.lab] in baton.toml names another place\n";
    assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (2, "", expected));
    world.settings(&format!("model = \"lab/big\"\n{provider}key_file = \"{KEY}\"\n"));
    let did = world.baton(&["ask", "Hello"]);
    let file = world.path("home/config/baton/baton.toml");
    let expected = format!(
        "error: {}:4: `providers.lab.key_file` names the file of a key; it cannot be read: No such file or directory (os error 2)\n  \
         put the key alone into that file, and let nobody else read it\n",
        file.display()
    );
    assert_eq!(
        (did.code, did.out.as_str(), did.err.as_str()),
        (2, "", expected.as_str()),
        "the path is not repeated"
    );
    let doctor = world.baton(&["doctor"]);
    assert_eq!(doctor.code, 1);
    is_silent(&doctor);
    assert!(server.requests().is_empty());
    assert_eq!(world.baton(&["threads", "ls"]).code, 0, "who asks no model needs no key");
}

#[test]
fn the_key_of_one_provider_is_not_sent_to_another() {
    let (world, server) = (World::new(), ollama(&["x:latest"], ["a ", "b"]));
    let variables = [("OLLAMA_BASE_URL", server.url()), ("OPENAI_API_KEY", KEY.to_owned())];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(world.baton_with(&variables, &["ask", "--model", "ollama/x", "Hello"]).code, 0);
    let sent = server.requests();
    assert!(sent.iter().all(|request| request.headers.iter().all(|(_, value)| !value.contains(KEY))));
    assert_eq!(sent.len(), 1);
}

#[test]
fn a_key_that_others_can_read_is_a_warning() {
    let (world, server) = (World::new(), compatible(["x", "y"]));
    world.settings(&format!(
        "model = \"lab/big\"\n[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\nkey_file = \"lab.key\"\n",
        server.url()
    ));
    let file = world.write("home/config/baton/lab.key", KEY);
    let look = |mode: u32| {
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let did = world.baton(&["doctor", "--json"]);
        is_silent(&did);
        let found = did.json();
        let checks = found["checks"].as_array().unwrap().iter();
        (did.code, checks.filter(|check| check["name"] == "key of lab").cloned().collect::<Vec<_>>())
    };
    let place = format!("{}:5", world.path("home/config/baton/baton.toml").display());
    let expected = json!({"name": "key of lab", "state": "warning", "fix": "chmod 600 on that file",
        "detail": format!("the file of `providers.lab.key_file` (file {place}) can be read by others (mode 640)")});
    assert_eq!(look(0o640), (0, vec![expected]));
    assert_eq!(look(0o600), (0, vec![]));
}
