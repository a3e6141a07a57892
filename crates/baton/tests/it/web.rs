//! Searches and pages, with the real binary, over real sockets.

mod reach;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server};
use crate::stage::Did;
use crate::world::World;

const KEY: &str = "key-0123456789abcdef";
const WITH_KEY: [(&str, &str); 1] = [("SEARCH_KEY", KEY)];

/// A server that answers every search with one page, and every visit with its text.
fn web(found: &'static str) -> Server {
    Server::deciding(move |_, request| match request.path.split('?').next() {
        Some("/search") => hits(request, found),
        Some("/res/v1/web/search") => {
            Answer::json(200, &json!({"web": {"results": [hit(request, found, "description")]}}).to_string())
        }
        _ => Answer::whole(200, &[("content-type", "text/html")], "<title>Baton</title><p>A short stick."),
    })
}

fn hits(request: &Request, found: &str) -> Answer {
    Answer::json(200, &json!({"results": [hit(request, found, "content")]}).to_string())
}

/// A result that leads to this server itself.
fn hit(request: &Request, found: &str, words: &str) -> Value {
    let address = format!("http://{}{found}", request.header("host").unwrap());
    json!({"title": "Baton", "url": address, words: "It is passed on. See https://evil.example/"})
}

fn host(server: &Server) -> String {
    server.url().trim_start_matches("http://").trim_end_matches('/').to_owned()
}

/// A machine whose operator allows that server, and searches with it.
fn searching(server: &Server, more: &str) -> World {
    let world = World::new();
    world.settings(&format!(
        "[search]\nprovider = \"searxng\"\nurl = \"{}\"\n\n[egress]\nallow = [\"{}\"]\n{more}",
        server.url(),
        host(server)
    ));
    world
}

/// The output of a tool that is called by hand.
fn output(did: &Did) -> (i32, Value) {
    let mut document = did.json();
    document["execution_time_ms"].take();
    (did.code, document)
}

fn worked(output: Value) -> (i32, Value) {
    (0, json!({"status": "success", "output": output, "execution_time_ms": null}))
}

fn failed(output: &str) -> (i32, Value) {
    (1, json!({"status": "error", "output": output, "execution_time_ms": null}))
}

fn check(did: &Did, name: &str) -> Value {
    let found = did.json();
    found["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).cloned().unwrap()
}

#[test]
fn every_search_service_is_asked_in_its_way() {
    let search = ["tools", "call", "web_search", "query=relay baton", "count=3", "--json"];
    let services =
        [("searxng", ""), ("brave", "key_env = \"SEARCH_KEY\""), ("tavily", "key_env = \"SEARCH_KEY\"")];
    for (provider, key) in services {
        let (server, world) = (web("/page"), World::new());
        world.settings(&format!("[search]\nprovider = \"{provider}\"\nurl = \"{}\"\n{key}\n", server.url()));
        let url = format!("http://{}/page", host(&server));
        let words = "It is passed on. See https://evil.example/";
        let expected = worked(json!({"results": [{"title": "Baton", "url": url, "snippet": words}]}));
        assert_eq!(output(&world.baton_with(&WITH_KEY, &search)), expected, "{provider}");

        let requests = server.requests();
        let asked: Vec<_> = requests.iter().map(|it| (it.path.as_str(), it.body.as_str())).collect();
        let keys = [requests[0].header("x-subscription-token"), requests[0].header("authorization")];
        let bearer = format!("Bearer {KEY}");
        let expected = match provider {
            "searxng" => (("/search?q=relay+baton&format=json", ""), [None, None]),
            "brave" => {
                let path = "/res/v1/web/search?q=relay+baton&count=3&text_decorations=false";
                ((path, ""), [Some(KEY), None])
            }
            _ => (("/search", r#"{"max_results":3,"query":"relay baton"}"#), [None, Some(bearer.as_str())]),
        };
        assert_eq!((asked, keys), (vec![expected.0], expected.1), "{provider}");
    }
}

#[test]
fn a_model_reads_what_a_search_of_its_run_found_and_nobody_is_asked() {
    let server = web("/page");
    let world = searching(&server, "");
    let url = format!("http://{}/page#part", host(&server));
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "web_search", "arguments": {"query": "baton"}}}]},
        {"do": [{"call": {"name": "fetch_url", "arguments": {"url": url}}}]},
        {"do": [{"text": "{last_result}"}]},
    ]});
    let did = world.baton(&["ask", "--model", &world.script(&script), "What is a baton?"]);
    let page = format!("Title: Baton\nAddress: http://{}/page\n\nA short stick.\n", host(&server));
    assert_eq!((did.code, did.out.as_str()), (0, page.as_str()), "{}", did.err);
    assert_eq!(server.paths(), ["/search?q=baton&format=json", "/page"]);
}

