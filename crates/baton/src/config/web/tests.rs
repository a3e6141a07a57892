use super::*;
use crate::config::Config;
use crate::config::tests::resolve;

fn made(text: &str) -> Result<WebSetting, (String, Option<String>)> {
    let config = resolve(text, &[], None).and_then(|resolved| Config::new(&resolved));
    config.map(|config| config.web).map_err(|failure| {
        let message = failure.message.rsplit_once("baton.toml:").map(|(_, rest)| rest.to_owned());
        (message.unwrap_or(failure.message), failure.hint)
    })
}

fn search(lines: &str) -> Result<Option<SearchSetting>, (String, Option<String>)> {
    made(&format!("[search]\n{lines}\n")).map(|web| web.search)
}

#[test]
fn without_settings_nobody_answers_searches_and_the_guard_is_closed() {
    let web = made("").unwrap();
    assert_eq!((web.search, web.rules), (None, Rules::default()));
    assert_eq!(
        (web.exceptions, web.limits, web.tools),
        (Vec::new(), FetchLimits::default(), BTreeMap::new())
    );
}

#[test]
fn each_service_is_configured_in_its_way() {
    let at = |address: &str| Some(Endpoint::parse(address).unwrap());
    let variable = |name: &str| KeyPlace::Variable(name.to_owned());
    let table = [
        (
            "provider = \"searxng\"\nurl = \"http://127.0.0.1:8888\"",
            SearchSetting {
                service: SearchServiceKind::Searxng,
                base: at("http://127.0.0.1:8888"),
                key: KeyPlace::None,
            },
            ("127.0.0.1", true),
        ),
        (
            "provider = \"brave\"",
            SearchSetting { service: SearchServiceKind::Brave, base: None, key: variable("BRAVE_API_KEY") },
            ("api.search.brave.com", false),
        ),
        (
            "provider = \"tavily\"",
            SearchSetting { service: SearchServiceKind::Tavily, base: None, key: variable("TAVILY_API_KEY") },
            ("api.tavily.com", false),
        ),
        (
            "provider = \"brave\"\nurl = \"https://search.example.com/brave\"\nkey_env = \"OWN_KEY\"",
            SearchSetting {
                service: SearchServiceKind::Brave,
                base: at("https://search.example.com/brave"),
                key: variable("OWN_KEY"),
            },
            ("search.example.com", false),
        ),
    ];
    for (lines, expected, (host, is_local)) in table {
        let found = search(lines).unwrap().unwrap();
        assert_eq!((found.host().as_str(), found.is_local()), (host, is_local), "{lines}");
        assert_eq!(found, expected, "{lines}");
    }
}

#[test]
fn the_file_of_a_key_lies_beside_the_file_that_names_it_and_is_not_shown() {
    let found = search("provider = \"tavily\"\nkey_file = \"sk-5ecre7\"").unwrap().unwrap();
    assert!(!format!("{found:?}").contains("5ecre7"));
    let KeyPlace::File(path, ValueOrigin::File(named_by, 3)) = found.key else { panic!("{found:?}") };
    assert_eq!(path.0, named_by.parent().unwrap().join("sk-5ecre7"));
}

#[test]
fn what_does_not_go_together_is_refused_with_its_line() {
    let url =
        "write it like http://127.0.0.1:11434 or https://host/v1; a key is named by key_env or key_file";
    let table = [
        (
            "url = \"http://127.0.0.1:8888\"",
            "2: `search.url` is set, and `search.provider` is not",
            "add a line like provider = \"searxng\"",
        ),
        (
            "\nkey_env = \"K\"",
            "3: `search.key_env` is set, and `search.provider` is not",
            "add a line like provider = \"searxng\"",
        ),
        (
            "provider = \"searxng\"",
            "2: `search.provider` is \"searxng\", and `search.url` is not set",
            "add a line like url = \"http://127.0.0.1:8888\"",
        ),
        ("provider = \"searxng\"\nurl = \"127.0.0.1:8888\"", "3: `search.url`: this is no URL", url),
        (
            "provider = \"searxng\"\nurl = \"http://me:pw@h\"",
            "3: `search.url`: a user or a password does not belong into a URL",
            url,
        ),
        (
            "provider = \"searxng\"\nurl = \"http://h\"\nkey_env = \"K\"",
            "4: `search.key_env`: searxng takes no key",
            "remove this line",
        ),
        (
            "provider = \"brave\"\nkey_env = \"K\"\nkey_file = \"f\"",
            "4: `search`: there are a key_env and a key_file",
            "keep one of them",
        ),
        (
            "provider = \"tavily\"\nurl = \"https://h\"",
            "3: `search.url` is not the service's own address, and no key is named for it",
            "add a line like key_env = \"SEARCH_KEY\"",
        ),
    ];
    for (lines, message, hint) in table {
        assert_eq!(search(lines).unwrap_err(), (message.to_owned(), Some(hint.to_owned())), "{lines}");
    }
    let unknown = search("provider = \"google\"").unwrap_err().0;
    assert_eq!(unknown, "2: `search.provider`: expected one of searxng, brave, tavily, like \"searxng\"");
    let secret = search("provider = \"brave\"\nkey = \"5ecre7\"").unwrap_err().0;
    assert_eq!(secret, "3: `search.key`: secrets are never values in this file");
}

#[test]
fn exceptions_and_limits_are_read() {
    let web = made(
        "[egress]\nallow = [\"Wiki.example.com:8080\", \"10.0.0.7:80\"]\ntimeout_s = 3\nmax_bytes = 4096\n",
    );
    let web = web.unwrap();
    let exceptions = ["Wiki.example.com:8080", "10.0.0.7:80"];
    assert_eq!(
        (web.rules, web.exceptions),
        (Rules::allowing(&exceptions).unwrap(), exceptions.map(str::to_owned).to_vec())
    );
    assert_eq!(web.limits, FetchLimits { time: Duration::from_secs(3), bytes: 4096, redirects: 3 });
    let refused = made("[egress]\ntimeout_s = 3\nallow = [\"a.example:80\", \"http://h\"]").unwrap_err();
    let hint = "write it like \"wiki.example.com:8080\", \"10.0.0.7:80\" or \"[fd00::7]:443\"";
    let message = "3: `egress.allow`: entry 2 is not a host with a port";
    assert_eq!(refused, (message.to_owned(), Some(hint.to_owned())));
}

#[test]
fn what_is_said_of_tools_is_read() {
    let text = "[tools.fetch_url]\napprove = true\negress = false\ntimeout_s = 2\n[tools.\"a.b\"]\nenabled = false\nuntrusted_output = true\n";
    let tools = made(text).unwrap().tools;
    let said: Vec<_> = tools.iter().map(|(name, (said, _))| (name.as_str(), *said)).collect();
    let nothing = TrustOverride::default();
    let expected = [
        ("a.b", TrustOverride { enabled: Some(false), untrusted_output: Some(true), ..nothing }),
        (
            "fetch_url",
            TrustOverride { approve: Some(true), egress: Some(false), timeout_ms: Some(2000), ..nothing },
        ),
    ];
    assert_eq!(said, expected);
    let refused = made("[tools.clock]\naprove = true").unwrap_err();
    let hint = "[tools.NAME] takes enabled, approve, untrusted_output, private_output, egress, timeout_s";
    let message = "2: there is no setting `tools.clock.aprove`; did you mean `approve`?";
    assert_eq!(refused, (message.to_owned(), Some(hint.to_owned())));
}
