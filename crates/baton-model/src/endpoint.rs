//! The base URL of a provider, and the address of each wire format below it.
//!
//! Pure: a base URL goes in, addresses come out. The same base is written in two ways, with `/v1` and
//! without; both mean the same here. A base with any other path is taken literally, except that requests in
//! Anthropic's format always go below `v1`, as those of its own programs do. It holds no secret:
//! a user or a password in a URL is refused, because URLs end up in logs and errors.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use crate::wire::{PathBase, Wire};

/// A base URL: scheme, host, port and perhaps a path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Without query, user info or fragment; its path ends without `/`, and is never `/v1` alone.
    url: Url,
}

/// Why a base URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// The text is no URL.
    #[error("it is no URL ({0}); write it like http://127.0.0.1:11434 or https://host/path")]
    Syntax(String),
    /// The scheme is neither `http` nor `https`.
    #[error("its scheme is {0:?}; only http and https are spoken")]
    Scheme(String),
    /// The URL holds a user or a password, which are not repeated here.
    #[error("it holds a user or a password, and URLs are shown; put the key into the provider's key setting")]
    UserInfo,
    /// The URL has a query or a fragment.
    #[error("it has a query or a fragment; a base URL ends with its path")]
    Query,
}

impl Endpoint {
    /// Parses a base URL.
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

    /// The address to which requests in a wire format are posted.
    pub fn address(&self, wire: Wire) -> Url {
        self.join(wire.protocol().path_base, wire.protocol().answer_path)
    }

    /// The address of the list of models.
    pub fn listing(&self, wire: Wire) -> Url {
        self.join(wire.protocol().path_base, wire.protocol().models_path)
    }

    /// Whether requests stay on this machine: the host is a loopback address or `localhost`. A name
    /// below `localhost` does not count, because the resolver decides where it leads.
    pub fn is_local(&self) -> bool {
        match self.host().parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host() == "localhost",
        }
    }

    /// Whether the server is OpenAI's own. Others with the same format, Azure among them, are only compatible.
    pub(crate) fn is_openai(&self) -> bool {
        // Regions have names below it.
        self.host() == "api.openai.com" || self.host().ends_with(".api.openai.com")
    }

    /// The host: a name in lower case, or an address without brackets.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// The port that is written, or the default of the scheme.
    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// Whether the scheme is plain `http`.
    pub(crate) fn is_plain(&self) -> bool {
        self.url.scheme() == "http"
    }

    fn join(&self, base: PathBase, path: &str) -> Url {
        // The path of such a URL is `/` even where none is written.
        let prefix = self.url.path().trim_end_matches('/');
        let root = prefix.strip_suffix("/v1").unwrap_or(prefix);
        let path = match base {
            PathBase::Root => format!("{root}{path}"),
            PathBase::BaseOrV1 if !prefix.is_empty() => format!("{prefix}{path}"),
            PathBase::BaseOrV1 | PathBase::V1 => format!("{root}/v1{path}"),
        };
        let mut url = self.url.clone();
        url.set_path(&path);
        url
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
