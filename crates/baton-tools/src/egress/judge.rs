//! The decision whether an address that a stranger wrote may be visited, and at which network addresses.
//!
//! It is made without I/O and in two steps, because a name server is a stranger, too: [`EgressTarget::read`] judges the
//! URL as written, so that nothing refused is even looked up; [`EgressTarget::pin`] judges *all* addresses that the
//! look-up returned, and hands out those that may be connected to. [`judge()`] is both.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use reqwest::Url;

use super::name;
use super::rules::{Rules, UrlHost};
use super::special_range::SpecialRange;

/// The longest address that is considered, in bytes.
pub const MAX_URL: usize = 4096;

/// A URL that may be visited, and the only network addresses to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedUrl {
    /// The URL, without its fragment.
    pub url: Url,
    /// Every address of the host, each of them judged.
    pub addresses: Vec<SocketAddr>,
}

/// A URL that may not be visited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRefusal {
    /// Why not.
    pub why: RefusalReason,
    /// The host and port, where the URL has them; without user name, path and query.
    pub host: Option<String>,
}

/// The reason for refusing a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// It is no absolute URL with a host.
    Syntax,
    /// It is longer than [`MAX_URL`].
    Length,
    /// It is not `https`, or `http` without an exception.
    Scheme,
    /// It holds a user name or a password.
    UserInfo,
    /// Its host is written so that people and parsers read it differently.
    Spelling,
    /// Its port is not among those allowed.
    Port,
    /// Its host is a name that is valid only inside a network.
    LocalName,
    /// Its host is the name of a metadata service.
    MetadataName,
    /// Its host has no address.
    Unresolved,
    /// Its host, or one of the addresses that its name leads to, is not public.
    Address(SpecialRange),
    /// It is allowed by an exception alone, and a page of another host or port leads to it.
    Elsewhere,
}

impl RefusalReason {
    /// Its name in the test corpus and in logs.
    pub fn code(self) -> &'static str {
        match self {
            RefusalReason::Syntax => "syntax",
            RefusalReason::Length => "length",
            RefusalReason::Scheme => "scheme",
            RefusalReason::UserInfo => "userinfo",
            RefusalReason::Spelling => "spelling",
            RefusalReason::Port => "port",
            RefusalReason::LocalName => "local_name",
            RefusalReason::MetadataName => "metadata_name",
            RefusalReason::Unresolved => "unresolved",
            RefusalReason::Address(range) => range.code(),
            RefusalReason::Elsewhere => "elsewhere",
        }
    }
}

/// Judges a URL and the addresses of its host.
pub fn judge(url: &str, resolved: &[IpAddr], rules: &Rules) -> Result<PinnedUrl, EgressRefusal> {
    EgressTarget::read(url, rules)?.pin(resolved)
}

/// A URL that may be visited as far as it is written. The addresses of its host are not judged yet.
#[derive(Debug)]
pub(super) struct EgressTarget {
    url: Url,
    host: UrlHost,
    port: u16,
    excepted: bool,
    /// Whether there is an exception that does not count, because another page leads here.
    withheld: bool,
}

