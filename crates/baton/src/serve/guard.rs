//! Whether a request is meant for us, before anything else is looked at.
//!
//! A page of a stranger can make a browser send requests here under the stranger's own name (DNS rebinding), or from the
//! stranger's page (CSRF). So the name that is asked for has to be ours, and a page that asks has to be ours or one that
//! the operator named. Both are decided without I/O, in [`judge_host`] and [`Guard::judge`]. There are no CORS headers but
//! for the pages that were named, and no page is named by `*`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::header::{self, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, uri};
use axum::response::{IntoResponse, Response};
use baton_core::id::excerpt;

use super::problem::{Code, Problem};

/// What browsers may send from pages that were named.
const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, traceparent";
/// What their scripts may read.
const EXPOSED: &str = "x-run-id, x-thread-id, x-trace-id, x-correlation-id, retry-after";

/// A host as a name or an address, in its one form.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Name(String),
    Address(IpAddr),
}

/// A host, and the port if one is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostName {
    host: Host,
    port: Option<u16>,
}

impl HostName {
    /// Reads what an operator wrote.
    pub(crate) fn configured(text: &str) -> Option<HostName> {
        HostName::read(text.trim())
    }

    /// Reads `host` or `host:port`: no user, no path, no zone, no other spelling of an address.
    fn read(text: &str) -> Option<HostName> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                (Host::Address(IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)), port)
            }
            None => {
                let (name, port) = text.find(':').map_or((text, ""), |at| text.split_at(at));
                (host(name)?, port)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) => Some(port_number(digits)?),
            None if port.is_empty() => None,
            None => return None,
        };
        Some(HostName { host, port })
    }
}

fn port_number(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| plain && *port != 0)
}

fn host(name: &str) -> Option<Host> {
    // A name may end with the dot of the root.
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(fits);
    if name.len() > 253 || !name.split('.').all(is_label) {
        return None;
    }
    Some(match name.parse::<Ipv4Addr>() {
        Ok(address) => Host::Address(IpAddr::V4(address)),
        Err(_) => Host::Name(name.to_ascii_lowercase()),
    })
}

/// Where one connection came in, and under which further names it may be asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ours<'a> {
    /// The address that the connection came in at.
    pub(crate) local: SocketAddr,
    /// What the operator named.
    pub(crate) further: &'a [HostName],
}

/// Whether a name that was asked for is ours; `usual_port` is meant where none is written.
pub(crate) fn judge_host(text: &str, usual_port: u16, ours: Ours<'_>) -> bool {
    let Some(asked) = HostName::read(text) else { return false };
    let port = asked.port.unwrap_or(usual_port);
    let named = |it: &HostName| it.host == asked.host && it.port.is_none_or(|its| its == port);
    if ours.further.iter().any(named) {
        return true;
    }
    let is_here = match &asked.host {
        Host::Name(name) => name == "localhost",
        Host::Address(address) => {
            [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST), ours.local.ip().to_canonical()]
                .contains(address)
        }
    };
    is_here && port == ours.local.port()
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    hosts: Vec<HostName>,
    origins: Vec<String>,
}

/// What is known of a page that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Page {
    /// Nobody's, or ours.
    Own,
    /// One that the operator named: its scripts may read the answer.
    Named(HeaderValue),
}

impl Guard {
    /// A guard who knows these names and these pages.
    pub(crate) fn new(hosts: Vec<HostName>, origins: Vec<String>) -> Guard {
        Guard { hosts, origins }
    }

    /// Lets a request in, or says why not.
    pub(crate) fn judge<B>(&self, request: &Request<B>, local: SocketAddr) -> Result<Page, Problem> {
        let ours = Ours { local, further: &self.hosts };
        self.host(request.uri(), request.headers(), ours)?;
        self.origin(request.headers(), ours)
    }

    fn host(&self, uri: &Uri, headers: &HeaderMap, ours: Ours<'_>) -> Result<(), Problem> {
        let mut stated = headers.get_all(HOST).iter();
        let (header, second) = (stated.next(), stated.next());
        if second.is_some() {
            return Err(Problem::invalid("there is more than one Host header: send one"));
        }
        let authority = uri.authority().map(uri::Authority::as_str);
        let header = header.map(|value| value.to_str().unwrap_or_default());
        if authority.or(header).is_none_or(str::is_empty) {
            return Err(Problem::invalid("there is no Host header: send one"));
        }
        // Where both are there, both have to be ours: what is behind a proxy may have looked at either.
        match [authority, header].into_iter().flatten().find(|text| !judge_host(text, 80, ours)) {
            None => Ok(()),
            Some(text) => {
                let detail = format!(
                    "{:?} is not served here; if it should be, name it in hosts below [serve] in baton.toml",
                    excerpt(text)
                );
                Err(Problem::new(Code::BadHost, detail))
            }
        }
    }

    fn origin(&self, headers: &HeaderMap, ours: Ours<'_>) -> Result<Page, Problem> {
        let mut stated = headers.get_all(ORIGIN).iter();
        let (origin, second) = (stated.next(), stated.next());
        let Some(origin) = origin else { return Ok(Page::Own) };
        let text = origin.to_str().unwrap_or_default();
        if second.is_none() && self.origins.iter().any(|known| known.eq_ignore_ascii_case(text)) {
            return Ok(Page::Named(origin.clone()));
        }
        let own = match text.split_once("://") {
            Some(("http", authority)) => judge_host(authority, 80, ours),
            Some(("https", authority)) => judge_host(authority, 443, ours),
            _ => false,
        };
        if own && second.is_none() {
            return Ok(Page::Own);
        }
        let detail = "pages of this origin may not use the service; if they should, name it in origins below [serve] \
                      in baton.toml";
        Err(Problem::new(Code::Forbidden, detail))
    }
}

/// The answer to a browser that asks beforehand, for a page that was named.
pub(crate) fn preflight<B>(request: &Request<B>, page: &Page) -> Option<Response> {
    let asks = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() != Method::OPTIONS || !asks || !matches!(page, Page::Named(_)) {
        return None;
    }
    let told = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    let mut response = (StatusCode::NO_CONTENT, told).into_response();
    open_to(page, response.headers_mut());
    Some(response)
}

/// Lets the scripts of a page that was named read the answer.
pub(crate) fn open_to(page: &Page, headers: &mut HeaderMap) {
    let Page::Named(origin) = page else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests;
