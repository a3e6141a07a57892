//! The egress client: it visits every address that a model, a tool's result or a request can influence.
//!
//! The decision whether an address may be visited is made without I/O ([`judge()`]); this is the I/O around it. It
//! promises that a connection is only ever made to an address that was judged: a name is looked up once for each
//! request, all of its addresses are judged, and the connection is pinned to them, so an answer that changes between
//! two look-ups changes nothing. Redirects are followed by hand, each target judged anew; an address that the operator
//! excepted is reached directly and not by a redirect from elsewhere. No proxy, cookie, credential or fragment is sent,
//! no compression is asked for or read, and every visit is bounded in time and size.
//!
//! It does not visit the services that the operator configured (search services, model servers): those are trusted as
//! written. It reads and never sends: there is no method but `GET`.

mod judge;
mod name;
mod page;
mod rules;
mod service_route;
mod special_range;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_core::tool::Cause;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, LOCATION};
use reqwest::{Client, Response, StatusCode, Url};
use tokio::time::{Instant, timeout_at};

use judge::EgressTarget;
pub use judge::{EgressRefusal, MAX_URL, PinnedUrl, RefusalReason, judge};
pub(crate) use page::body;
pub use page::{FetchLimits, FetchedPage, Media, Truncation};
use rules::UrlHost;
pub use rules::{Exception, ExceptionError, Rules};
pub(crate) use service_route::ServiceRoute;
pub use special_range::SpecialRange;

/// The `User-Agent` of every request.
pub(crate) const USER_AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

const ACCEPTED: &str = "text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.8";

/// Looks a name up. A port, so that a test can be a name server that changes its answers.
pub type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The client for addresses that strangers wrote.
#[derive(Clone)]
pub struct EgressClient {
    rules: Rules,
    limits: FetchLimits,
    resolver: Resolver,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The address may not be visited.
    #[error("{0}")]
    Refused(EgressRefusal),
    /// The page redirects to an address that may not be visited.
    #[error("The page at {from} redirects to an address that is refused. {refused}")]
    Redirected {
        /// The host that redirects.
        from: String,
        /// Why the redirect is not followed.
        refused: EgressRefusal,
    },
    /// The page redirects too often, or to nowhere.
    #[error("The address was redirected {0} times without arriving: try another one.")]
    BadRedirect(usize),
    /// The name could not be looked up.
    #[error("The name {host} cannot be looked up ({reason}): check it, or try again later.")]
    Lookup {
        /// The name.
        host: String,
        /// The error of the system's resolver.
        reason: String,
    },
    /// There was no connection, or it broke.
    #[error("{host} cannot be reached: {reason}.")]
    Connection {
        /// The host and port.
        host: String,
        /// The innermost error.
        reason: String,
    },
    /// There was no answer in time.
    #[error("{host} did not answer within {} s: try again later, or another address.", .limit.as_secs_f64())]
    TimedOut {
        /// The host and port.
        host: String,
        /// The limit that passed.
        limit: Duration,
    },
    /// The server answered, but not with the page.
    #[error("{host} answered with status {status}.")]
    Status {
        /// The host and port.
        host: String,
        /// The status.
        status: StatusCode,
    },
    /// The answer is not text.
    #[error("The address holds no text but `{0}`: only HTML, JSON and other text can be read.")]
    Media(String),
    /// The answer is compressed.
    #[error("The server sent compressed data although none was asked for, so it was not read.")]
    Compressed,
}

impl EgressError {
    /// Whether certainly no connection was made.
    pub fn is_before_start(&self) -> bool {
        matches!(self, EgressError::Refused(_) | EgressError::Lookup { .. })
    }

    /// The cause: the requested address itself, or a condition that may pass.
    pub fn cause(&self) -> Cause {
        match self {
            EgressError::Lookup { .. } | EgressError::Connection { .. } | EgressError::TimedOut { .. } => {
                Cause::Tool
            }
            EgressError::Status { status, .. } if may_pass(*status) => Cause::Tool,
            EgressError::Refused(_)
            | EgressError::Redirected { .. }
            | EgressError::BadRedirect(_)
            | EgressError::Status { .. }
            | EgressError::Media(_)
            | EgressError::Compressed => Cause::Asked,
        }
    }
}

/// Whether the same request may succeed later.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

/// The outcome of one request.
enum FetchOutcome {
    Arrived(Box<FetchedPage>),
    Redirect(String),
}

impl EgressClient {
    /// A client with the default limits and the system's name server.
    pub fn new(rules: Rules) -> Self {
        EgressClient::limited(rules, FetchLimits::default())
    }

    /// A client with its own limits and the system's name server.
    pub fn limited(rules: Rules, limits: FetchLimits) -> Self {
        EgressClient::with(rules, limits, Arc::new(|name| system_lookup(name).boxed()))
    }

    /// A client with its own limits and name server.
    pub fn with(rules: Rules, limits: FetchLimits, resolver: Resolver) -> Self {
        EgressClient { rules, limits, resolver }
    }

