use super::*;
use crate::config::Config;
use crate::config::tests::resolve;
use crate::serve::auth::Scopes;

fn refused(text: &str) -> String {
    let failure = resolve(text, &[], None).and_then(|resolved| Config::new(&resolved)).unwrap_err();
    failure.message.split_once("baton.toml:").unwrap().1.to_owned()
}

#[test]
fn nothing_said_is_a_service_for_this_machine() {
    let config = Config::new(&resolve("", &[], None).unwrap()).unwrap();
    let serve = config.serve;
    assert_eq!(
        (serve.bind.to_string().as_str(), serve.port, serve.token_mode),
        ("127.0.0.1", 8000, Mode::Moderate)
    );
    assert_eq!(
        (serve.hosts, serve.origins, serve.tokens, serve.limits),
        (vec![], vec![], vec![], ServeLimits::default())
    );
    let store = StoreSetting { url: None, writers: 4, readers: 8, lease: Duration::from_secs(15) };
    assert_eq!(config.store, store);
    let retention = Retention { runs: None, blobs: days(30), every: Duration::from_secs(3600) };
    assert_eq!((config.retention, config.files), (retention, Vec::<PathBuf>::new()));
}

#[test]
fn a_token_of_the_file_is_somebody() {
    let hash = "AB".repeat(32);
    let text = format!(
        "[serve.tokens.ci]\nhash = \"sha256:{hash}\"\n[serve.tokens.acme]\nhash = \"sha256:{hash}\"\n\
         tenant = \"acme\"\nscopes = [\"read\"]\nmax_mode = \"EXPLORATORY\"\nagents = [\"support\"]\n"
    );
    let tokens = Config::new(&resolve(&text, &[], None).unwrap()).unwrap().serve.tokens;
    let usual = Caller {
        tenant: Tenant::local(),
        scopes: USUAL_SCOPES.into_iter().collect::<Scopes>(),
        max_mode: Mode::Moderate,
        agents: vec![],
        by: Some("ci".to_owned()),
        pass: Pass::default(),
    };
    let acme = Caller {
        tenant: "acme".parse().unwrap(),
        scopes: [Scope::Read].into_iter().collect(),
        max_mode: Mode::Exploratory,
        agents: vec!["support".to_owned()],
        by: Some("acme".to_owned()),
        pass: Pass::default(),
    };
    let hash = hash.to_ascii_lowercase();
    assert_eq!(tokens, vec![(hash.clone(), usual), (hash, acme)]);
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    let hash = format!("hash = \"sha256:{}\"\n", "ab".repeat(32));
    let cases = [
        ("[serve]\nbind = \"example.com\"\n".to_owned(), "2: `serve.bind`: \"example.com\" is no address"),
        ("[serve]\nhosts = [\"http://x\"]\n".to_owned(), "2: `serve.hosts`: \"http://x\" is no host"),
        (
            "[serve]\nproxies = [\"10.0.0.1/8\"]\n".to_owned(),
            "2: `serve.proxies`: \"10.0.0.1/8\" is no address",
        ),
        ("[serve]\norigins = [\"*\"]\n".to_owned(), "2: `serve.origins`: \"*\" is no origin"),
        (
            "[serve]\norigins = [\"https://x/y\"]\n".to_owned(),
            "2: `serve.origins`: \"https://x/y\" is no origin",
        ),
        ("[serve.tokens.ci]\ntenant = \"a\"\n".to_owned(), "1: `serve.tokens.ci`: its hash is not set"),
        (
            format!("[serve.tokens.ci]\n{hash}scopes = [\"all\"]\n"),
            "3: `serve.tokens.ci.scopes`: there is no scope \"all\"",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(&text), expected);
    }
    for secret in [
        "baton_5ecre7",
        "sha256:5ecre7",
        "sha256:5ecre7zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
    ] {
        let said = refused(&format!("[serve.tokens.ci]\nhash = \"{secret}\"\n"));
        assert_eq!(said, "2: `serve.tokens.ci.hash` is not the hash of a token");
    }
    let tenant = refused(&format!("[serve.tokens.ci]\n{hash}tenant = \"a b\"\n"));
    assert!(tenant.starts_with("3: `serve.tokens.ci.tenant`: "), "{tenant}");
}

#[test]
fn folders_stand_beside_the_file_that_names_them() {
    let resolved = resolve("[files]\nroots = [\"notes\", \"/srv/notes\"]\n", &[], None).unwrap();
    let beside = resolved.config_file().parent().unwrap().join("notes");
    assert_eq!(Config::new(&resolved).unwrap().files, vec![beside, PathBuf::from("/srv/notes")]);
}
