//! The decision: whether an address that a stranger wrote may be visited, and at which network addresses.
//!
//! It is made without I/O and in two steps, because a name server is a stranger, too: [`Target::read`] judges what is
//! written, so that nothing refused is even looked up; [`Target::pin`] judges what the look-up found, *all* of it,
//! and hands out the addresses that may be connected to. [`judge()`] is both.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use reqwest::Url;

use super::name;
use super::place::Place;
use super::rules::{Host, Rules};

/// The longest address that is considered, in bytes.
pub const MAX_URL: usize = 4096;

/// A URL that may be visited, and the only network addresses where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The URL, without its fragment.
    pub url: Url,
    /// Where to connect: every address that was found, each of them judged.
    pub addresses: Vec<SocketAddr>,
}

/// A URL that may not be visited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why not.
    pub why: Why,
    /// The host and port, where the URL has them; without user name, path and query.
    pub host: Option<String>,
}

/// Why a URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// It is no absolute URL with a host.
    Syntax,
    /// It is longer than [`MAX_URL`].
    Length,
    /// It is not `https`, or `http` without an exception.
    Scheme,
    /// It holds a user name or a password.
    UserInfo,
    /// Its host is written in a way that readers and parsers understand differently.
    Spelling,
    /// Its port is not among those allowed.
    Port,
    /// Its host is a name that only means something inside a network.
    LocalName,
    /// Its host is the name of a metadata service.
    MetadataName,
    /// Its host has no address.
    Unresolved,
    /// Its host, or one of the addresses that its name leads to, is not public.
    Address(Place),
    /// It is allowed by an exception alone, and a page of another host or port leads to it.
    Elsewhere,
}

impl Why {
    /// Its name in the test corpus and in logs.
    pub fn code(self) -> &'static str {
        match self {
            Why::Syntax => "syntax",
            Why::Length => "length",
            Why::Scheme => "scheme",
            Why::UserInfo => "userinfo",
            Why::Spelling => "spelling",
            Why::Port => "port",
            Why::LocalName => "local_name",
            Why::MetadataName => "metadata_name",
            Why::Unresolved => "unresolved",
            Why::Address(place) => place.code(),
            Why::Elsewhere => "elsewhere",
        }
    }
}

/// Judges a URL and the addresses that its host was found to have.
pub fn judge(url: &str, resolved: &[IpAddr], rules: &Rules) -> Result<Pinned, Refused> {
    Target::read(url, rules)?.pin(resolved)
}

/// A URL of which everything that is written may be visited. Where its name leads is not judged yet.
#[derive(Debug)]
pub(super) struct Target {
    url: Url,
    host: Host,
    port: u16,
    excepted: bool,
    /// Whether there is an exception that does not count, because another page leads here.
    withheld: bool,
}

