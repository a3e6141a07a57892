//! The addresses that are reached, the way, and the time limits.

use std::net::TcpListener;

use serde_json::json;

use super::{failed, hits, host, output, searching, web, worked};
use crate::server::{Answer, Server};
use crate::world::World;

#[test]
fn what_is_not_allowed_is_refused_and_not_reached() {
    let canary = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = canary.local_addr().unwrap().port();
    let (server, world) = (web("/page"), World::new());
    world.settings(&format!("[egress]\nallow = [\"{}\"]\n", host(&server)));
    let refusal = |host: &str| {
        format!(
            "{host} is not visited: it leads to this computer itself. The operator can allow it with `[egress] allow = \
             [\"{host}\"]`."
        )
    };
    let fetch =
        |url: &str| output(&world.baton(&["tools", "call", "fetch_url", &format!("url={url}"), "--json"]));
    let at = format!("127.0.0.1:{port}");
    assert_eq!(fetch(&format!("http://{at}/latest/meta-data")), failed(&refusal(&at)));
    let allowed = format!("Title: Baton\nAddress: {}/page\n\nA short stick.", server.url());
    assert_eq!(fetch(&format!("{}/page", server.url())), worked(json!(allowed)));

    // A model is told the same, and goes on.
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "fetch_url", "arguments": {"url": format!("http://{at}/")}}}]},
        {"do": [{"text": "{last_result}"}]},
    ]});
    let did = world.baton(&["ask", "--model", &world.script(&script), "Read that page"]);
    assert!(did.out.contains(&refusal(&at)), "{did:?}");
    canary.set_nonblocking(true).unwrap();
    assert!(canary.accept().is_err(), "nobody came");
}

#[test]
fn a_page_that_a_search_found_leads_to_no_other_exception() {
    let inner = Server::deciding(|_, _| Answer::whole(200, &[("content-type", "text/plain")], "done"));
    let away = format!("{}/reset?now=1", inner.url());
    let outer = Server::deciding(move |_, request| match request.path.split('?').next() {
        Some("/search") => hits(request, "/page"),
        _ => Answer::whole(302, &[("location", &away)], ""),
    });
    let world = World::new();
    world.settings(&format!(
        "[search]\nprovider = \"searxng\"\nurl = \"{}\"\n[egress]\nallow = [\"{}\", \"{}\"]\n",
        outer.url(),
        host(&outer),
        host(&inner)
    ));
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "web_search", "arguments": {"query": "baton"}}}]},
        {"do": [{"call": {"name": "fetch_url", "arguments": {"url": format!("{}/page", outer.url())}}}]},
        {"do": [{"text": "{last_result}"}]},
    ]});
    let did = world.baton(&["ask", "--model", &world.script(&script), "What is a baton?"]);
    let told = format!(
        "The page at {} redirects to an address that is refused. {} is not visited: the operator allows it to whoever \
         asks for it, and not to a page that leads there.",
        host(&outer),
        host(&inner)
    );
    assert!(did.code == 0 && did.out.contains(&told), "{did:?}");
    assert_eq!(outer.paths(), ["/search?q=baton&format=json", "/page"]);
    assert_eq!(inner.paths(), Vec::<String>::new());
}

/// The environment's proxy is for services elsewhere, encrypted or not; this computer is reached directly.
#[test]
fn a_proxy_is_asked_for_services_elsewhere_alone() {
    let search = ["tools", "call", "web_search", "query=x", "--json"];
    let nothing = || Server::deciding(|_, _| Answer::json(200, r#"{"results": []}"#));
    let (proxy, service) = (nothing(), nothing());
    let via = proxy.url();
    let variables = [("HTTP_PROXY", via.as_str()), ("http_proxy", &via), ("ALL_PROXY", &via)];
    let world = World::new();
    for url in ["http://search.example", &service.url()] {
        world.settings(&format!("[search]\nprovider = \"searxng\"\nurl = \"{url}\"\n"));
        let did = world.baton_with(&variables, &search);
        assert_eq!(output(&did), worked(json!({"results": []})), "{url}");
    }
    let path = "/search?q=x&format=json";
    assert_eq!(proxy.paths(), [format!("http://search.example{path}")]);
    assert_eq!(service.paths(), [path]);
}

#[test]
fn no_tool_is_given_time_that_it_does_not_take() {
    let server = web("/page");
    let told = |more: &str| {
        let world = searching(&server, more);
        let did = world.baton(&["tools", "ls", "--json"]);
        let file = world.path("home/config/baton/baton.toml").display().to_string();
        (did.code, did.err.replace(&file, "FILE"))
    };
    let visit = "error: FILE:9: `tools.fetch_url.timeout_s`: it stops by itself within 12 s\n  \
                 `egress.timeout_s` says how long a visit may take; or say 12 at most\n";
    let seconds = |tool: &str, s: u32| format!("timeout_s = 7\n\n[tools.{tool}]\ntimeout_s = {s}\n");
    assert_eq!(told(&seconds("fetch_url", 13)), (2, visit.to_owned()));
    let search = "error: FILE:9: `tools.web_search.timeout_s`: it stops by itself within 15 s\n  \
                  say 15 at most\n";
    assert_eq!(told(&seconds("web_search", 16)), (2, search.to_owned()));
    for (tool, s) in [("fetch_url", 12), ("web_search", 15), ("read_file", 600)] {
        assert_eq!(told(&seconds(tool, s)), (0, String::new()), "{tool}");
    }
}

#[test]
fn limits_of_a_visit_are_settings() {
    let server =
        Server::deciding(|_, _| Answer::whole(200, &[("content-type", "text/plain")], &"x".repeat(2000)));
    let world = World::new();
    world.settings(&format!("[egress]\nallow = [\"{}\"]\nmax_bytes = 1024\ntimeout_s = 7\n", host(&server)));
    let url = format!("{}/long", server.url());
    let expected = format!(
        "Address: {url}\nNote: The page is longer than 1024 bytes: the rest is left out.\n\n{}",
        "x".repeat(1024)
    );
    let did = world.baton(&["tools", "call", "fetch_url", &format!("url={url}"), "--json"]);
    assert_eq!(output(&did), worked(json!(expected)));
    let shown = world.baton(&["tools", "show", "fetch_url", "--json"]).json();
    assert_eq!(shown["timeout_s"], json!(12.0), "reading the page takes a while, too");
}
