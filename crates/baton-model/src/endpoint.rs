//! Where a provider is, and where on it each wire format is asked.
//!
//! Pure: a base URL goes in, addresses come out. People write the same base in two ways, with `/v1` and
//! without; both mean the same here. A base with any other path is taken at its word, except that Anthropic's
//! format is always asked below `v1`, where its own programs ask it. It holds no secret:
//! a user or a password in a URL is refused, because URLs end up in logs and errors.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use crate::wire::Wire;

/// A base URL: scheme, host, port and perhaps a path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Without query, user info or fragment; its path ends without `/`, and is never `/v1` alone.
    url: Url,
}

/// Why a base URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// It is no URL.
    #[error("it is no URL ({0}); write it like http://127.0.0.1:11434 or https://host/path")]
    Syntax(String),
    /// Neither `http` nor `https`.
    #[error("its scheme is {0:?}; only http and https are spoken")]
    Scheme(String),
    /// It holds a user or a password, which are not repeated here.
    #[error("it holds a user or a password, and URLs are shown; put the key into the provider's key setting")]
    UserInfo,
    /// It has a query or a fragment.
    #[error("it has a query or a fragment; a base URL ends with its path")]
    Query,
}

impl Endpoint {
    /// Reads a base URL.
    pub fn parse(text: &str) -> Result<Self, BadEndpoint> {
        let text = text.trim();
        let mut url = Url::parse(text).map_err(|error| BadEndpoint::Syntax(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            // `localhost:11434` is a URL, too, of the scheme `localhost`.
            return Err(BadEndpoint::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadEndpoint::UserInfo);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BadEndpoint::Query);
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(if path == "/v1" { "" } else { &path });
        Ok(Endpoint { url })
    }

    /// Where a wire format is asked.
    pub fn address(&self, wire: Wire) -> Url {
        match wire {
            Wire::Ollama => self.at_root("/api/chat"),
            Wire::ChatCompletions => self.at_v1("/chat/completions"),
            Wire::Responses => self.at_v1("/responses"),
            Wire::Anthropic => self.below_v1("/messages"),
        }
    }

    /// Where a server says which models it has.
    pub fn listing(&self, wire: Wire) -> Url {
        match wire {
            Wire::Ollama => self.at_root("/api/tags"),
            Wire::ChatCompletions | Wire::Responses => self.at_v1("/models"),
            Wire::Anthropic => self.below_v1("/models"),
        }
    }

    /// Whether what is sent there stays on this machine: a loopback address, or `localhost`. What a name
    /// below `localhost` leads to is for the resolver to say, so it does not count.
    pub fn is_local(&self) -> bool {
        match self.host().parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host() == "localhost",
        }
    }

    /// Whether OpenAI itself is there. Others that speak the same, Azure among them, are only compatible.
    pub(crate) fn is_openai(&self) -> bool {
        // There are regions below it.
        self.host() == "api.openai.com" || self.host().ends_with(".api.openai.com")
    }

    /// A name in small letters, or an address without brackets.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, also where nobody wrote one.
    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// Whether nothing there is encrypted.
    pub(crate) fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }

    fn at_v1(&self, path: &str) -> Url {
        match self.path() {
            "" => self.at(&format!("/v1{path}")),
            base => self.at(&format!("{base}{path}")),
        }
    }

    /// Anthropic's paths stand below `v1`, and what people call its base ends before that.
    fn below_v1(&self, path: &str) -> Url {
        let base = self.path();
        self.at(&format!("{}/v1{path}", base.strip_suffix("/v1").unwrap_or(base)))
    }

    /// Ollama's own paths stand beside `v1`, not below it.
    fn at_root(&self, path: &str) -> Url {
        let base = self.path();
        self.at(&format!("{}{path}", base.strip_suffix("/v1").unwrap_or(base)))
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(path);
        url
    }

    /// A URL of this kind has a path of `/` even where none is written.
    fn path(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        Endpoint::parse(text)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests;
