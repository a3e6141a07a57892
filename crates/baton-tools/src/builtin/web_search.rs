//! `web_search`: titles, addresses and snippets from a search service.
//!
//! The service is the operator's choice and trusted as written: it does not pass the guard of
//! [`crate::egress`], and it may lie behind a proxy. What it finds is not trusted: it is text from strangers, cut to
//! size, and the addresses in it are visited by `fetch_url` alone.
//!
//! A key is sent to the configured address only (redirects are not followed) and shows in no error.

mod service;

use std::sync::Arc;
use std::time::Duration;

use baton_core::tool::EffectClass;
use reqwest::{Client, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::web::{Search, WebError};
use crate::egress::{Cut, Limits, USER_AGENT, body, cause};
use crate::tool::{Tool, ToolError};
use crate::typed::{About, Json, off_thread, typed};
use service::Service;

const TIMEOUT_MS: u64 = 15_000;
const LIMITS: Limits = Limits { time: Duration::from_secs(10), bytes: 2 * 1024 * 1024, redirects: 0 };

/// How many results there are if nothing is said, and at most: no service returns more on a page.
const COUNT: usize = 5;
const MAX_COUNT: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What to look for.
    #[schemars(length(min = 1, max = 400))]
    query: String,
    /// How many results to return at most; 5 if left out.
    #[schemars(range(min = 1, max = 20))]
    count: Option<usize>,
}

/// What was found, best first.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Found {
    results: Vec<Hit>,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Hit {
    title: String,
    url: String,
    /// Some words of the page that fit the query.
    snippet: String,
}

pub(crate) fn tool(search: Search) -> Result<Arc<dyn Tool>, WebError> {
    let service = Arc::new(Service::new(search)?);
    let about = About {
        name: "web_search",
        description: "Searches the web and returns titles, addresses and snippets of pages. Use it for current events, \
                      facts that may have changed and whatever you do not know for sure; read a promising page with \
                      fetch_url.",
        class: EffectClass::SideEffectFree,
        timeout_ms: TIMEOUT_MS,
    };
    Ok(typed(about, move |arguments: Arguments, _| {
        let service = Arc::clone(&service);
        async move { search_for(&service, &arguments).await.map(Json) }
    }))
}

async fn search_for(service: &Service, arguments: &Arguments) -> Result<Found, ToolError> {
    let count = arguments.count.unwrap_or(COUNT).clamp(1, MAX_COUNT);
    let until = Instant::now() + LIMITS.time;
    let late =
        || ToolError::new(format!("The search took longer than {} s: try again.", LIMITS.time.as_secs()));
    let broken = |error| ToolError::new(format!("The search service cannot be reached: {}.", cause(error)));
    let asking = async {
        let is_plain = service.is_plain();
        let client = off_thread(move || client(is_plain)).await?.map_err(broken)?;
        service.request(&client, arguments.query.trim(), count).send().await.map_err(broken)
    };
    let response = timeout_at(until, asking).await.map_err(|_| late())??;
    if let Some(refusal) = refusal(response.status(), service) {
        return Err(ToolError::new(refusal));
    }
    let (body, cut) = body(response, &LIMITS, until).await.map_err(broken)?;
    match cut {
        Some(Cut::Time(_)) => Err(late()),
        Some(Cut::Size(_)) => {
            Err(ToolError::new("The search service sent far too much: ask for fewer results."))
        }
        None => service.read(&body, count).map(|results| Found { results }),
    }
}

fn client(is_plain: bool) -> reqwest::Result<Client> {
    let builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never());
    match is_plain {
        // A service without encryption is one next door: no proxy and no certificates.
        true => builder.no_proxy().tls_certs_only([]).build(),
        false => builder.build(),
    }
}

/// What a status other than success means, for whoever can do something about it. The body is not shown: it
/// may repeat the key.
fn refusal(status: StatusCode, service: &Service) -> Option<String> {
    let code = status.as_u16();
    Some(match code {
        200..=299 => return None,
        401..=403 => format!("The search service refused the request (status {code}): {}", service.advice()),
        429 | 432 | 433 => {
            format!("The search service allows no more requests for now (status {code}): try again later.")
        }
        500..=599 => format!("The search service failed (status {code}): try again later."),
        300..=399 => {
            format!(
                "The search service redirects (status {code}): the operator should set its final address."
            )
        }
        _ => format!("The search service did not accept the request (status {code}): rephrase the query."),
    })
}
