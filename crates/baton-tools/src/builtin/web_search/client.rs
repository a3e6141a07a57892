//! The differences between the search services: their requests and the shapes of their responses.

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::SearchHit;
use crate::builtin::web::{SearchProvider, WebError};
use crate::egress::{MAX_URL, ServiceRoute};
use crate::secret::Secret;
use crate::tool::ToolError;

const BRAVE: &str = "https://api.search.brave.com";
const TAVILY: &str = "https://api.tavily.com";

/// The longest title and snippet that are shown, in characters.
const MAX_TITLE: usize = 200;
const MAX_SNIPPET: usize = 1000;

/// A search service with its address and key.
pub(super) struct SearchClient {
    kind: SearchApi,
    address: Url,
}

enum SearchApi {
    Searxng,
    Brave(HeaderValue),
    Tavily(HeaderValue),
}

impl SearchClient {
    pub(super) fn new(search: SearchProvider) -> Result<SearchClient, WebError> {
        Ok(match search {
            SearchProvider::Searxng { base } => {
                SearchClient { kind: SearchApi::Searxng, address: address(&base, "/search")? }
            }
            SearchProvider::Brave { key, base } => SearchClient {
                kind: SearchApi::Brave(key_header(&key, "")?),
                address: address(base.as_deref().unwrap_or(BRAVE), "/res/v1/web/search")?,
            },
            SearchProvider::Keyless { .. } => return Err(WebError::Key),
            SearchProvider::Tavily { key, base } => SearchClient {
                kind: SearchApi::Tavily(key_header(&key, "Bearer ")?),
                address: address(base.as_deref().unwrap_or(TAVILY), "/search")?,
            },
        })
    }

    pub(super) fn route(&self) -> ServiceRoute {
        ServiceRoute::to(&self.address)
    }

    pub(super) fn request(&self, client: &Client, query: &str, count: usize) -> RequestBuilder {
        let mut url = self.address.clone();
        let request = match &self.kind {
            SearchApi::Searxng => {
                url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
                client.get(url)
            }
            SearchApi::Brave(key) => {
                let count = count.to_string();
                url.query_pairs_mut().append_pair("q", query).append_pair("count", &count);
                // Otherwise words of the query come wrapped in tags.
                url.query_pairs_mut().append_pair("text_decorations", "false");
                client.get(url).header("X-Subscription-Token", key)
            }
            SearchApi::Tavily(key) => {
                let body = json!({ "query": query, "max_results": count }).to_string();
                client
                    .post(url)
                    .header("Authorization", key)
                    .header(CONTENT_TYPE, "application/json")
                    .body(body)
            }
        };
        request.header(ACCEPT, "application/json").header(ACCEPT_ENCODING, "identity")
    }

    /// A request without a query and without the key.
    pub(super) fn probe(&self, client: &Client) -> RequestBuilder {
        let mut url = self.address.clone();
        if let SearchApi::Searxng = self.kind {
            url.set_query(Some("format=json"));
        }
        client.get(url).header(ACCEPT, "application/json").header(ACCEPT_ENCODING, "identity")
    }

    /// Whether this service answers a probe with such a status: it complains about the missing query or key.
    pub(super) fn answers_probe_with(&self, status: StatusCode) -> bool {
        match self.kind {
            // It checks the format before the query.
            SearchApi::Searxng => status == StatusCode::BAD_REQUEST,
            // The key, the query or the method is wrong. A server without this API answers 404.
            SearchApi::Brave(_) | SearchApi::Tavily(_) => {
                matches!(status.as_u16(), 400 | 401 | 403 | 405 | 422)
            }
        }
    }

    /// Reads a response. Results that are no pages are left out, and so are those beyond `count`.
    pub(super) fn read(&self, body: &[u8], count: usize) -> Result<Vec<SearchHit>, ToolError> {
        let read = match self.kind {
            SearchApi::Brave(_) => {
                serde_json::from_slice(body).map(|answer: BraveDocument| answer.web.results)
            }
            SearchApi::Searxng | SearchApi::Tavily(_) => {
                serde_json::from_slice(body).map(|answer: ResultsDocument| answer.results)
            }
        };
        let entries = read.map_err(|_| {
            ToolError::new("The search service answered with something that is not a list of results.")
        })?;
        Ok(entries.iter().filter_map(parse_hit).take(count).collect())
    }

    /// Advice for the operator when the service refuses a request.
    pub(super) fn advice(&self) -> &'static str {
        match self.kind {
            SearchApi::Searxng => "the operator should add `json` to `search.formats` in its settings.yml.",
            SearchApi::Brave(_) | SearchApi::Tavily(_) => "the operator should check the key and the plan.",
        }
    }
}

fn address(base: &str, path: &str) -> Result<Url, WebError> {
    let url =
        Url::parse(&format!("{}{path}", base.trim().trim_end_matches('/'))).map_err(|_| WebError::Base)?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if matches!(url.scheme(), "http" | "https") && is_plain { Ok(url) } else { Err(WebError::Base) }
}

/// A header with a key, which `Debug` does not show.
fn key_header(key: &Secret, prefix: &str) -> Result<HeaderValue, WebError> {
    if key.expose().is_empty() {
        return Err(WebError::Key);
    }
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose())).map_err(|_| WebError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

#[derive(Deserialize)]
struct ResultsDocument {
    results: Vec<Value>,
}

/// Brave leaves `web` out when it found nothing.
#[derive(Deserialize)]
struct BraveDocument {
    #[serde(default)]
    web: BraveWeb,
}

#[derive(Deserialize, Default)]
struct BraveWeb {
    results: Vec<Value>,
}

/// A result in the shape of any of the services; none if it has no usable address. An odd result does not lose the
/// others.
fn parse_hit(entry: &Value) -> Option<SearchHit> {
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    let url = Url::parse(text("url")?).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    if url.as_str().len() > MAX_URL {
        return None; // `fetch_url` would refuse it
    }
    let short = |text: Option<&str>, most: usize| {
        let words = text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        words.chars().take(most).collect::<String>()
    };
    let title = Some(short(text("title"), MAX_TITLE)).filter(|title| !title.is_empty());
    Some(SearchHit {
        title: title.unwrap_or_else(|| short(Some(url.as_str()), MAX_TITLE)),
        snippet: short(text("content").or_else(|| text("description")), MAX_SNIPPET),
        url: url.into(),
    })
}
