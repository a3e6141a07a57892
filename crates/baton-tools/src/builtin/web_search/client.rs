//! What differs between the services: how they are asked, and what their answers look like.

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::SearchHit;
use crate::builtin::web::{Search, WebError};
use crate::egress::{MAX_URL, is_this_computer};
use crate::secret::Secret;
use crate::tool::ToolError;

const BRAVE: &str = "https://api.search.brave.com";
const TAVILY: &str = "https://api.tavily.com";

/// The longest title and snippet that are shown, in characters.
const MAX_TITLE: usize = 200;
const MAX_SNIPPET: usize = 1000;

/// A service with its address, ready to be asked.
pub(super) struct SearchClient {
    kind: SearchApi,
    address: Url,
}

/// How a service is reached.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// On this computer, where no proxy is asked.
    pub(super) is_local: bool,
    /// Without encryption.
    pub(super) is_plain: bool,
}

enum SearchApi {
    Searxng,
    Brave(HeaderValue),
    Tavily(HeaderValue),
}

impl SearchClient {
    pub(super) fn new(search: Search) -> Result<SearchClient, WebError> {
        Ok(match search {
            Search::Searxng { base } => {
                SearchClient { kind: SearchApi::Searxng, address: address(&base, "/search")? }
            }
            Search::Brave { key, base } => SearchClient {
                kind: SearchApi::Brave(hidden(&key, "")?),
                address: address(base.as_deref().unwrap_or(BRAVE), "/res/v1/web/search")?,
            },
            Search::Keyless { .. } => return Err(WebError::Key),
            Search::Tavily { key, base } => SearchClient {
                kind: SearchApi::Tavily(hidden(&key, "Bearer ")?),
                address: address(base.as_deref().unwrap_or(TAVILY), "/search")?,
            },
        })
    }

    pub(super) fn way(&self) -> Way {
        Way { is_local: is_this_computer(&self.address), is_plain: self.address.scheme() == "http" }
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
                // Else words of the query come wrapped in tags.
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

    /// A request that searches for nothing and holds no key.
    pub(super) fn nothing(&self, client: &Client) -> RequestBuilder {
        let mut url = self.address.clone();
        if let SearchApi::Searxng = self.kind {
            url.set_query(Some("format=json"));
        }
        client.get(url).header(ACCEPT, "application/json").header(ACCEPT_ENCODING, "identity")
    }

    /// Whether an answer to that says what is missing, in the way of this service.
    pub(super) fn misses_something(&self, status: StatusCode) -> bool {
        match self.kind {
            // It looks at the format before it misses the query.
            SearchApi::Searxng => status == StatusCode::BAD_REQUEST,
            // The key, the query, or another method. Whoever is not there at all says 404.
            SearchApi::Brave(_) | SearchApi::Tavily(_) => {
                matches!(status.as_u16(), 400 | 401 | 403 | 405 | 422)
            }
        }
    }

    /// Reads an answer. What is no page is left out, and so are more results than were asked for.
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
        Ok(entries.iter().filter_map(hit).take(count).collect())
    }

    /// What to do when the service says no.
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

/// A header that is not shown either.
fn hidden(key: &Secret, prefix: &str) -> Result<HeaderValue, WebError> {
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

/// A result, in the words of any of the services. What is odd about one is no reason to lose the others.
fn hit(entry: &Value) -> Option<SearchHit> {
    let text = |field: &str| entry.get(field).and_then(Value::as_str);
    let url = Url::parse(text("url")?).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    if url.as_str().len() > MAX_URL {
        return None; // nobody could visit it
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