impl Target {
    /// Judges what is written.
    pub(super) fn read(text: &str, rules: &Rules) -> Result<Target, Refused> {
        let unread = |why| Refused { why, host: None };
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        if text.len() > MAX_URL {
            return Err(unread(Why::Length));
        }
        let mut url = Url::parse(text).map_err(|_| unread(Why::Syntax))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unread(Why::Scheme));
        }
        url.set_fragment(None);
        let (Some(host), Some(port)) = (Host::of(&url), url.port_or_known_default()) else {
            return Err(unread(Why::Syntax));
        };
        let target = Target { excepted: rules.except(&host, port), url, host, port, withheld: false };
        match target.fault(text, rules) {
            Some(why) => Err(target.refused(why)),
            None => Ok(target),
        }
    }

    /// Judges what a page redirects to. An exception is for whoever asks for that host and port: a page of another
    /// one is not the operator's word that it may be visited.
    pub(super) fn redirected(text: &str, rules: &Rules, from: &str) -> Result<Target, Refused> {
        let mut target = Target::read(text, rules)?;
        if target.excepted && target.shown() != from {
            target.excepted = false;
            target.withheld = true;
            if target.fault(text, rules).is_some() {
                return Err(target.refused(Why::Elsewhere));
            }
        }
        Ok(target)
    }

    /// The name to look up, if the host is one.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Name(name) => Some(name),
            Host::Address(_) => None,
        }
    }

    /// Judges what the name leads to. A host that is an address leads to itself, whatever was found.
    pub(super) fn pin(self, resolved: &[IpAddr]) -> Result<Pinned, Refused> {
        let found: &[IpAddr] = match &self.host {
            Host::Name(_) => resolved,
            Host::Address(address) => std::slice::from_ref(address),
        };
        if found.is_empty() {
            return Err(self.refused(Why::Unresolved));
        }
        let by_name = self.name().is_some();
        let admitted = |place: &Place| self.excepted && (!by_name || place.may_be_excepted_by_name());
        if let Some(place) = found.iter().filter_map(|address| Place::of(*address)).find(|p| !admitted(p)) {
            return Err(self.refused(if self.withheld { Why::Elsewhere } else { Why::Address(place) }));
        }
        let addresses = found.iter().map(|address| SocketAddr::new(*address, self.port)).collect();
        Ok(Pinned { url: self.url, addresses })
    }

    fn fault(&self, text: &str, rules: &Rules) -> Option<Why> {
        let Some(written) = self.authority(text) else { return Some(Why::Spelling) };
        if written.contains('@') {
            return Some(Why::UserInfo);
        }
        if !self.is_named_by(written) || text.contains(|c: char| c.is_control()) {
            return Some(Why::Spelling);
        }
        if self.excepted {
            return None;
        }
        match &self.host {
            Host::Name(name) if name::is_metadata(name) => return Some(Why::MetadataName),
            Host::Name(name) if name::is_local(name) => return Some(Why::LocalName),
            Host::Name(_) => {}
            Host::Address(address) => {
                if let Some(place) = Place::of(*address) {
                    return Some(Why::Address(place));
                }
            }
        }
        if self.url.scheme() != "https" {
            return Some(Why::Scheme);
        }
        (!rules.ports.contains(&self.port)).then_some(Why::Port)
    }

    /// What a reader takes for the host and port: all between `//` and the next `/`, `?` or `#`.
    fn authority<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (scheme, rest) = text.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        scheme.eq_ignore_ascii_case(self.url.scheme()).then_some(&rest[..end])
    }

    /// Whether a reader sees the same host and port as the parser. Parsers accept numbers in three bases, dots
    /// of other scripts, escapes, backslashes and line breaks; whoever needs those wants to mislead.
    fn is_named_by(&self, written: &str) -> bool {
        let host = written.strip_suffix(&format!(":{}", self.port)).unwrap_or(written);
        match &self.host {
            Host::Name(name) => !name.ends_with('.') && host.eq_ignore_ascii_case(name),
            Host::Address(IpAddr::V4(address)) => host == address.to_string(),
            Host::Address(IpAddr::V6(address)) => {
                let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                inner.and_then(|inner| inner.parse().ok()) == Some(*address)
            }
        }
    }

    /// Host and port, as people and the operator's exceptions write them.
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.url.host_str().unwrap_or_default(), self.port)
    }

    fn refused(&self, why: Why) -> Refused {
        Refused { why, host: Some(self.shown()) }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("host:port");
        let unvisited = match self.why {
            Why::Syntax => {
                return f.write_str("The address is not complete: write it with `https://` and a host.");
            }
            Why::Length => {
                return write!(f, "The address is longer than {MAX_URL} bytes: use a shorter one.");
            }
            Why::Spelling => {
                return write!(f, "The host is written in an unusual way. If {host} is meant, write that.");
            }
            Why::Unresolved => return write!(f, "{host} has no address: check the name."),
            Why::Scheme if self.host.is_none() => {
                return f.write_str("Only addresses that begin with `https://` can be visited.");
            }
            Why::UserInfo => "the address holds a user name or a password. Leave out all before the `@`",
            Why::Scheme => "the address is not encrypted. Try it with `https://`",
            Why::Port => "its port is not one that is usual for web pages",
            Why::LocalName => "it is not a name of the public internet",
            Why::MetadataName => "it is the name of a cloud's metadata service",
            Why::Address(place) => place.words(),
            Why::Elsewhere => {
                "the operator allows it to whoever asks for it, and not to a page that leads there"
            }
        };
        write!(f, "{host} is not visited: {unvisited}.")?;
        match self.may_be_excepted() {
            true => write!(f, " The operator can allow it with `[egress] allow = [\"{host}\"]`."),
            false => Ok(()),
        }
    }
}

impl Refused {
    /// Whether the advice to make an exception is worth giving.
    fn may_be_excepted(&self) -> bool {
        match self.why {
            Why::Scheme | Why::Port | Why::LocalName => true,
            Why::Address(place) => place.may_be_excepted_by_name(),
            _ => false,
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests;
