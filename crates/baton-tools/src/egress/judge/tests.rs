use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

const PUBLIC: &str = "93.184.215.14";

fn addresses(text: &str) -> Vec<IpAddr> {
    text.split_whitespace().map(|address| address.parse().unwrap()).collect()
}

fn why(url: &str, resolved: &str, rules: &Rules) -> &'static str {
    judge(url, &addresses(resolved), rules).map_or_else(|refused| refused.why.code(), |_| "ok")
}

#[test]
fn a_public_page_is_pinned_to_all_its_addresses() {
    let found = addresses("93.184.215.14 2606:2800:21f:cb07:6820:80da:af6b:8b2c");
    let pinned = judge(" https://User.Example.COM/a?b=c#d\n", &found, &Rules::default()).unwrap();
    let expected = PinnedUrl {
        url: "https://user.example.com/a?b=c".parse().unwrap(),
        addresses: found.iter().map(|address| SocketAddr::new(*address, 443)).collect(),
    };
    assert_eq!(pinned, expected);
    let literal = judge("https://93.184.215.14/", &addresses("127.0.0.1"), &Rules::default()).unwrap();
    assert_eq!(literal.addresses, ["93.184.215.14:443".parse().unwrap()]);
}

#[test]
fn one_address_that_is_not_public_refuses_the_whole_name() {
    let rules = Rules::default();
    for (resolved, expected) in [
        ("", "unresolved"),
        (PUBLIC, "ok"),
        ("93.184.215.14 127.0.0.1", "loopback"),
        ("127.0.0.1 93.184.215.14", "loopback"),
        ("93.184.215.14 2606:4700::1111 fd00::1", "unique_local"),
    ] {
        assert_eq!(why("https://a.example/", resolved, &rules), expected, "{resolved}");
    }
}

#[test]
fn an_exception_by_name_admits_private_places_and_no_metadata() {
    let rules = Rules::allowing(&["wiki.corp:8080", "wiki.corp:443"]).unwrap();
    let table = [
        ("http://wiki.corp:8080/", "10.0.0.7", "ok"),
        ("https://WIKI.corp/", "127.0.0.1 fd00::7", "ok"),
        ("http://wiki.corp:8080/", PUBLIC, "ok"),
        ("http://wiki.corp:8080/", "10.0.0.7 169.254.169.254", "metadata"),
        ("http://wiki.corp:8080/", "169.254.1.1", "link_local"),
        ("http://wiki.corp:8080/", "0.0.0.0", "unspecified"),
        ("http://wiki.corp:8080/", "::ffff:10.0.0.7", "translated"),
        ("http://wiki.corp:8081/", "10.0.0.7", "local_name"),
        ("http://www.wiki.corp:8080/", "10.0.0.7", "local_name"),
        ("http://wiki.corp.:8080/", "10.0.0.7", "spelling"),
        ("http://a@wiki.corp:8080/", "10.0.0.7", "userinfo"),
        ("http://10.0.0.7:8080/", "", "private"),
        ("ftp://wiki.corp:8080/", "10.0.0.7", "scheme"),
    ];
    for (url, resolved, expected) in table {
        assert_eq!(why(url, resolved, &rules), expected, "{url} {resolved}");
    }
}

#[test]
fn an_exception_by_address_admits_that_address_as_written() {
    let rules = Rules::allowing(&["169.254.169.254:80", "[::1]:8080"]).unwrap();
    let table = [
        ("http://169.254.169.254/", "", "ok"),
        ("https://169.254.169.254/", "", "metadata"),
        ("http://[::1]:8080/", "", "ok"),
        ("http://[0::1]:8080/", "", "ok"),
        ("http://127.0.0.1:8080/", "", "loopback"),
        ("http://2852039166/", "", "spelling"),
        ("https://a.example/", "169.254.169.254", "metadata"),
        ("http://a.example:8080/", "::1", "scheme"),
    ];
    for (url, resolved, expected) in table {
        assert_eq!(why(url, resolved, &rules), expected, "{url} {resolved}");
    }
}