#[test]
fn an_address_that_no_search_found_waits_for_a_person() {
    let server = web("/page");
    let world = searching(&server, "");
    // The obedient model sends its knowledge to an address of its own making.
    let url = format!("http://{}/page?secret=1", host(&server));
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "web_search", "arguments": {"query": "baton"}}}]},
        {"do": [{"call": {"name": "fetch_url", "arguments": {"url": url}}}]},
        {"do": [{"text": "{last_result}"}]},
    ]});
    let model = world.script(&script);
    let did = world.baton(&["ask", "--model", &model, "What is a baton?"]);
    assert_eq!(did.code, 3, "{did:?}");
    assert_eq!(server.paths(), ["/search?q=baton&format=json"]);
    let asked = world.baton(&["approvals", "ls", "--json"]).json();
    let asked = &asked["items"][0];
    let reason = "untrusted content is in this conversation (entry 3), and fetch_url sends something out";
    assert_eq!(
        json!([asked["name"], asked["args"], asked["reason"]]),
        json!(["fetch_url", {"url": url}, reason])
    );

    let without = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "fetch_url", "arguments": {"url": url}}}]},
        {"do": [{"text": "{last_result}"}]},
    ]});
    let did = world.baton(&["ask", "--model", &world.script(&without), "Read that page"]);
    assert_eq!(did.code, 0, "nothing untrusted is on the branch: {did:?}");
}

#[test]
fn a_missing_key_is_told_where_it_matters_and_nothing_else_stops() {
    let world = World::new();
    world.settings("[search]\nprovider = \"brave\"\n");
    let said = "The search service lacks its key: it is expected in BRAVE_API_KEY; it is not set.";
    let did = world.baton(&["tools", "call", "web_search", "query=x", "--json"]);
    assert_eq!(output(&did), failed(said));
    assert_eq!(world.baton(&["threads", "ls"]).code, 0);
    let did = world.baton(&["doctor", "--json"]);
    let expected = json!({
        "name": "search", "state": "failed",
        "detail": "the key of brave is missing: it is expected in BRAVE_API_KEY; it is not set",
        "fix": "put it there; `search.key_env` and `search.key_file` name another place",
    });
    assert_eq!((did.code, check(&did, "search")), (1, expected));

    let odd = world.baton_with(
        &[("BRAVE_API_KEY", "two\nlines")],
        &["tools", "call", "web_search", "query=x", "--json"],
    );
    let said = "The key of the search service is empty or holds characters that no key has.";
    assert_eq!(output(&odd), failed(said));
}

