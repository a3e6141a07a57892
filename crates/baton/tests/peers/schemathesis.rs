//! schemathesis against `/openapi.json`: it makes requests of what is described there, right ones and wrong ones, one
//! by one and in the order in which answers lead to each other, and compares every answer with the description.
//! It chooses the same requests every time. It checks everything that it can check, apart from the checks switched off
//! below, with the reason.
//! off below, with the reason.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::peer;
use crate::served::{Served, until};
use crate::world::World;

/// The token of the service.
const TOKEN: &str = "a-token-of-the-tests";

/// Correct requests are to be accepted, but here a schema cannot describe which ones are. `422` is a key that was used
/// before, which any correct request may have.
const ACCEPTED: [(&str, &str); 13] = [
    ("POST /v1/agent/run", "which channels, models and agents there are is in the settings"),
    ("POST /process", "the same"),
    ("POST /v1/requests", "the same"),
    ("POST /v1/runs", "the same"),
    ("GET /v1/runs/{id}/events", "a place has to be one of the run"),
    ("POST /v1/runs/{id}/fork", "a step has to be one of the run"),
    ("POST /v1/runs/{id}/approvals/{approval_id}", "arguments have to be right for the tool"),
    ("POST /v1/threads/{id}/entries", "what fields an entry has depends on its type"),
    ("POST /v1/threads/{id}/fork", "an index has to be one of the branch"),
    ("POST /v1/threads/{id}/rewind", "the same"),
    ("GET /", "it leads elsewhere"),
    ("GET /v1/policy", "which channels there are is in the settings"),
    ("GET /v1/threads/{id}/render", "one way to render needs a number, the others do not"),
];

/// Things that were made are to be found, but here 404 is about another thing that the request names.
const FOUND: [(&str, &str); 4] = [
    ("POST /v1/threads/{id}/fork", "a branch or an entry that there is not"),
    ("POST /v1/threads/{id}/checkout", "a branch"),
    ("POST /v1/threads/{id}/rewind", "a branch"),
    ("POST /v1/threads/{id}/entries", "a branch"),
];

/// The ids of things that exist before it begins, because it could not make them itself.
struct Known {
    blob: String,
    asking: String,
    approving: String,
    approval: String,
}

impl Known {
    fn settings(&self) -> String {
        let mut text = String::from(
            "[warnings]\nfail-on = [\"missing_auth\"]\n\n\
             [checks.positive_data_acceptance]\nexpected-statuses = [\"2xx\", 401, 403, 404, 409, 422, 429]\n",
        );
        for (operation, why) in ACCEPTED {
            let _ = write!(text, "\n# {why}\n[[operations]]\ninclude-name = \"{operation}\"\n");
            text.push_str("checks.positive_data_acceptance.enabled = false\n");
            if FOUND.iter().any(|(found, _)| *found == operation) {
                text.push_str("checks.ensure_resource_availability.enabled = false\n");
            }
            if operation.contains("approval_id") {
                let _ = writeln!(
                    text,
                    "parameters = {{ \"path.id\" = \"{}\", \"path.approval_id\" = \"{}\" }}",
                    self.approving, self.approval
                );
            }
        }
        for (operation, _) in FOUND.iter().filter(|(found, _)| ACCEPTED.iter().all(|(it, _)| it != found)) {
            let _ = write!(text, "\n[[operations]]\ninclude-name = \"{operation}\"\n");
            text.push_str("checks.ensure_resource_availability.enabled = false\n");
        }
        for (operation, name, value) in [
            ("POST /v1/runs/{id}/input", "path.id", &self.asking),
            ("GET /v1/blobs/{sha256}", "path.sha256", &self.blob),
        ] {
            let _ = write!(
                text,
                "\n[[operations]]\ninclude-name = \"{operation}\"\nparameters = {{ \"{name}\" = \"{value}\" }}\n"
            );
        }
        text
    }
}

/// A service with some data.
fn served() -> (Served, Known) {
    let world = World::new();
    let call = |name: &str, arguments: Value| json!({"call": {"name": name, "arguments": arguments}});
    let long = json!({"file": world.path("effects"), "line": "l", "class": "unsafe", "output_bytes": 50_000});
    let model = world.script(&json!({
        "v": 1,
        "replies": [
            {"match": "please approve", "do": [call("calculator", json!({"expression": "6*7"}))]},
            {"match": "please ask", "do": [call("ask_user", json!({"question": "Which?"}))]},
            {"match": "please be long", "do": [call("test_effect", long)]},
        ],
        "otherwise": {"do": [{"text": "You said: {user}"}]},
    }));
    world.settings(&format!("model = '{model}'\n[policy]\napprove = [\"calculator\"]\n"));
    let served = Served::on(world, &[], &[("BATON_TOKEN", TOKEN)]);
    let authorization = format!("Bearer {TOKEN}");
    let ask = |text: &str| {
        let body = json!({"message": text}).to_string();
        let answer = served.send("POST", "/process", &[("authorization", &authorization)], Some(&body));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (approving, asking) = (ask("please approve"), ask("please ask"));
    let long = ask("please be long");
    let path = format!("/v1/threads/{}/entries", text(&long["thread_id"]));
    let entries =
        String::from_utf8(served.send("GET", &path, &[("authorization", &authorization)], None).body)
            .unwrap();
    let blob = entries
        .split("hash ")
        .nth(1)
        .and_then(|rest| rest.get(..64))
        .unwrap_or_else(|| panic!("{entries}"))
        .to_owned();
    let known = Known {
        blob,
        asking: text(&asking["run_id"]),
        approving: text(&approving["run_id"]),
        approval: text(&approving["waiting"][0]["id"]),
    };
    (served, known)
}

#[test]
fn every_answer_is_as_it_is_described() {
    let (served, known) = served();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schemathesis.toml"), known.settings()).unwrap();
    let is_full = std::env::var_os("BATON_FULL").is_some();
    let arguments = [
        "run",
        &format!("http://{}/openapi.json", served.address),
        "--no-color",
        // The description itself, too, which it leaves out by itself.
        "--include-path-regex=^/",
        "--generation-deterministic",
        &format!("--max-examples={}", if is_full { 200 } else { 20 }),
        "--request-timeout=20",
        "--suppress-health-check=all",
        &format!("--header=Authorization: Bearer {TOKEN}"),
    ];
    let did = peer::command("schemathesis", &arguments.map(str::to_owned), folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&did.stdout).into_owned();
    assert!(did.status.success(), "{said}\n{}", String::from_utf8_lossy(&did.stderr));
    let described =
        served.send("GET", "/openapi.json", &[("authorization", &format!("Bearer {TOKEN}"))], None).json();
    let paths = described["paths"].as_object().unwrap();
    let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert!(said.contains(&format!("Tested: {operations}\n")), "{operations} operations: {said}");
    // It warns of operations for which it never had an id: not of these.
    for reached in ["GET /v1/blobs/{sha256}", "POST /v1/runs/{id}/input"] {
        assert!(!said.contains(&format!("  - {reached}\n")), "{said}");
    }
    until("it still serves", || served.send("GET", "/health", &[], None).status == 200);
    assert!(!served.log().contains("\"level\":\"ERROR\""), "{}", served.log());
}
