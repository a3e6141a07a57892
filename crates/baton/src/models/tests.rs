use super::*;
use crate::cli::{Color, Globals};
use crate::config::ResolvedConfig;

/// The models of a file with this text.
fn models(text: &str) -> (tempfile::TempDir, Models) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("baton.toml");
    std::fs::write(&file, text).unwrap();
    let (config, data) = (Some(file), Some(folder.path().join("data")));
    let globals = Globals { config, data, json: false, verbose: 0, color: Color::Auto };
    let models = Models::new(&Config::new(&ResolvedConfig::find(&globals, None).unwrap()).unwrap());
    (folder, models)
}

#[test]
fn a_wrong_name_says_what_there_is() {
    let (_folder, models) = models("");
    for name in ["", "gpt", "lab/x", "scripted", "scripted/", "Offline", "ollama/"] {
        let failure = models.checked(name).unwrap_err();
        assert_eq!(failure.code, crate::failure::exit::USAGE, "{name:?}");
        let hint = "there are anthropic/MODEL, ollama/MODEL, openai/MODEL, `offline` and `scripted/FILE`; [providers.NAME] in baton.toml adds a provider";
        assert_eq!(failure.hint.as_deref(), Some(hint), "{name:?}");
    }
    assert_eq!(models.checked("gpt").unwrap_err().message, "\"gpt\" is no model's name");
    assert_eq!(models.checked("lab/x").unwrap_err().message, "there is no provider \"lab\"");
    for (name, told) in [
        ("llama3.2:3b", "\"llama3.2:3b\" is no model's name; did you mean `ollama/llama3.2:3b`?"),
        ("gpt-5-mini", "\"gpt-5-mini\" is no model's name; did you mean `openai/gpt-5-mini`?"),
        ("Offline", "\"Offline\" is no model's name; did you mean `offline`?"),
        ("olama/x", "there is no provider \"olama\"; did you mean `ollama`?"),
    ] {
        assert_eq!(models.checked(name).unwrap_err().message, told);
    }
    assert_eq!(models.checked("offline").unwrap(), "offline");
    assert_eq!(models.checked("ollama/any").unwrap(), "ollama/any");
}

#[test]
fn a_script_is_kept_by_its_whole_path() {
    let (folder, models) = models("");
    let file = folder.path().join("s.json");
    std::fs::write(&file, r#"{"v":1,"replies":[]}"#).unwrap();
    let name = format!("scripted/{}", file.display());
    assert_eq!(models.checked(&name).unwrap(), name);
    let message = models.checked("scripted/no-such-file").unwrap_err().message;
    assert!(message.contains("no-such-file: cannot read it"), "{message}");
}

#[test]
fn a_key_that_is_not_there_is_told_before_anybody_is_asked() {
    let text = "[providers.lab]\nbase_url = \"http://127.0.0.1:1\"\nkey_file = \"secret-looking\"\n\
                [providers.hut]\nbase_url = \"http://127.0.0.1:1\"\nkey_env = \"BATON_TEST_NO_SUCH_KEY\"\n";
    let (folder, models) = models(text);
    let failure = models.checked("lab/x").unwrap_err();
    let place = folder.path().join("baton.toml");
    let expected = format!(
        "{}:3: `providers.lab.key_file` names the file of a key; it cannot be read: No such file or directory (os error 2)",
        place.display()
    );
    assert_eq!(failure.message, expected);
    let fault = models.model("hut/x").err().unwrap();
    let expected = "the key of hut is expected in BATON_TEST_NO_SUCH_KEY; it is not set";
    assert_eq!(fault, Fault::new(Code::LlmAuth, expected));
    assert!(models.model("ollama/x").is_ok() && models.model("offline").is_ok());
    std::fs::write(folder.path().join("secret-looking"), "\n").unwrap();
    let (_, again) = (place, Models::new(&config_of(&folder)));
    assert!(again.checked("lab/x").unwrap_err().message.ends_with("names the file of a key; it is empty"));
    std::fs::write(folder.path().join("secret-looking"), "sk-12345\n").unwrap();
    let there = Models::new(&config_of(&folder));
    assert_eq!(there.checked("lab/x").unwrap(), "lab/x");
    let key = there.key("lab").unwrap();
    assert_eq!((key.in_words().as_str(), key.secret().unwrap().expose()), ("key_file is set", "sk-12345"));
    assert!(!format!("{key:?}").contains("sk-12345"));
}

fn config_of(folder: &tempfile::TempDir) -> Config {
    let (config, data) = (Some(folder.path().join("baton.toml")), Some(folder.path().join("data")));
    let globals = Globals { config, data, json: false, verbose: 0, color: Color::Auto };
    Config::new(&ResolvedConfig::find(&globals, None).unwrap()).unwrap()
}

#[test]
fn a_host_is_all_that_is_said_of_an_address() {
    let host = |url: &str| host_of(&Endpoint::parse(url).unwrap());
    assert_eq!(host("https://api.openai.com/v1"), "api.openai.com");
    assert_eq!(host("http://10.0.0.5:8080/secret/path"), "10.0.0.5");
}
