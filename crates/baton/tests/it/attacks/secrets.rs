//! Keys in unexpected places: inside addresses, encoded, and so short that they are everywhere.

use serde_json::Value;

use crate::server::{Answer, Server};
use crate::world::World;

const KEY: &str = "sk/5ecre7+4242=";
const ENCODED: [&str; 4] =
    ["sk%2F5ecre7%2B4242%3D", "sk%2f5ecre7%2b4242%3d", "c2svNWVjcmU3KzQyNDI9", "bWU6c2svNWVjcmU3KzQyNDI9"];

/// A world whose model is served by this server, with a key in `LAB_KEY`.
fn world(server: &Server) -> World {
    let world = World::new();
    world.settings(&format!(
        "model = \"lab/m\"\n[providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\nkey_env = \"LAB_KEY\"\n",
        server.url()
    ));
    world
}

/// A server that refuses every request in these words.
fn refusing(words: &str) -> Server {
    let body = serde_json::json!({"error": {"message": words}}).to_string();
    Server::deciding(move |_, _| Answer::json(401, &body))
}

#[test]
fn a_key_that_a_server_repeats_encoded_is_not_shown() {
    let server =
        refusing(&format!("bad key in ?k={} and {}, {}, {}", ENCODED[0], ENCODED[1], ENCODED[2], ENCODED[3]));
    let world = world(&server);
    for args in [
        &["ask", "hello"][..],
        &["ask", "--json", "--steps", "hello"],
        &["doctor"],
        &["models", "test", "lab/m"],
    ] {
        let did = world.baton_with(&[("LAB_KEY", KEY)], args);
        let said = format!("{}{}", did.out, did.err);
        assert!(said.contains("bad key in ?k=[redacted] and [redacted], "), "{args:?}: {said}");
        for part in [KEY, "sk%2F", "sk%2f", "5ecre7", "NWVjcmU3"] {
            assert!(!said.contains(part), "{args:?} shows {part}: {said}");
        }
    }
}

#[test]
fn a_key_of_one_letter_takes_no_words_out_and_the_doctor_says_so() {
    let server = refusing("an exact and extra example");
    let world = world(&server);
    let variables = [("LAB_KEY", "x")];
    let did = world.baton_with(&variables, &["ask", "hello"]);
    assert!(
        did.err.contains("an exact and extra example") || did.err.contains("An exact and extra example"),
        "{did:?}"
    );
    let found = world.baton_with(&variables, &["doctor", "--json"]).json();
    let check = found["checks"].as_array().unwrap().iter().find(|check| check["name"] == "provider lab");
    let detail = check.and_then(|check| check["detail"].as_str()).unwrap();
    assert!(
        detail.contains("key: LAB_KEY is set, too short to be hidden where a server repeats it"),
        "{detail}"
    );
}

#[test]
fn addresses_are_shown_without_the_credentials_in_them() {
    let world = World::new();
    world.settings("[telemetry]\nendpoint = \"http://me:pa55word@127.0.0.1:1/v1?api_key=5ecre7&v=2\"\n");
    for args in [&["config", "show"][..], &["config", "show", "--json"]] {
        let did = world.baton(args);
        let said = format!("{}{}", did.out, did.err);
        assert!(!said.contains("pa55word") && !said.contains("5ecre7"), "{said}");
    }
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:pa55word@127.0.0.1:1/v1?api_key=5ecre7&v=2")];
    let shown: Value = world.baton_with(&variables, &["config", "show", "--json"]).json();
    assert!(!shown.to_string().contains("pa55word") && !shown.to_string().contains("5ecre7"), "{shown}");
}
