//! The tools that reach the web. They are made only where the operator configured them.

use std::sync::Arc;

use super::{fetch_url, web_search};
use crate::egress::{EgressClient, FetchLimits, Rules};
use crate::secret::Secret;
use crate::tool::Tool;

/// The settings of the web tools.
#[derive(Debug)]
pub struct Web {
    /// The search service. With `None`, there is no `web_search`.
    pub search: Option<SearchProvider>,
    /// The addresses that `fetch_url` may visit.
    pub egress: Rules,
    /// The time and size limits of one `fetch_url`.
    pub limits: FetchLimits,
}

/// A search service and its settings. The addresses are the operator's and trusted as written.
#[derive(Debug, Clone)]
pub enum SearchProvider {
    /// A SearXNG instance that gives out JSON.
    Searxng {
        /// Its address.
        base: String,
    },
    /// Brave's Web Search API.
    Brave {
        /// The key of a subscription.
        key: Secret,
        /// Another address than Brave's own.
        base: Option<String>,
    },
    /// Tavily's search API.
    Tavily {
        /// The key of an account.
        key: Secret,
        /// Another address than Tavily's own.
        base: Option<String>,
    },
    /// A service that is configured and lacks its key: the tool is there, and says so when it is called.
    Keyless {
        /// The missing setting, in a sentence.
        why: String,
    },
}

/// Why the web tools cannot be made from their settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// The address of the search service cannot be used.
    #[error("the address of the search service is not usable: write it like `https://search.example.com`")]
    Base,
    /// The key of the search service cannot be sent.
    #[error("the key of the search service is empty or holds characters that no key has")]
    Key,
}

/// The web tools.
pub fn web(options: Web) -> Result<Vec<Arc<dyn Tool>>, WebError> {
    let mut tools = vec![fetch_url::fetch_url(EgressClient::limited(options.egress, options.limits))];
    if let Some(search) = options.search {
        tools.push(web_search::tool(search)?);
    }
    Ok(tools)
}
