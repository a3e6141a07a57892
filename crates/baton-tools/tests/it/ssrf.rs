//! The corpus of hostile addresses (`tests/ssrf.txt`): by judgement, over real sockets, and as targets of redirects.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_tools::egress::{
    EgressClient, EgressError, FetchLimits, MAX_URL, RefusalReason, Resolver, Rules, judge,
};
use futures_util::FutureExt;

use crate::server::{Canary, CannedResponse, FakeServer};

/// One line of the corpus.
struct Entry {
    class: &'static str,
    url: &'static str,
    found: Vec<IpAddr>,
}

impl Entry {
    /// The address, with a port in it.
    fn url(&self, port: u16) -> String {
        let url = self.url.replace("{port}", &port.to_string()).replace("{long}", &"x".repeat(MAX_URL));
        let url = url.replace("{tab}", "\t").replace("{lf}", "\n");
        url.replace("{cr}", "\r").replace("{nul}", "\0")
    }
}

fn corpus() -> Vec<Entry> {
    let lines = include_str!("../ssrf.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let [class, url, found] =
                line.splitn(3, '|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
            let found = found.split_whitespace().map(|address| address.parse().unwrap()).collect();
            Entry { class, url, found }
        })
        .collect()
}

/// A name server that gives its answers in order, the last of them for ever, and counts the questions.
fn answering(answers: Vec<Vec<IpAddr>>) -> (Resolver, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let resolver: Resolver = Arc::new(move |_| {
        let at = count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        std::future::ready(Ok(answers[at].clone())).boxed()
    });
    (resolver, asked)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn every_entry_is_refused_for_its_reason() {
    let corpus = corpus();
    let wrong: Vec<String> = corpus
        .iter()
        .map(|entry| (entry, judge(&entry.url(443), &entry.found, &Rules::default())))
        .map(|(entry, judged)| (entry, judged.map_or_else(|refused| refused.why.code(), |_| "ok")))
        .filter(|(entry, class)| entry.class != *class)
        .map(|(entry, class)| format!("{:?} is {class}, not {}", entry.url, entry.class))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");

    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    corpus.iter().for_each(|entry| *classes.entry(entry.class).or_default() += 1);
    let open = classes.remove("ok").unwrap();
    assert!(corpus.len() - open >= 150, "{classes:?}");
    assert_eq!(classes.len(), 19, "every reason has an entry: {classes:?}");
}

#[tokio::test]
async fn no_entry_reaches_the_canary() {
    let canary = Canary::start();
    // Its port is allowed, so that only the address itself is a reason to refuse.
    let rules = Rules { ports: vec![443, canary.port], ..Rules::default() };
    for entry in corpus().iter().filter(|entry| entry.class != "ok") {
        let (resolver, _) = answering(vec![entry.found.clone()]);
        let egress = EgressClient::with(rules.clone(), FetchLimits::default(), resolver);
        match egress.get(&entry.url(canary.port)).await {
            Err(EgressError::Refused(refused)) => {
                assert_eq!(refused.why.code(), entry.class, "{}", entry.url)
            }
            other => panic!("{}: {other:?}", entry.url),
        }
    }
    assert_eq!(canary.reached(), 0);
}

/// The canary can be reached by a permitted client: otherwise the other tests would show nothing.
#[tokio::test]
async fn the_canary_counts_connections() {
    let canary = Canary::start();
    let rules = Rules::allowing(&[format!("a.example:{}", canary.port)]).unwrap();
    let (resolver, _) = answering(vec![vec![address("127.0.0.1")]]);
    let limits = FetchLimits { time: Duration::from_millis(200), ..FetchLimits::default() };
    let egress = EgressClient::with(rules, limits, resolver);
    let url = format!("http://a.example:{}/", canary.port);
    let late = EgressError::TimedOut { host: format!("a.example:{}", canary.port), limit: limits.time };
    assert_eq!(egress.get(&url).await, Err(late));
    assert_eq!(canary.reached(), 1);
}

/// A page that may be visited sends its visitors to every entry in turn.
#[tokio::test]
async fn no_redirect_to_an_entry_reaches_the_canary() {
    let canary = Canary::start();
    let target = Arc::new(Mutex::new(String::new()));
    let next = Arc::clone(&target);
    let server = FakeServer::start(move |_| CannedResponse::redirect(&next.lock().unwrap())).await;
    let mut rules = Rules::allowing(&[server.address.to_string()]).unwrap();
    rules.ports.push(canary.port);
    let mut redirected = 0;
    for entry in corpus().iter().filter(|entry| entry.class != "ok") {
        *target.lock().unwrap() = entry.url(canary.port).replace(char::is_control, "");
        let (resolver, _) = answering(vec![entry.found.clone()]);
        let egress = EgressClient::with(rules.clone(), FetchLimits::default(), resolver);
        match egress.get(&server.at("/")).await {
            Err(EgressError::Redirected { .. }) => redirected += 1,
            // A text that is no address, or a part of one, leads nowhere or back to the page.
            Err(EgressError::BadRedirect(_)) => {}
            other => panic!("{}: {other:?}", entry.url),
        }
    }
    assert_eq!(canary.reached(), 0);
    assert!(redirected >= 150, "{redirected}");
}

#[tokio::test]
async fn a_name_server_that_changes_its_answer_changes_nothing() {
    let server = FakeServer::start(|_| CannedResponse::page("text/plain", "the right one")).await;
    let rules = Rules::allowing(&[format!("a.example:{}", server.port())]).unwrap();
    let Some((canary, elsewhere)) = Canary::beside(server.port()) else {
        panic!("there is no second loopback address to listen on")
    };
    let (resolver, asked) = answering(vec![vec![address("127.0.0.1")], vec![elsewhere]]);
    let egress = EgressClient::with(rules, FetchLimits::default(), resolver);
    let page = egress.get(&format!("http://a.example:{}/", server.port())).await.unwrap();
    assert_eq!(
        (page.body.as_slice(), asked.load(Ordering::SeqCst), canary.reached()),
        (b"the right one".as_slice(), 1, 0)
    );
}

#[tokio::test]
async fn each_redirect_is_looked_up_and_judged_anew() {
    let server = FakeServer::start(|path| match path {
        "/start" => CannedResponse::redirect("/end"),
        _ => CannedResponse::page("text/plain", "the end"),
    })
    .await;
    let host = format!("a.example:{}", server.port());
    let egress = |answers: &[&str]| {
        let (resolver, asked) = answering(answers.iter().map(|answer| vec![address(answer)]).collect());
        let rules = Rules::allowing(&[&host]).unwrap();
        (EgressClient::with(rules, FetchLimits::default(), resolver), asked)
    };
    let url = format!("http://{host}/start");
    let (steady, asked) = egress(&["127.0.0.1"]);
    assert_eq!(steady.get(&url).await.unwrap().body, b"the end");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    for (turned, class) in
        [("169.254.169.254", "metadata"), ("0.0.0.0", "unspecified"), ("::ffff:127.0.0.1", "translated")]
    {
        let (changing, asked) = egress(&["127.0.0.1", turned]);
        match changing.get(&url).await {
            Err(EgressError::Redirected { from, refused }) => {
                assert_eq!((from, refused.why.code()), (host.clone(), class));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
    assert_eq!(server.asked().iter().filter(|line| line.contains("/end")).count(), 1);
}

/// A name that was public at an earlier look-up is judged by its present address.
#[tokio::test]
async fn a_name_that_turned_inward_is_refused() {
    let canary = Canary::start();
    let rules = Rules { ports: vec![canary.port], ..Rules::default() };
    let (resolver, asked) = answering(vec![vec![address("127.0.0.1")], vec![address("93.184.215.14")]]);
    let egress = EgressClient::with(rules, FetchLimits::default(), resolver);
    let refused = egress.get(&format!("https://a.example:{}/", canary.port)).await.unwrap_err();
    assert!(
        matches!(&refused, EgressError::Refused(refused) if matches!(refused.why, RefusalReason::Address(_))),
        "{refused:?}"
    );
    assert_eq!((asked.load(Ordering::SeqCst), canary.reached()), (1, 0));
}

#[tokio::test]
async fn a_url_that_is_refused_as_written_is_not_looked_up() {
    let (resolver, asked) = answering(vec![vec![address("127.0.0.1")]]);
    let egress = EgressClient::with(Rules::default(), FetchLimits::default(), resolver);
    for url in
        ["http://a.example/", "https://a.example:8443/", "https://secret.corp/", "https://me@a.example/"]
    {
        assert!(matches!(egress.get(url).await, Err(EgressError::Refused(_))), "{url}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}
