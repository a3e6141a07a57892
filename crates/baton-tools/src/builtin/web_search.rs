//! `web_search`: titles, addresses and snippets from a search service.
//!
//! The service is the operator's choice and trusted as written: it does not pass the guard of
//! [`crate::egress`], and it may lie behind a proxy. Its results are not trusted: they are text from strangers, cut to
//! size, and the addresses in them are visited by `fetch_url` alone.
//!
//! A key is sent to the configured address only (redirects are not followed) and shows in no error.

mod client;

use std::sync::Arc;
use std::time::Duration;

use baton_core::tool::{Cause, EffectClass, Trust, WEB_SEARCH};
use reqwest::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

use super::web::{SearchProvider, WebError};
use crate::egress::{FetchLimits, Truncation, body, cause};
use crate::tool::{Tool, ToolError};
use crate::typed::{Structured, ToolInfo, off_thread, typed};
use client::SearchClient;

const TIMEOUT_MS: u64 = 15_000;
const LIMITS: FetchLimits =
    FetchLimits { time: Duration::from_secs(10), bytes: 2 * 1024 * 1024, redirects: 0 };

/// The number of results by default, and at most: no service returns more on a page.
const COUNT: usize = 5;
const MAX_COUNT: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WebSearchArguments {
    /// The words to search for.
    #[schemars(length(min = 1, max = 400))]
    query: String,
    /// How many results to return at most; 5 if left out.
    #[schemars(range(min = 1, max = 20))]
    count: Option<usize>,
}

/// The results, best first.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct SearchResults {
    results: Vec<SearchHit>,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct SearchHit {
    title: String,
    url: String,
    /// Some words of the page that fit the query.
    snippet: String,
}

pub(crate) fn tool(search: SearchProvider) -> Result<Arc<dyn Tool>, WebError> {
    let about = ToolInfo {
        name: WEB_SEARCH,
        description: "Searches the web and returns titles, addresses and snippets of pages. Use it for current events, \
                      facts that may have changed and whatever you do not know for sure; read a promising page with \
                      fetch_url.",
        class: EffectClass::SideEffectFree,
        timeout_ms: TIMEOUT_MS,
        trust: Trust { untrusted_output: true, to_service: true, ..Trust::BUILT_IN },
    };
    if let SearchProvider::Keyless { why } = search {
        let refused =
            move |_: WebSearchArguments, _| std::future::ready(Err(ToolError::before_start(why.clone())));
        return Ok(typed::<_, Structured<SearchResults>, _, _>(about, refused));
    }
    let service = Arc::new(SearchClient::new(search)?);
    Ok(typed(about, move |arguments: WebSearchArguments, _| {
        let service = Arc::clone(&service);
        async move { search_for(&service, &arguments).await.map(Structured) }
    }))
}

/// Probes a service without a search and without its key, either of which may cost something: an error says why it is
/// not usable.
pub async fn probe_search(search: SearchProvider) -> Result<(), String> {
    let broken = |error| format!("It cannot be reached: {}.", cause(error));
    let service = SearchClient::new(search).map_err(|error| error.to_string())?;
    let route = service.route();
    let client = off_thread(move || route.client().build()).await.map_err(|error| error.to_string())?;
    let sending = service.probe(&client.map_err(broken)?).send();
    let response = sending.await.map_err(broken)?;
    let status = response.status();
    if service.answers_probe_with(status) {
        return Ok(());
    }
    if status.is_success() {
        let (body, _) = body(response, &LIMITS, Instant::now() + LIMITS.time).await.map_err(broken)?;
        let odd =
            |_| "It answers with something that is not a list of results: is this its address?".to_owned();
        return service.read(&body, MAX_COUNT).map(|_| ()).map_err(odd);
    }
    Err(match refusal(status, &service) {
        Some(error) if error.cause == Cause::Tool => error.message,
        _ => format!("It answers with status {status}: is this its address?"),
    })
}

async fn search_for(
    service: &SearchClient,
    arguments: &WebSearchArguments,
) -> Result<SearchResults, ToolError> {
    let count = arguments.count.unwrap_or(COUNT).clamp(1, MAX_COUNT);
    let until = Instant::now() + LIMITS.time;
    let late =
        || ToolError::new(format!("The search took longer than {} s: try again.", LIMITS.time.as_secs()));
    let broken = |error| ToolError::new(format!("The search service cannot be reached: {}.", cause(error)));
    let sending = async {
        let route = service.route();
        let client = off_thread(move || route.client().build()).await?.map_err(broken)?;
        service.request(&client, arguments.query.trim(), count).send().await.map_err(broken)
    };
    let response = timeout_at(until, sending).await.map_err(|_| late())??;
    if let Some(refusal) = refusal(response.status(), service) {
        return Err(refusal);
    }
    let (body, cut) = body(response, &LIMITS, until).await.map_err(broken)?;
    match cut {
        Some(Truncation::Time(_)) => Err(late()),
        Some(Truncation::Size(_)) => {
            Err(invalid_query("The search service sent far too much: ask for fewer results."))
        }
        None => service.read(&body, count).map(|results| SearchResults { results }),
    }
}

/// The error for a status other than success, addressed to the one who can act on it. The body is not shown: it may
/// repeat the key.
fn refusal(status: StatusCode, service: &SearchClient) -> Option<ToolError> {
    let code = status.as_u16();
    // All but the last are for the operator or for later: another query would not help.
    let message = match code {
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
        408 => format!("The search service waited too long (status {code}): try again later."),
        _ => {
            let message = "The search service did not accept the request";
            return Some(invalid_query(format!("{message} (status {code}): rephrase the query.")));
        }
    };
    Some(ToolError::new(message))
}

/// An error that another query may avoid. The service was reached.
fn invalid_query(message: impl Into<String>) -> ToolError {
    ToolError { cause: Cause::Asked, ..ToolError::new(message) }
}