#[test]
fn an_exception_does_not_hold_for_redirects_from_elsewhere() {
    let rules = Rules::allowing(&["wiki.corp:8080", "docs.example:443", "127.0.0.1:80"]).unwrap();
    let table = [
        ("http://wiki.corp:8080/a", "wiki.corp:8080", "10.0.0.7", "ok"),
        ("http://wiki.corp:8080/a", "wiki.corp:8081", "10.0.0.7", "elsewhere"),
        ("http://wiki.corp:8080/a", "docs.example:443", "10.0.0.7", "elsewhere"),
        ("http://127.0.0.1/", "127.0.0.1:80", "", "ok"),
        ("http://127.0.0.1/", "localhost:80", "", "elsewhere"),
        // A public address may be visited without an exception, too.
        ("https://docs.example/", "a.example:443", PUBLIC, "ok"),
        ("https://docs.example/", "docs.example:443", "10.0.0.7", "ok"),
        ("https://docs.example/", "a.example:443", "10.0.0.7", "elsewhere"),
        ("https://docs.example/", "a.example:443", "", "unresolved"),
        // A reason that no exception lifts is reported as itself.
        ("http://me@wiki.corp:8080/", "a.example:443", "10.0.0.7", "userinfo"),
        ("http://other.corp:8080/", "wiki.corp:8080", "10.0.0.7", "local_name"),
    ];
    for (url, from, resolved, expected) in table {
        let judged =
            EgressTarget::redirected(url, &rules, from).and_then(|target| target.pin(&addresses(resolved)));
        assert_eq!(judged.map_or_else(|refused| refused.why.code(), |_| "ok"), expected, "{from} to {url}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let message = |url: &str, resolved: &str| {
        judge(url, &addresses(resolved), &Rules::default()).unwrap_err().to_string()
    };
    let table = [
        (
            "https://10.0.0.7:8080/secret?key=1",
            "",
            "10.0.0.7:8080 is not visited: it leads into a private network. The operator can allow it with \
             `[egress] allow = [\"10.0.0.7:8080\"]`.",
        ),
        (
            "https://[::1]/",
            "",
            "[::1]:443 is not visited: it leads to this computer itself. The operator can allow it with \
             `[egress] allow = [\"[::1]:443\"]`.",
        ),
        (
            "http://a.example/",
            "",
            "a.example:80 is not visited: the address is not encrypted. Try it with `https://`. The operator can \
             allow it with `[egress] allow = [\"a.example:80\"]`.",
        ),
        (
            "https://a.example:8443/",
            "",
            "a.example:8443 is not visited: its port is not one that is usual for web pages. The operator can allow \
             it with `[egress] allow = [\"a.example:8443\"]`.",
        ),
        (
            "https://me:secret@a.example/",
            "",
            "a.example:443 is not visited: the address holds a user name or a password. Leave out all before the \
             `@`.",
        ),
        (
            "https://münchen.example/",
            "",
            "The host is written in an unusual way. If xn--mnchen-3ya.example:443 is meant, write that.",
        ),
        (
            "https://a.example/",
            "169.254.169.254",
            "a.example:443 is not visited: it leads to a cloud's metadata service.",
        ),
        ("example.com", "", "The address is not complete: write it with `https://` and a host."),
        ("file:///etc/passwd", "", "Only addresses that begin with `https://` can be visited."),
        ("https://a.example/", "", "a.example:443 has no address: check the name."),
    ];
    for (url, resolved, expected) in table {
        assert_eq!(message(url, resolved), expected, "{url}");
    }
    assert_eq!(
        message(&format!("https://a.example/{}", "x".repeat(MAX_URL)), ""),
        "The address is longer than 4096 bytes: use a shorter one."
    );
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| Ipv4Addr::from(bits).into()),
        any::<u128>().prop_map(|bits| Ipv6Addr::from(bits).into()),
        // Most random addresses of IPv6 are not public; these are.
        any::<u128>().prop_map(|bits| Ipv6Addr::from(bits >> 3 | 1 << 125).into()),
        prop::sample::select(vec![
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "169.254.169.254",
            "1.1.1.1",
            "2606:4700::1111"
        ])
        .prop_map(|text| text.parse().unwrap()),
    ]
}

proptest! {
    /// Without exceptions, every pinned address is public, resolved, `https`, at 443, and no resolved one is left out.
    #[test]
    fn every_pinned_address_was_judged(found in prop::collection::vec(any_address(), 0..5), host in "[a-z]{1,9}\\.example") {
        let url = format!("https://{host}/");
        match judge(&url, &found, &Rules::default()) {
            Ok(pinned) => {
                let all: Vec<_> = found.iter().map(|address| SocketAddr::new(*address, 443)).collect();
                prop_assert!(!found.is_empty() && found.iter().all(|address| SpecialRange::containing(*address).is_none()));
                prop_assert_eq!(pinned, PinnedUrl { url: url.parse().unwrap(), addresses: all });
            }
            Err(refused) => {
                let bad = found.iter().find_map(|address| SpecialRange::containing(*address));
                prop_assert_eq!(refused.why, bad.map_or(RefusalReason::Unresolved, RefusalReason::Address));
            }
        }
    }

    /// Of any text, an admitted URL names the host that a person reads.
    #[test]
    fn an_admitted_url_names_the_host_that_a_person_reads(
        text in "(https?:)?[/\\\\]{0,3}([a-z0-9.@:%#?\\\\\\[\\]/ \t。０-９]|127\\.0\\.0\\.1|localhost|a\\.example|0x7f|@){0,12}"
    ) {
        if let Ok(pinned) = judge(&text, &addresses(PUBLIC), &Rules::default()) {
            let host = pinned.url.host_str().unwrap().to_owned();
            let rest = text.trim().strip_prefix("https://").unwrap();
            let seen = rest.split(['/', '?', '#']).next().unwrap();
            prop_assert_eq!(seen.strip_suffix(":443").unwrap_or(seen).to_ascii_lowercase(), host);
            prop_assert!(pinned.addresses.iter().all(|address| SpecialRange::containing(address.ip()).is_none()));
        }
    }

    /// The same address is refused in every base that its numbers may be written in.
    #[test]
    fn loopback_in_any_base_is_refused(a in 0u32..3, b in 0u32..3, rest in 0u32..0x00ff_ffff) {
        let write = |base: u32, n: u32| match base { 0 => format!("{n}"), 1 => format!("0{n:o}"), _ => format!("0x{n:x}") };
        for host in [write(a, 0x7f00_0000 | rest), format!("{}.{}", write(a, 127), write(b, rest))] {
            prop_assert!(judge(&format!("https://{host}/"), &addresses(PUBLIC), &Rules::default()).is_err(), "{}", host);
        }
    }
}
