//! The environment variable that leads a request through a proxy, for messages.
//!
//! reqwest chooses the proxy by itself and does not report it. So this follows its rules, which are
//! curl's, as `hyper_util::client::proxy::matcher` has them. The values of these variables may hold passwords
//! and are not shown.

use std::net::IpAddr;

use crate::endpoint::Endpoint;

/// The name of the variable whose proxy a request to this endpoint passes.
pub(super) fn variable(endpoint: &Endpoint) -> Option<&'static str> {
    variable_from(endpoint, |name| std::env::var(name).ok())
}

fn variable_from(endpoint: &Endpoint, value: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    // In a CGI program the header `Proxy` of a request becomes HTTP_PROXY, so nothing is taken from there.
    if endpoint.is_local() || value("REQUEST_METHOD").is_some() {
        return None;
    }
    let first = |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, value(name)?)));
    let usable = |names| first(names).filter(|(_, value)| is_proxy(value)).map(|(name, _)| name);
    let own = if endpoint.is_plain() { ["HTTP_PROXY", "http_proxy"] } else { ["HTTPS_PROXY", "https_proxy"] };
    let name = usable(own).or_else(|| usable(["ALL_PROXY", "all_proxy"]))?;
    let excepted = first(["NO_PROXY", "no_proxy"]).map(|(_, list)| list).unwrap_or_default();
    (!excepted.split(',').any(|entry| covers(entry.trim(), endpoint.host()))).then_some(name)
}

/// Whether a value is the address of a proxy; any other is ignored.
fn is_proxy(value: &str) -> bool {
    match value.split_once("://") {
        Some((scheme, rest)) => {
            let known = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];
            !rest.is_empty() && known.iter().any(|known| scheme.eq_ignore_ascii_case(known))
        }
        None => !value.is_empty(),
    }
}

/// Whether an entry of `NO_PROXY` is this host, a domain above it, or a network around it.
fn covers(entry: &str, host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        let (network, length) = match entry.split_once('/') {
            Some((network, length)) => (network, length.parse().ok()),
            None => (entry, Some(128)),
        };
        return match (network.parse(), address, length) {
            (Ok(IpAddr::V4(network)), IpAddr::V4(address), Some(length)) => {
                same_prefix(network.to_bits().into(), address.to_bits().into(), 32, length)
            }
            (Ok(IpAddr::V6(network)), IpAddr::V6(address), Some(length)) => {
                same_prefix(network.to_bits(), address.to_bits(), 128, length)
            }
            _ => false,
        };
    }
    let (entry, host) = (entry.to_ascii_lowercase(), host.to_ascii_lowercase());
    let domain = entry.strip_prefix('.').unwrap_or(&entry);
    let above = || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    entry == "*" || (!domain.is_empty() && (host == domain || above()))
}

/// Whether two addresses of `bits` bits share their first `length` bits.
fn same_prefix(one: u128, other: u128, bits: u32, length: u32) -> bool {
    (one ^ other).checked_shr(bits.saturating_sub(length)).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &str, settings: &[(&str, &str)]) -> Option<&'static str> {
        let value = |wanted: &str| {
            settings.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
        };
        variable_from(&Endpoint::parse(url).unwrap(), value)
    }

    #[test]
    fn each_scheme_has_its_setting_and_one_is_for_all() {
        let plain = [("HTTP_PROXY", "http://p:1"), ("https_proxy", "p:1"), ("ALL_PROXY", "socks5h://p")];
        let odd = [("HTTPS_PROXY", "ftp://p"), ("https_proxy", "http://p"), ("all_proxy", "http://p")];
        let table = [
            (found("http://h", &plain), Some("HTTP_PROXY")),
            (found("https://h", &plain), Some("https_proxy")),
            (found("https://h", &plain[..1]), None),
            (found("https://h", &plain[2..]), Some("ALL_PROXY")),
            // The first variable that is set wins, even if its value is not usable.
            (found("https://h", &odd), Some("all_proxy")),
            (found("https://h", &[("HTTPS_PROXY", "")]), None),
            (found("http://h", &[]), None),
            (found("http://localhost", &plain), None),
            (found("http://[::1]", &plain), None),
            (found("http://x.localhost", &plain), Some("HTTP_PROXY")),
            (found("http://h", &[plain[0], ("REQUEST_METHOD", "GET")]), None),
        ];
        for (at, (found, expected)) in table.into_iter().enumerate() {
            assert_eq!(found, expected, "row {at}");
        }
    }

    #[test]
    fn exceptions_are_hosts_domains_and_networks() {
        let table = [
            ("http://model.example", "*", true),
            ("http://model.example", "other, Model.Example", true),
            ("http://model.example", "example", true),
            ("http://model.example", ".example", true),
            ("http://model.example", "del.example", false),
            ("http://model.example", "", false),
            ("http://model.example", ",.,", false),
            ("http://10.1.2.3", "10.1.2.3", true),
            ("http://10.1.2.3", "10.1.0.0/16", true),
            ("http://10.1.2.3", "10.2.0.0/16", false),
            ("http://10.1.2.3", "0.0.0.0/0", true),
            ("http://10.1.2.3", "10.1.2.0/x", false),
            ("http://10.1.2.3", "*", false),
            ("http://[fd00::1]", "fd00::/8", true),
            ("http://[fd00::1]", "fd00::2", false),
            ("http://[fd00::1]", "10.0.0.0/8", false),
        ];
        for (url, excepted, expected) in table {
            let settings = [("HTTP_PROXY", "http://p"), ("no_proxy", excepted)];
            assert_eq!(found(url, &settings).is_none(), expected, "{url} {excepted:?}");
        }
    }
}
