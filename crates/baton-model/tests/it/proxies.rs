//! Which calls pass a proxy. The environment is a process's own, so each case runs in a process of its own:
//! this test binary again, with one test and other settings.

use std::process::Command;

use baton_core::fault::Code;

use crate::server::{Answer, Server};
use crate::talk::{heard, model, said, says};

/// Where the process that is started finds the address to ask, and whether it is answered there.
const ADDRESS: &str = "BATON_TEST_ADDRESS";

/// The half that runs in the other process. Without an address it has nothing to do.
#[tokio::test]
async fn asks_where_it_is_told() {
    let Ok(url) = std::env::var(ADDRESS) else { return };
    let (deltas, fault) = heard(&model(&url)).await;
    match fault {
        None => assert_eq!(deltas.first(), said("hi").first()),
        Some(fault) => assert_eq!(fault.code, Code::LlmConnection, "{fault:?}"),
    }
}

/// Asks an address from a process with this environment.
fn ask(url: &str, settings: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "proxies::asks_where_it_is_told"]).env(ADDRESS, url);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    command.envs(settings.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// What the proxy and the server saw of a call to this address.
fn seen(url: impl Fn(&Server) -> String, proxy_for: &[&str], others: &[(&str, &str)]) -> [Vec<String>; 2] {
    let [proxy, server] = [(); 2].map(|()| {
        Server::deciding(|_, request| match request.method.as_str() {
            "CONNECT" => Answer::whole(502, &[], ""),
            _ => says("hi"),
        })
    });
    let proxy_url = proxy.url();
    let mut settings: Vec<_> = proxy_for.iter().map(|name| (*name, proxy_url.as_str())).collect();
    settings.extend(others);
    ask(&url(&server), &settings);
    [proxy.paths(), server.paths()]
}

fn to(path: &str) -> Vec<String> {
    vec![path.to_owned()]
}

#[test]
fn what_stays_on_this_machine_passes_no_proxy() {
    let every = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    assert_eq!(seen(Server::url, &every, &[]), [vec![], to("/api/chat")]);
    let by_name = |server: &Server| server.url().replace("127.0.0.1", "localhost");
    assert_eq!(seen(by_name, &every, &[]), [vec![], to("/api/chat")]);
}

#[test]
fn what_leaves_this_machine_passes_the_proxy() {
    let plain = |_: &Server| "http://model.example".to_owned();
    assert_eq!(seen(plain, &["HTTP_PROXY"], &[]), [to("http://model.example/api/chat"), vec![]]);
    assert_eq!(seen(plain, &["http_proxy"], &[]), [to("http://model.example/api/chat"), vec![]]);
    let secure = |_: &Server| "https://model.example".to_owned();
    assert_eq!(seen(secure, &["HTTPS_PROXY"], &[]), [to("model.example:443"), vec![]]);
}

#[test]
fn what_is_excepted_passes_no_proxy() {
    // This address leads to this machine, but nobody can tell that from its name.
    let anywhere = |server: &Server| server.url().replace("127.0.0.1", "0.0.0.0");
    let excepted = [("NO_PROXY", "model.example,0.0.0.0")];
    assert_eq!(seen(anywhere, &["HTTP_PROXY"], &excepted), [vec![], to("/api/chat")]);
}