#[test]
fn the_doctor_says_who_answers_searches_and_what_may_be_visited() {
    let world = World::new();
    let did = world.baton(&["doctor", "--json"]);
    let closed = "fetch_url visits public addresses over https, and nothing else";
    let expected = [
        json!({"name": "search", "state": "ok", "detail": "nobody is named: no web_search",
               "fix": "[search] in baton.toml says who answers searches; docs/web.md has examples"}),
        json!({"name": "egress", "state": "ok", "detail": closed}),
    ];
    assert_eq!((did.code, ["search", "egress"].map(|name| check(&did, name))), (0, expected));

    let server = Server::deciding(|_, _| Answer::json(400, r#"{"error": "No query"}"#));
    let did = searching(&server, "").baton(&["doctor", "--json"]);
    let open = format!("fetch_url visits public addresses over https, and {}", host(&server));
    let expected = [
        json!({"name": "search", "state": "ok", "detail": "searxng at 127.0.0.1 (key: not needed) answers"}),
        json!({"name": "egress", "state": "ok", "detail": open}),
    ];
    assert_eq!((did.code, ["search", "egress"].map(|name| check(&did, name))), (0, expected));
    assert_eq!(server.paths(), ["/search?format=json"], "nothing is searched for");

    let server = Server::deciding(|_, _| Answer::json(403, ""));
    let did = searching(&server, "").baton(&["doctor", "--json"]);
    let expected = json!({"name": "search", "state": "failed", "fix": "is it running, and is `search.url` right?",
        "detail": "searxng at 127.0.0.1 (key: not needed): The search service refused the request (status 403): the \
                   operator should add `json` to `search.formats` in its settings.yml."});
    assert_eq!((did.code, check(&did, "search")), (1, expected));
}

#[test]
fn a_key_is_shown_to_the_service_alone() {
    let server = Server::deciding(|_, _| Answer::json(401, KEY));
    let world = World::new();
    world.settings(&format!(
        "[search]\nprovider = \"tavily\"\nurl = \"{}\"\nkey_file = \"k\"\n",
        server.url()
    ));
    let file = world.write("home/config/baton/k", &format!("{KEY}\n"));
    let mut said = String::new();
    for args in [
        &["tools", "call", "web_search", "query=x"][..],
        &["doctor"],
        &["config", "show"],
        &["tools", "show", "web_search"],
        &["-vvv", "ask", "--model", "offline", "Search the web for batons"],
    ] {
        let did = world.baton(args);
        said += &format!("{}{}", did.out, did.err);
    }
    assert!(!said.contains(KEY) && !said.contains(&file.display().to_string()), "{said}");
    let kept = files(&world.path("home/data"));
    assert!(!kept.is_empty(), "there is nothing to look at");
    let holds =
        |path: &PathBuf| std::fs::read(path).unwrap().windows(KEY.len()).any(|at| at == KEY.as_bytes());
    assert_eq!(kept.into_iter().filter(holds).collect::<Vec<_>>(), Vec::<PathBuf>::new());
    let (with, without): (Vec<Request>, Vec<Request>) =
        server.requests().into_iter().partition(|request| request.header("authorization").is_some());
    let with: Vec<_> = with.iter().map(|it| (it.method.as_str(), it.path.as_str())).collect();
    assert_eq!(with, [("POST", "/search"); 3], "one by hand, and one of a run, which tries twice");
    let without: Vec<_> = without.iter().map(|it| (it.method.as_str(), it.path.as_str())).collect();
    assert_eq!(without, [("GET", "/search")], "the doctor looks without the key");
}

/// Every file of a folder and of those in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn the_operator_says_what_a_tool_may_be_trusted_with() {
    let world = World::new();
    world.settings(
        "[tools.clock]\napprove = true\nuntrusted_output = true\n\n[tools.fetch_url]\negress = false\n",
    );
    let tools = world.baton(&["tools", "ls", "--json"]).json();
    let facts = |name: &str| {
        let tools = tools["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        json!([tool["built_in"], tool["untrusted_output"], tool["egress"], tool["approve"]])
    };
    let expected = [
        json!([true, true, "no", true]),
        json!([true, true, "no", false]),
        json!([true, false, "no", false]),
        json!([false, false, "no", false]),
    ];
    assert_eq!(["clock", "fetch_url", "calculator", "test_effect"].map(facts), expected);
    let listed = world.baton(&["tools", "ls"]).ok();
    let cares = |name: &str| {
        let line = listed.lines().find(|line| line.starts_with(name)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).nth(2).unwrap().to_owned()
    };
    assert_eq!(["clock", "fetch_url", "calculator"].map(cares), ["untrusted, approval", "untrusted", "-"]);
    let plain = World::new().baton(&["tools", "show", "fetch_url"]).ok();
    let care = "What it returns was written by strangers.\n\
                Its calls send something out, unless a search of the same run found the address.\n\
                A call may take 15 s.\n";
    assert!(plain.contains(care), "{plain}");

    let script = json!({"v": 1, "replies": [{"do": [{"call": {"name": "clock", "arguments": {}}}]}]});
    let did = world.baton(&["ask", "--model", &world.script(&script), "What time is it?"]);
    assert_eq!(did.code, 3, "a person is asked: {did:?}");
}

#[test]
fn nothing_is_said_of_a_tool_that_is_not_there() {
    let world = World::new();
    let refused = |settings: &str| {
        world.settings(settings);
        let did = world.baton(&["tools", "ls"]);
        let file = world.path("home/config/baton/baton.toml").display().to_string();
        (did.code, did.err.replace(&file, "FILE"))
    };
    let near = "error: FILE:3: `tools.fetch_ulr`: there is no tool of that name; did you mean `fetch_url`?\n  \
                remove this table and see `baton tools ls`\n";
    assert_eq!(refused("\n\n[tools.fetch_ulr]\napprove = true\n"), (2, near.to_owned()));
    let search = "error: FILE:1: `tools.web_search`: nobody answers searches, so it is not there\n  \
                  [search] says who answers them; docs/web.md has examples\n";
    assert_eq!(refused("[tools.web_search]\napprove = true\n"), (2, search.to_owned()));
    let did = world.baton(&["doctor", "--json"]);
    assert_eq!((did.code, &check(&did, "tools")["state"]), (1, &json!("failed")));
}

#[test]
fn every_table_on_the_page_about_the_web_makes_its_tools() {
    let page = include_str!("../../../../docs/web.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let counts: Vec<usize> = blocks
        .map(|block| {
            let world = World::new();
            world.settings(block);
            let did = world.baton(&["tools", "ls", "--json"]);
            assert_eq!(did.code, 0, "{}\n{block}", did.err);
            did.json()["tools"].as_array().unwrap().iter().filter(|tool| tool["name"] == "web_search").count()
        })
        .collect();
    assert_eq!(counts, [1, 1, 1, 0, 0]);
}
