//! The operator's rules: addresses that are allowed beyond the public internet over `https`.

use std::net::IpAddr;

use reqwest::Url;

/// The addresses that may be reached. The default: public addresses, over `https`, at port 443.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The operator's exceptions: `[egress] allow`.
    pub allow: Vec<Exception>,
    /// The ports that may be reached without an exception.
    pub ports: Vec<u16>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { allow: Vec::new(), ports: vec![443] }
    }
}

impl Rules {
    /// The default with exceptions as the operator writes them.
    pub fn allowing<T: AsRef<str>>(entries: &[T]) -> Result<Rules, ExceptionError> {
        let allow = entries.iter().map(|entry| Exception::parse(entry.as_ref()));
        Ok(Rules { allow: allow.collect::<Result<_, _>>()?, ..Rules::default() })
    }

    pub(super) fn except(&self, host: &UrlHost, port: u16) -> bool {
        self.allow.iter().any(|exception| exception.host == *host && exception.port == port)
    }
}

/// One host and port that may be reached although it is private, and over plain `http`.
///
/// An exception by name holds for that name alone, with any private address that it resolves to; but never with
/// link-local addresses, metadata services and the like. An exception by address holds for exactly that address, as it
/// is written in a URL, and not for names that resolve to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    host: UrlHost,
    port: u16,
}

/// An exception that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{entry}` is not a host with a port: write it like `wiki.example.com:8080`, `10.0.0.7:80` or `[fd00::7]:443`"
)]
pub struct ExceptionError {
    /// The entry as written.
    pub entry: String,
}

impl Exception {
    /// Reads `host:port`.
    pub fn parse(entry: &str) -> Result<Exception, ExceptionError> {
        Exception::read(entry).ok_or_else(|| ExceptionError { entry: entry.to_owned() })
    }

    fn read(entry: &str) -> Option<Exception> {
        let (host, port) = entry.rsplit_once(':')?;
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '[' | ']');
        if !port.bytes().all(|byte| byte.is_ascii_digit()) || !host.chars().all(plain) {
            return None;
        }
        let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
        // A URL's own parser reads the host, so that it is compared in the form that URLs come in.
        let url = Url::parse(&format!("http://{host}/")).ok().filter(|url| url.port().is_none())?;
        let host = UrlHost::from_url(&url)?;
        let dotted = matches!(&host, UrlHost::Name(name) if name.ends_with('.'));
        (!dotted).then_some(Exception { host, port })
    }
}

/// The host of a URL, in the one form that its parser leaves it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UrlHost {
    Name(String),
    Address(IpAddr),
}

impl UrlHost {
    pub(super) fn from_url(url: &Url) -> Option<UrlHost> {
        let text = url.host_str()?;
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        Some(match inner.parse() {
            Ok(address) => UrlHost::Address(address),
            Err(_) => UrlHost::Name(text.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_read() {
        let name = |name: &str, port| Ok(Exception { host: UrlHost::Name(name.to_owned()), port });
        let address =
            |text: &str, port| Ok(Exception { host: UrlHost::Address(text.parse().unwrap()), port });
        let table = [
            ("wiki.example.com:8080", name("wiki.example.com", 8080)),
            ("WIKI.Example.com:80", name("wiki.example.com", 80)),
            ("localhost:1", name("localhost", 1)),
            ("bücher.example:443", name("xn--bcher-kva.example", 443)),
            ("127.0.0.1:65535", address("127.0.0.1", 65535)),
            ("[::1]:80", address("::1", 80)),
            ("[0:0::1]:80", address("::1", 80)),
        ];
        for (entry, expected) in table {
            assert_eq!(Exception::parse(entry), expected, "{entry}");
        }
    }

    #[test]
    fn other_entries_are_refused() {
        let wrong = [
            "",
            ":80",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "host:+80",
            "host: 80",
            "http://host:80",
            "user@host:80",
            "host/path:80",
            "host?x:80",
            "host.:80",
            "*.example.com:80",
            "::1:80",
            "[::1:80",
            "[::1]",
            "a:1:80",
            "ho st:80",
        ];
        for entry in wrong {
            assert_eq!(Exception::parse(entry), Err(ExceptionError { entry: entry.to_owned() }), "{entry}");
        }
        assert_eq!(Rules::allowing(&["a.example:80", "b"]).unwrap_err().entry, "b");
    }

    #[test]
    fn an_exception_is_for_one_host_and_one_port() {
        let rules = Rules::allowing(&["wiki.example.com:8080", "127.0.0.1:80"]).unwrap();
        let name = |name: &str| UrlHost::Name(name.to_owned());
        assert!(rules.except(&name("wiki.example.com"), 8080));
        assert!(!rules.except(&name("wiki.example.com"), 80));
        assert!(!rules.except(&name("a.wiki.example.com"), 8080));
        assert!(!rules.except(&name("127.0.0.1.example.com"), 80));
        assert!(rules.except(&UrlHost::Address("127.0.0.1".parse().unwrap()), 80));
        assert!(!rules.except(&UrlHost::Address("127.0.0.2".parse().unwrap()), 80));
    }
}
