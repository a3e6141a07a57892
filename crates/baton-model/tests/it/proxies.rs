//! Which calls pass a proxy, and what is said of it. The environment is a process's own, so each case runs in
//! a process of its own: this test binary again, with one test and other settings.

use std::process::Command;

use baton_core::fault::{Code, Fault};
use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::talk::{heard, model, said, says};

/// Where the process that is started finds the address to ask.
const ADDRESS: &str = "BATON_TEST_ADDRESS";

/// Says that a process was started for one test.
const ALONE: &str = "BATON_TEST_ALONE";

/// How the process that was started tells how it failed.
const FAILED: &str = "it failed: ";

/// The half that runs in the other process. Without an address it has nothing to do.
#[tokio::test]
async fn requests_go_to_the_configured_address() {
    let Ok(url) = std::env::var(ADDRESS) else { return };
    let (deltas, fault) = heard(&model(&url)).await;
    match fault {
        None => assert_eq!(deltas.first(), said("hi").first()),
        Some(fault) => eprintln!("{FAILED}{}", json!(fault)),
    }
}

/// Runs one test in a process with these settings and no others of proxies; gives what it wrote.
#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
fn run(test: &str, settings: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let [told, failed] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && told.contains(" 1 passed;"), "{told}{failed}");
    failed
}

/// Whether a test runs in a process without proxies; if not, it is run in one. It is for tests that ask what
/// is not known to be this machine, which must not go to a proxy of whoever runs them.
pub(crate) fn is_alone(test: &str) -> bool {
    let is_alone = std::env::var_os(ALONE).is_some();
    if !is_alone {
        run(test, &[(ALONE, "1")]);
    }
    is_alone
}

/// Asks an address from a process with these settings; how that failed, if it did.
fn ask(url: &str, settings: &[(&str, &str)]) -> Option<Fault> {
    let written =
        run("proxies::requests_go_to_the_configured_address", &[&[(ADDRESS, url)], settings].concat());
    let (_, fault) = written.split_once(FAILED)?;
    let fault: Value = serde_json::from_str(fault.lines().next()?).unwrap();
    let mut fault: Fault = serde_json::from_value(fault).unwrap();
    fault.retry_after_ms = fault.retry_after_ms.map(|_| 0); // about half a second
    Some(fault)
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
    let fault = ask(&url(&server), &settings);
    assert!(fault.is_none_or(|fault| fault.code == Code::LlmConnection));
    [proxy.paths(), server.paths()]
}

fn to(path: &str) -> Vec<String> {
    vec![path.to_owned()]
}

#[test]
fn requests_on_this_machine_pass_no_proxy() {
    let every = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    assert_eq!(seen(Server::url, &every, &[]), [vec![], to("/api/chat")]);
    let by_name = |server: &Server| server.url().replace("127.0.0.1", "localhost");
    assert_eq!(seen(by_name, &every, &[]), [vec![], to("/api/chat")]);
}

#[test]
fn requests_to_other_machines_pass_the_proxy() {
    let plain = |_: &Server| "http://model.example".to_owned();
    assert_eq!(seen(plain, &["HTTP_PROXY"], &[]), [to("http://model.example/api/chat"), vec![]]);
    assert_eq!(seen(plain, &["http_proxy"], &[]), [to("http://model.example/api/chat"), vec![]]);
    let secure = |_: &Server| "https://model.example".to_owned();
    assert_eq!(seen(secure, &["HTTPS_PROXY"], &[]), [to("model.example:443"), vec![]]);
    // What such a name leads to is not for us to say.
    let below = |_: &Server| "http://model.localhost".to_owned();
    assert_eq!(seen(below, &["HTTP_PROXY"], &[]), [to("http://model.localhost/api/chat"), vec![]]);
}

#[test]
fn hosts_in_no_proxy_pass_no_proxy() {
    // This address leads to this machine, but nobody can tell that from its name.
    let anywhere = |server: &Server| server.url().replace("127.0.0.1", "0.0.0.0");
    let excepted = [("NO_PROXY", "model.example,0.0.0.0")];
    assert_eq!(seen(anywhere, &["HTTP_PROXY"], &excepted), [vec![], to("/api/chat")]);
}

#[test]
fn a_fault_of_a_proxy_names_its_variable() {
    let secret = "http://me:hunter2@127.0.0.1:1";
    let refused = "Connection refused (os error 111); is the proxy running?";
    for (url, setting) in [
        ("http://model.example", "HTTP_PROXY"),
        ("https://model.example", "https_proxy"),
        ("https://model.example", "ALL_PROXY"),
    ] {
        let words = format!("cannot connect to {url} through the proxy of {setting}: {refused}");
        let expected = Fault::new(Code::LlmConnection, words).retry_after_ms(0);
        assert_eq!(ask(url, &[(setting, secret)]), Some(expected));
    }
    // Where none is on the way, none is to blame.
    let fault = ask("http://0.0.0.0:1", &[("HTTP_PROXY", secret), ("NO_PROXY", "0.0.0.0")]).unwrap();
    let words =
        "cannot connect to http://0.0.0.0:1: Connection refused (os error 111); is the server running?";
    assert_eq!(fault, Fault::new(Code::LlmConnection, words).retry_after_ms(0));
}

#[test]
fn a_proxy_with_status_407_is_not_a_fault_of_the_key() {
    let proxy = Server::deciding(|_, _| Answer::whole(407, &[], ""));
    let url = proxy.url();
    let who = "the proxy on the way to the model's server wants to know who we are (status 407)";
    // Over a connection that is not encrypted the proxy answers itself; otherwise it does not make one.
    for (address, setting) in
        [("http://model.example", "HTTP_PROXY"), ("https://model.example", "HTTPS_PROXY")]
    {
        let fault = ask(address, &[(setting, &url)]);
        assert_eq!(fault, Some(Fault::new(Code::LlmConnection, who)), "{address}");
    }
}