    /// The time limit of a visit.
    pub(crate) fn time(&self) -> Duration {
        self.limits.time
    }

    /// Visits an address and reads the page there.
    pub async fn get(&self, url: &str) -> Result<FetchedPage, EgressError> {
        let until = Instant::now() + self.limits.time;
        let mut target = EgressTarget::read(url, &self.rules).map_err(EgressError::Refused)?;
        let mut from: Option<String> = None;
        for _ in 0..=self.limits.redirects {
            let refuse = |refused| match &from {
                None => EgressError::Refused(refused),
                Some(from) => EgressError::Redirected { from: from.clone(), refused },
            };
            let host = target.shown();
            let pinned = self.pin(target, until).await?.map_err(refuse)?;
            let next = match self.visit(pinned, &host, until).await? {
                FetchOutcome::Arrived(page) => return Ok(*page),
                FetchOutcome::Redirect(next) => next,
            };
            target = EgressTarget::redirected(&next, &self.rules, &host)
                .map_err(|refused| EgressError::Redirected { from: host.clone(), refused })?;
            from = Some(host);
        }
        Err(EgressError::BadRedirect(self.limits.redirects))
    }

    /// Looks a name up, once, and judges its addresses.
    async fn pin(
        &self,
        target: EgressTarget,
        until: Instant,
    ) -> Result<Result<PinnedUrl, EgressRefusal>, EgressError> {
        let Some(name) = target.name() else { return Ok(target.pin(&[])) };
        let addresses = match timeout_at(until, (self.resolver)(name.to_owned())).await {
            Err(_) => return Err(self.timed_out(&target.shown())),
            Ok(Err(error)) => {
                return Err(EgressError::Lookup { host: name.to_owned(), reason: error.to_string() });
            }
            Ok(Ok(addresses)) => addresses,
        };
        Ok(target.pin(&addresses))
    }

    /// Makes one request to a judged address.
    async fn visit(
        &self,
        pinned: PinnedUrl,
        host: &str,
        until: Instant,
    ) -> Result<FetchOutcome, EgressError> {
        let broken =
            |error: reqwest::Error| EgressError::Connection { host: host.to_owned(), reason: cause(error) };
        let url = pinned.url.clone();
        let sending = async {
            // Reading the system's certificates takes a while.
            let client = tokio::task::spawn_blocking(move || client(&pinned)).await;
            let client = client.map_err(|_| EgressError::Connection {
                host: host.to_owned(),
                reason: "no connection could be set up".to_owned(),
            })?;
            let request = client.map_err(broken)?.get(url.clone());
            let request = request.header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "identity");
            request.send().await.map_err(broken)
        };
        let response: Response = match timeout_at(until, sending).await {
            Err(_) => return Err(self.timed_out(host)),
            Ok(response) => response?,
        };
        let status = response.status();
        if let Some(location) = response.headers().get(LOCATION).filter(|_| status.is_redirection()) {
            let next = location.to_str().ok().and_then(|location| url.join(location).ok());
            return next.map(|next| FetchOutcome::Redirect(next.into())).ok_or(EgressError::BadRedirect(1));
        }
        if !status.is_success() {
            return Err(EgressError::Status { host: host.to_owned(), status });
        }
        let (media, charset) = page::media(response.headers())?;
        let (body, cut) = page::body(response, &self.limits, until).await.map_err(broken)?;
        Ok(FetchOutcome::Arrived(Box::new(FetchedPage { url, media, charset, body, cut })))
    }

    fn timed_out(&self, host: &str) -> EgressError {
        EgressError::TimedOut { host: host.to_owned(), limit: self.limits.time }
    }
}

/// A client for one request: it resolves one name, to the addresses that were judged.
fn client(pinned: &PinnedUrl) -> reqwest::Result<Client> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .pool_max_idle_per_host(0)
        .dns_resolver(NoResolver);
    if let Some(host) = pinned.url.host_str() {
        builder = builder.resolve_to_addrs(host, &pinned.addresses);
    }
    if pinned.url.scheme() == "http" {
        // No certificate is needed, and reading the system's takes time.
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

/// A resolver that resolves no name, so that nothing is looked up past the judgement.
struct NoResolver;

impl Resolve for NoResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let error = io::Error::other(format!("{} was not judged", name.as_str()));
        Box::pin(std::future::ready(Err(error.into())))
    }
}

async fn system_lookup(name: String) -> io::Result<Vec<IpAddr>> {
    // Any port will do: only the addresses are taken.
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

/// Whether a URL names this computer, as it is written: a loopback address, or `localhost`.
pub(crate) fn is_this_computer(url: &Url) -> bool {
    match UrlHost::from_url(url) {
        Some(UrlHost::Address(address)) => address.to_canonical().is_loopback(),
        Some(UrlHost::Name(name)) => name == "localhost",
        None => false,
    }
}

/// The innermost reason, without the address, whose query may hold anything.
pub fn cause(error: reqwest::Error) -> String {
    baton_http::innermost(&error.without_url()).to_string()
}