impl EgressTarget {
    /// Judges a URL as written.
    pub(super) fn read(text: &str, rules: &Rules) -> Result<EgressTarget, EgressRefusal> {
        let unread = |why| EgressRefusal { why, host: None };
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        if text.len() > MAX_URL {
            return Err(unread(RefusalReason::Length));
        }
        let mut url = Url::parse(text).map_err(|_| unread(RefusalReason::Syntax))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unread(RefusalReason::Scheme));
        }
        url.set_fragment(None);
        let (Some(host), Some(port)) = (UrlHost::from_url(&url), url.port_or_known_default()) else {
            return Err(unread(RefusalReason::Syntax));
        };
        let target = EgressTarget { excepted: rules.except(&host, port), url, host, port, withheld: false };
        match target.fault(text, rules) {
            Some(why) => Err(target.refused(why)),
            None => Ok(target),
        }
    }

    /// Judges the target of a redirect. An exception holds for direct requests to that host and port: a redirect by
    /// another host is not the operator's word that it may be visited.
    pub(super) fn redirected(text: &str, rules: &Rules, from: &str) -> Result<EgressTarget, EgressRefusal> {
        let mut target = EgressTarget::read(text, rules)?;
        if target.excepted && target.shown() != from {
            target.excepted = false;
            target.withheld = true;
            if target.fault(text, rules).is_some() {
                return Err(target.refused(RefusalReason::Elsewhere));
            }
        }
        Ok(target)
    }

    /// The name to look up, if the host is one.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.host {
            UrlHost::Name(name) => Some(name),
            UrlHost::Address(_) => None,
        }
    }

    /// Judges the addresses of the host. A host that is an address has only itself, and `resolved` is ignored.
    pub(super) fn pin(self, resolved: &[IpAddr]) -> Result<PinnedUrl, EgressRefusal> {
        let addresses: &[IpAddr] = match &self.host {
            UrlHost::Name(_) => resolved,
            UrlHost::Address(address) => std::slice::from_ref(address),
        };
        if addresses.is_empty() {
            return Err(self.refused(RefusalReason::Unresolved));
        }
        let by_name = self.name().is_some();
        let admitted = |range: &SpecialRange| self.excepted && (!by_name || range.may_be_excepted_by_name());
        if let Some(range) = addresses
            .iter()
            .filter_map(|address| SpecialRange::containing(*address))
            .find(|range| !admitted(range))
        {
            return Err(self.refused(if self.withheld {
                RefusalReason::Elsewhere
            } else {
                RefusalReason::Address(range)
            }));
        }
        let addresses = addresses.iter().map(|address| SocketAddr::new(*address, self.port)).collect();
        Ok(PinnedUrl { url: self.url, addresses })
    }

    fn fault(&self, text: &str, rules: &Rules) -> Option<RefusalReason> {
        let Some(written) = self.authority(text) else { return Some(RefusalReason::Spelling) };
        if written.contains('@') {
            return Some(RefusalReason::UserInfo);
        }
        if !self.is_named_by(written) || text.contains(|c: char| c.is_control()) {
            return Some(RefusalReason::Spelling);
        }
        if self.excepted {
            return None;
        }
        match &self.host {
            UrlHost::Name(name) if name::is_metadata(name) => return Some(RefusalReason::MetadataName),
            UrlHost::Name(name) if name::is_local(name) => return Some(RefusalReason::LocalName),
            UrlHost::Name(_) => {}
            UrlHost::Address(address) => {
                if let Some(range) = SpecialRange::containing(*address) {
                    return Some(RefusalReason::Address(range));
                }
            }
        }
        if self.url.scheme() != "https" {
            return Some(RefusalReason::Scheme);
        }
        (!rules.ports.contains(&self.port)).then_some(RefusalReason::Port)
    }

    /// The host and port as a person reads them: all between `//` and the next `/`, `?` or `#`.
    fn authority<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (scheme, rest) = text.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        scheme.eq_ignore_ascii_case(self.url.scheme()).then_some(&rest[..end])
    }

    /// Whether a person reads the same host and port as the parser. Parsers accept numbers in three bases, dots
    /// of other scripts, escapes, backslashes and line breaks, which only a misleading address needs.
    fn is_named_by(&self, written: &str) -> bool {
        let host = written.strip_suffix(&format!(":{}", self.port)).unwrap_or(written);
        match &self.host {
            UrlHost::Name(name) => !name.ends_with('.') && host.eq_ignore_ascii_case(name),
            UrlHost::Address(IpAddr::V4(address)) => host == address.to_string(),
            UrlHost::Address(IpAddr::V6(address)) => {
                let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                inner.and_then(|inner| inner.parse().ok()) == Some(*address)
            }
        }
    }

    /// Host and port, as people and the operator's exceptions write them.
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.url.host_str().unwrap_or_default(), self.port)
    }

    fn refused(&self, why: RefusalReason) -> EgressRefusal {
        EgressRefusal { why, host: Some(self.shown()) }
    }
}

impl fmt::Display for EgressRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("host:port");
        let unvisited = match self.why {
            RefusalReason::Syntax => {
                return f.write_str("The address is not complete: write it with `https://` and a host.");
            }
            RefusalReason::Length => {
                return write!(f, "The address is longer than {MAX_URL} bytes: use a shorter one.");
            }
            RefusalReason::Spelling => {
                return write!(f, "The host is written in an unusual way. If {host} is meant, write that.");
            }
            RefusalReason::Unresolved => return write!(f, "{host} has no address: check the name."),
            RefusalReason::Scheme if self.host.is_none() => {
                return f.write_str("Only addresses that begin with `https://` can be visited.");
            }
            RefusalReason::UserInfo => {
                "the address holds a user name or a password. Leave out all before the `@`"
            }
            RefusalReason::Scheme => "the address is not encrypted. Try it with `https://`",
            RefusalReason::Port => "its port is not one that is usual for web pages",
            RefusalReason::LocalName => "it is not a name of the public internet",
            RefusalReason::MetadataName => "it is the name of a cloud's metadata service",
            RefusalReason::Address(range) => range.message(),
            RefusalReason::Elsewhere => {
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

impl EgressRefusal {
    /// Whether the advice to make an exception is worth giving.
    fn may_be_excepted(&self) -> bool {
        match self.why {
            RefusalReason::Scheme | RefusalReason::Port | RefusalReason::LocalName => true,
            RefusalReason::Address(range) => range.may_be_excepted_by_name(),
            _ => false,
        }
    }
}

impl std::error::Error for EgressRefusal {}

#[cfg(test)]
mod tests;
