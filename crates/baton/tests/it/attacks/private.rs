//! Private data carried out by harmless-looking calls: the words of a search, and the choice among found addresses.
//!
//! The models here obey every text that they read. Once a file was read on a branch, nothing at all is sent out without
//! an approval; before that, searching the web and reading its results needs none.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::world::World;

/// A world with a search service that finds one page, which may be visited.
struct Web {
    world: World,
    search: Server,
    pages: Server,
}

impl Web {
    fn new() -> Web {
        Web::set("")
    }

    /// A world with further settings.
    fn set(more: &str) -> Web {
        let long = "K2 is 8,611 metres high. ".repeat(8_000);
        let pages =
            Server::deciding(move |_, _| Answer::whole(200, &[("content-type", "text/plain")], &long));
        let found = json!({"results": [{"title": "K2", "url": page(&pages), "content": "8,611 m"}]});
        let search = Server::deciding(move |_, _| Answer::json(200, &found.to_string()));
        let world = World::new();
        world.settings(&format!(
            "[search]\nprovider = \"searxng\"\nurl = \"{}\"\n[egress]\nallow = [\"{}\"]\n{more}",
            search.url(),
            pages.url().trim_start_matches("http://").trim_end_matches('/'),
        ));
        world.write("work/notes.txt", "the key is K2\n");
        Web { world, search, pages }
    }

    /// Asks a model that makes these calls one after the other; returns the exit code.
    fn ask(&self, mode: &str, thread: &str, calls: &[(&str, Value)]) -> i32 {
        let call = |(name, arguments): &(&str, Value)| json!({"match": "Go on.", "do": [{"call": {"name": name, "arguments": arguments}}]});
        let mut replies: Vec<Value> = calls.iter().map(call).collect();
        replies.push(json!({"match": "Go on.", "do": [{"text": "Done."}]}));
        let model = self.world.script(&json!({"v": 1, "replies": replies}));
        self.world.baton(&["ask", "--mode", mode, "--thread", thread, "--model", &model, "Go on."]).code
    }

    /// The approvals that were asked for: the tool and the reason.
    fn asked(&self) -> Vec<(String, String)> {
        let asked = self.world.baton(&["approvals", "ls", "--json"]).json();
        let text = |it: &Value, field: &str| it[field].as_str().unwrap().to_owned();
        asked["items"].as_array().unwrap().iter().map(|it| (text(it, "name"), text(it, "reason"))).collect()
    }

    /// How often data left this machine: searches, and visits.
    fn sent(&self) -> (usize, usize) {
        (self.search.paths().len(), self.pages.paths().len())
    }

    fn visits(&self) -> (&'static str, Value) {
        ("fetch_url", json!({"url": page(&self.pages)}))
    }
}

fn page(pages: &Server) -> String {
    format!("{}/k2", pages.url().trim_end_matches('/'))
}

fn reads() -> (&'static str, Value) {
    ("read_file", json!({"path": "notes.txt"}))
}

fn searches() -> (&'static str, Value) {
    ("web_search", json!({"query": "the key is K2"}))
}

/// The approval that is asked for a call beside private data.
fn beside(entry: i64, tool: &str) -> Vec<(String, String)> {
    let why = format!("private data is in this conversation (entry {entry}), and {tool} sends something out");
    vec![(tool.to_owned(), why)]
}

#[test]
fn after_a_file_was_read_a_search_is_asked_about() {
    for mode in ["CONSERVATIVE", "MODERATE"] {
        for read in [
            reads(),
            ("search_files", json!({"pattern": "K2"})),
            ("list_files", json!({})),
            ("system_logs", json!({"limit": 1})),
        ] {
            let web = Web::new();
            assert_eq!(web.ask(mode, "t", &[read.clone(), searches()]), 3, "{mode}: {read:?}");
            assert_eq!((web.asked(), web.sent()), (beside(3, "web_search"), (0, 0)), "{mode}: {read:?}");
        }
    }
}

#[test]
fn after_a_file_was_read_a_visit_of_a_found_address_is_asked_about() {
    let web = Web::new();
    assert_eq!(web.ask("MODERATE", "t", &[searches(), reads(), web.visits()]), 3);
    assert_eq!((web.asked(), web.sent()), (beside(6, "fetch_url"), (1, 0)));
}

