use super::*;

fn addresses(base: &str) -> [String; 7] {
    let base = Endpoint::parse(base).unwrap();
    let [ollama, chat, responses, anthropic] = Wire::ALL.map(|wire| base.address(wire).to_string());
    [
        ollama,
        chat,
        responses,
        anthropic,
        base.listing(Wire::Ollama).into(),
        base.listing(Wire::Responses).into(),
        base.listing(Wire::Anthropic).into(),
    ]
}

#[test]
fn a_base_with_or_without_v1_is_the_same() {
    for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", " http://H:1/v1//\n"] {
        let expected = [
            "http://h:1/api/chat",
            "http://h:1/v1/chat/completions",
            "http://h:1/v1/responses",
            "http://h:1/v1/messages",
            "http://h:1/api/tags",
            "http://h:1/v1/models",
            "http://h:1/v1/models",
        ];
        assert_eq!(addresses(base), expected, "{base:?}");
        assert_eq!(Endpoint::parse(base).unwrap().to_string(), "http://h:1", "{base:?}");
    }
}

#[test]
fn any_other_path_is_kept() {
    for base in ["https://h/api/v3", "https://h/api/v3/", "https://h:443/api/v3//"] {
        let expected = [
            "https://h/api/v3/api/chat",
            "https://h/api/v3/chat/completions",
            "https://h/api/v3/responses",
            "https://h/api/v3/v1/messages",
            "https://h/api/v3/api/tags",
            "https://h/api/v3/models",
            "https://h/api/v3/v1/models",
        ];
        assert_eq!(addresses(base), expected, "{base:?}");
    }
    let gateway = [
        "https://h/openai/api/chat",
        "https://h/openai/v1/chat/completions",
        "https://h/openai/v1/responses",
        "https://h/openai/v1/messages",
        "https://h/openai/api/tags",
        "https://h/openai/v1/models",
        "https://h/openai/v1/models",
    ];
    assert_eq!(addresses("https://h/openai/v1/"), gateway);
    let near = Endpoint::parse("https://h/xv1").unwrap();
    assert_eq!(near.address(Wire::Responses).as_str(), "https://h/xv1/responses");
    assert_eq!(near.address(Wire::Anthropic).as_str(), "https://h/xv1/v1/messages");
}

#[test]
fn an_invalid_base_url_is_refused() {
    let syntax = |text: &str| BadEndpoint::Syntax(text.to_owned());
    let table = [
        ("", syntax("relative URL without a base")),
        ("127.0.0.1", syntax("relative URL without a base")),
        ("http://", syntax("empty host")),
        ("http://h:99999", syntax("invalid port number")),
        ("localhost:11434", BadEndpoint::Scheme("localhost".to_owned())),
        ("ftp://h", BadEndpoint::Scheme("ftp".to_owned())),
        ("http://user@h", BadEndpoint::UserInfo),
        ("http://:password@h", BadEndpoint::UserInfo),
        ("http://user:password@h/v1", BadEndpoint::UserInfo),
        ("http://h/v1?key=1", BadEndpoint::Query),
        ("http://h/v1#x", BadEndpoint::Query),
    ];
    for (text, expected) in table {
        assert_eq!(Endpoint::parse(text), Err(expected), "{text:?}");
    }
}

#[test]
fn a_refused_password_is_not_repeated() {
    let error = Endpoint::parse("http://u:hunter2@h").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[test]
fn only_loopback_is_local() {
    let table = [
        ("http://127.0.0.1:11434", true),
        ("http://127.9.9.9", true),
        ("http://[::1]:1", true),
        ("http://[::ffff:127.0.0.1]", true),
        ("http://localhost", true),
        ("https://LOCALHOST:1/x", true),
        ("http://model.localhost", false),
        ("http://0.0.0.0", false),
        ("http://192.168.0.1", false),
        ("http://[fe80::1]", false),
        ("http://localhost.example.com", false),
        ("http://notlocalhost", false),
        ("https://127.0.0.1.example.com", false),
    ];
    for (base, expected) in table {
        assert_eq!(Endpoint::parse(base).unwrap().is_local(), expected, "{base}");
    }
}
