//! Clients for services that the operator configured. Their addresses are trusted as written and do not pass the guard.

use reqwest::{ClientBuilder, Url};

use super::{USER_AGENT, is_this_computer};

/// How a configured service is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServiceRoute {
    /// Whether it is on this computer, where no proxy is used.
    pub(crate) is_local: bool,
    /// Whether the connection is not encrypted.
    pub(crate) is_plain: bool,
}

impl ServiceRoute {
    pub(crate) fn to(url: &Url) -> ServiceRoute {
        ServiceRoute { is_local: is_this_computer(url), is_plain: url.scheme() == "http" }
    }

    /// A client that follows no redirect, which would carry the key elsewhere, and retries nothing.
    pub(crate) fn client(self) -> ClientBuilder {
        let mut builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        if self.is_local {
            builder = builder.no_proxy();
        }
        if self.is_plain {
            // Reading the system's certificates takes time, and fails where there are none.
            builder = builder.tls_certs_only([]);
        }
        builder
    }
}