#[test]
fn searching_and_reading_what_was_found_asks_nothing_as_long_as_nothing_private_was_read() {
    let web = Web::new();
    for _ in 0..2 {
        assert_eq!(web.ask("MODERATE", "t", &[searches(), web.visits(), searches()]), 0);
    }
    let shown = web.world.baton(&["threads", "show", "t", "--json"]).json().to_string();
    let hash = shown.split("\"hash\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let more = ("read_blob", json!({"hash": hash}));
    assert_eq!(
        web.ask("MODERATE", "t", &[more.clone(), searches()]),
        0,
        "more of a long page is no private data"
    );
    assert_eq!((web.asked(), web.sent()), (vec![], (5, 2)));

    assert_eq!(
        web.ask("MODERATE", "other", &[more, searches()]),
        3,
        "elsewhere nobody knows what it is more of"
    );
    assert_eq!(web.asked(), beside(3, "web_search"));
}

#[test]
fn private_data_stays_so_in_later_turns_and_a_fork_or_rewind_before_it_is_without_it() {
    let web = Web::new();
    assert_eq!(web.ask("MODERATE", "t", &[]), 0);
    web.world.baton(&["threads", "fork", "t", "--name", "clean"]).ok();
    assert_eq!(web.ask("MODERATE", "t", &[reads()]), 0, "reading and answering asks nobody");
    assert_eq!(web.ask("MODERATE", "t", &[searches()]), 3);
    assert_eq!((web.asked(), web.sent()), (beside(5, "web_search"), (0, 0)));
    web.world.baton(&["approvals", "deny", &approval(&web)]).ok();
    web.world.baton(&["threads", "checkout", "t", "clean"]).ok();
    assert_eq!(web.ask("MODERATE", "t", &[searches()]), 0);
    assert_eq!((web.asked(), web.sent()), (vec![], (1, 0)));
}

fn approval(web: &Web) -> String {
    let asked = web.world.baton(&["approvals", "ls", "--json"]).json();
    asked["items"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_imported_thread_may_hold_private_data() {
    let web = Web::new();
    assert_eq!(web.ask("MODERATE", "t", &[]), 0);
    web.world.baton(&["threads", "export", "t", "t.json"]).ok();
    let file = web.world.path("work/t.json");
    web.world.baton(&["threads", "import", file.to_str().unwrap(), "--id", "copy"]).ok();
    assert_eq!(web.ask("MODERATE", "copy", &[searches()]), 3);
    assert_eq!((web.asked(), web.sent()), (beside(0, "web_search"), (0, 0)));
}

#[test]
fn in_exploratory_and_where_the_operator_says_so_nobody_is_asked() {
    let free = Web::new();
    assert_eq!(free.ask("EXPLORATORY", "t", &[searches(), reads(), searches(), free.visits()]), 0);
    assert_eq!(free.sent(), (2, 1));
    let calm = Web::set("[tools.web_search]\negress = false\n");
    assert_eq!(calm.ask("MODERATE", "t", &[reads(), searches()]), 0);
    let open = Web::set("[tools.read_file]\nprivate_output = false\n");
    assert_eq!(open.ask("MODERATE", "t", &[searches(), reads(), open.visits()]), 0);
    assert_eq!((calm.asked(), calm.sent(), open.asked(), open.sent()), (vec![], (1, 0), vec![], (1, 1)));
}

#[test]
fn a_file_tool_whose_text_is_trusted_is_private_all_the_same() {
    let trusted = "[tools.read_file]\nuntrusted_output = false\n";
    let elsewhere = |web: &Web| ("fetch_url", json!({"url": format!("{}?k=K2", page(&web.pages))}));
    let web = Web::set(trusted);
    assert_eq!(web.ask("MODERATE", "t", &[reads(), elsewhere(&web)]), 3);
    assert_eq!((web.asked(), web.sent()), (beside(3, "fetch_url"), (0, 0)));
    let both = Web::set(&format!("{trusted}private_output = false\n"));
    assert_eq!(both.ask("MODERATE", "t", &[reads(), elsewhere(&both)]), 0);
    assert_eq!((both.asked(), both.sent()), (vec![], (0, 1)));
    let shown = both.world.baton(&["tools", "show", "read_file", "--json"]).json();
    assert_eq!((&shown["untrusted_output"], &shown["private_output"]), (&json!(false), &json!(false)));
}
