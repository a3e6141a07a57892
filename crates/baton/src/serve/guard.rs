//! The guard: decides whether a request is meant for this service, before anything else is looked at.
//!
//! The page of an attacker can make a browser send requests here under the attacker's own host name (DNS rebinding), or
//! from the attacker's page (CSRF). So the requested host has to be ours, and the requesting page has to be ours or one
//! that the operator named. Both are decided without I/O, in [`judge_host`] and [`Guard::judge`]. CORS headers are sent
//! only for the named pages, and no page is named by `*`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::header::{self, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, uri};
use axum::response::{IntoResponse, Response};
use baton_core::id::excerpt;

use super::problem::{Problem, ProblemCode};

/// The headers that browsers may send from named pages.
const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, traceparent";
/// The headers that scripts of named pages may read.
const EXPOSED: &str = "x-run-id, x-thread-id, x-trace-id, x-correlation-id, retry-after";

/// A host as a name or an address, in its normalised form.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RequestHost {
    Name(String),
    Address(IpAddr),
}

/// A host, and its port if one is stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostName {
    host: RequestHost,
    port: Option<u16>,
}

impl HostName {
    /// Reads a host from the configuration.
    pub(crate) fn configured(text: &str) -> Option<HostName> {
        HostName::read(text.trim())
    }

    /// Reads `host` or `host:port`: no user, no path, no zone, no other spelling of an address.
    fn read(text: &str) -> Option<HostName> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                (RequestHost::Address(IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)), port)
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

fn host(name: &str) -> Option<RequestHost> {
    // A name may end with the dot of the DNS root.
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(fits);
    if name.len() > 253 || !name.split('.').all(is_label) {
        return None;
    }
    Some(match name.parse::<Ipv4Addr>() {
        Ok(address) => RequestHost::Address(IpAddr::V4(address)),
        Err(_) => RequestHost::Name(name.to_ascii_lowercase()),
    })
}

/// The names that are ours for one connection: its local address and the configured hosts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ours<'a> {
    /// The local address of the connection.
    pub(crate) local: SocketAddr,
    /// The hosts that the operator named.
    pub(crate) further: &'a [HostName],
}

/// Whether a requested host is ours; `usual_port` applies where it states no port.
pub(crate) fn judge_host(text: &str, usual_port: u16, ours: Ours<'_>) -> bool {
    let Some(asked) = HostName::read(text) else { return false };
    let port = asked.port.unwrap_or(usual_port);
    let named = |it: &HostName| it.host == asked.host && it.port.is_none_or(|its| its == port);
    if ours.further.iter().any(named) {
        return true;
    }
    let is_here = match &asked.host {
        RequestHost::Name(name) => name == "localhost",
        RequestHost::Address(address) => {
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

/// The page that a request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// No page, or one of ours.
    Own,
    /// One that the operator named: its scripts may read the answer.
    Named(HeaderValue),
}

impl Guard {
    /// A guard with the configured hosts and origins.
    pub(crate) fn new(hosts: Vec<HostName>, origins: Vec<String>) -> Guard {
        Guard { hosts, origins }
    }

    /// Checks the host and the origin of a request.
    pub(crate) fn judge<B>(&self, request: &Request<B>, local: SocketAddr) -> Result<RequestOrigin, Problem> {
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
        // Where both are present, both have to be ours: a proxy on the way may have checked either.
        match [authority, header].into_iter().flatten().find(|text| !judge_host(text, 80, ours)) {
            None => Ok(()),
            Some(text) => {
                let detail = format!(
                    "{:?} is not served here; if it should be, name it in hosts below [serve] in baton.toml",
                    excerpt(text)
                );
                Err(Problem::new(ProblemCode::BadHost, detail))
            }
        }
    }

    fn origin(&self, headers: &HeaderMap, ours: Ours<'_>) -> Result<RequestOrigin, Problem> {
        let mut stated = headers.get_all(ORIGIN).iter();
        let (origin, second) = (stated.next(), stated.next());
        let Some(origin) = origin else { return Ok(RequestOrigin::Own) };
        let text = origin.to_str().unwrap_or_default();
        if second.is_none() && self.origins.iter().any(|known| known.eq_ignore_ascii_case(text)) {
            return Ok(RequestOrigin::Named(origin.clone()));
        }
        let own = match text.split_once("://") {
            Some(("http", authority)) => judge_host(authority, 80, ours),
            Some(("https", authority)) => judge_host(authority, 443, ours),
            _ => false,
        };
        if own && second.is_none() {
            return Ok(RequestOrigin::Own);
        }
        let detail = "pages of this origin may not use the service; if they should, name it in origins below [serve] \
                      in baton.toml";
        Err(Problem::new(ProblemCode::Forbidden, detail))
    }
}

/// The answer to a CORS preflight from a named page.
pub(crate) fn preflight<B>(request: &Request<B>, page: &RequestOrigin) -> Option<Response> {
    let asks = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() != Method::OPTIONS || !asks || !matches!(page, RequestOrigin::Named(_)) {
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

/// Lets the scripts of a named page read the answer.
pub(crate) fn open_to(page: &RequestOrigin, headers: &mut HeaderMap) {
    let RequestOrigin::Named(origin) = page else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests;
