use baton_core::render::RenderPolicy;

use super::*;
use crate::cli::Color;
use crate::failure::exit;

fn globals(config: &Path) -> Globals {
    Globals {
        config: Some(config.to_owned()),
        data: Some("data".into()),
        json: false,
        verbose: 0,
        color: Color::Auto,
    }
}

/// Resolves the settings with a file of this text and these variables.
pub(super) fn resolve(
    text: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
) -> Result<ResolvedConfig, Failure> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("baton.toml");
    std::fs::write(&file, text).unwrap();
    let environment =
        |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
    let flags = Flags { model, ..Flags::default() };
    ValueSources { globals: &globals(&file), flags, environment: &environment }.resolve()
}

fn refused(text: &str) -> String {
    let failure = resolve(text, &[], None).unwrap_err();
    assert_eq!(failure.code, exit::USAGE);
    let (_, place) = failure.message.split_once("baton.toml:").unwrap();
    place.to_owned()
}

#[test]
fn every_default_and_example_can_be_read() {
    for setting in SETTINGS.iter().filter(|setting| !setting.is_place()) {
        assert!(setting.default.is_empty() || setting.default_value().is_some(), "{}", setting.key);
        assert!(table::parsed(setting.kind, setting.example).is_some(), "{}", setting.key);
        assert!(setting.doc.ends_with('.'), "{}", setting.key);
    }
    for section in named::SECTIONS {
        assert!(section.doc.ends_with('.'), "{}", section.key);
        for field in section.fields {
            assert!(table::parsed(field.kind, field.example).is_some(), "{}", field.key);
            assert!(field.doc.ends_with('.') && field.key.starts_with(section.key), "{}", field.key);
        }
    }
}

#[test]
fn the_defaults_are_those_of_the_crates() {
    let config = Config::new(&resolve("", &[], None).unwrap()).unwrap();
    assert_eq!(config.engine, Settings::default());
    assert_eq!(config.policy, Policy::default());
    assert_eq!((config.model, config.last_n, config.template), (None, None, None));
    assert_eq!(config.render, Rendering::default());
    let times = baton_model::Timeouts::default();
    let documented = ["connect_s", "first_byte_s", "idle_s", "total_s"]
        .map(|name| named::section("roles").unwrap().field(name).unwrap().default.parse().unwrap());
    let real = [times.connect, times.first_byte, times.idle, times.total];
    assert_eq!(documented.map(Duration::from_secs), real);
}

#[test]
fn flag_before_environment_before_file_before_default() {
    let file = "# a remark\nmodel = \"scripted/file\"\n";
    let found = |variables: &[(&str, &str)], model| {
        let resolved = resolve(file, variables, model).unwrap();
        let found = resolved.get("model").unwrap().clone();
        (found.value.unwrap().as_text().unwrap().to_owned(), found.origin.to_string())
    };
    let environment = [("BATON_MODEL", "scripted/env")];
    assert_eq!(found(&environment, Some("scripted/flag")), ("scripted/flag".into(), "flag --model".into()));
    assert_eq!(found(&environment, None), ("scripted/env".into(), "environment BATON_MODEL".into()));
    let (value, origin) = found(&[], None);
    assert_eq!(value, "scripted/file");
    assert!(origin.starts_with("file ") && origin.ends_with("baton.toml:2"), "{origin}");
    assert_eq!(resolve("", &[], None).unwrap().get("model").unwrap().origin, ValueOrigin::Default);
}

#[test]
fn what_is_not_understood_is_refused_with_its_place() {
    assert_eq!(refused("\nmodle = \"x\""), "2: there is no setting `modle`; did you mean `model`?");
    assert_eq!(
        refused("[limits]\niteration = 3"),
        "2: there is no setting `limits.iteration`; did you mean `limits.iterations`?"
    );
    assert_eq!(
        refused("[limits]\niterations = 0"),
        "2: `limits.iterations`: expected a whole number from 1 to 1000, like 4"
    );
    assert_eq!(refused("model = 3"), "1: `model`: expected text, like \"ollama/llama3.2:3b\"");
    assert_eq!(refused("data = \"x\""), "1: `data` is not set in this file: use --data or BATON_DATA");
    assert!(refused("model = \n").starts_with("1: this is not TOML: "));
}

#[test]
fn only_what_is_near_and_in_the_same_section_is_suggested() {
    assert_eq!(refused("[limits]\ntoken_count = 3"), "2: there is no setting `limits.token_count`");
    assert_eq!(
        refused("[policy]\ntokens = 3"),
        "2: there is no setting `policy.tokens`; did you mean `policy.tools`?"
    );
    assert_eq!(refused("[engine]\npolicy = 3"), "2: there is no setting `engine.policy`");
    assert_eq!(refused("zzz = 3"), "1: there is no setting `zzz`");
    assert_eq!(refused("[limit]\niterations = 3"), "1: there is no setting `limit`; did you mean `limits`?");
    assert_eq!(
        refused("iterations = 3"),
        "1: there is no setting `iterations`; did you mean `limits.iterations`?"
    );
    let hint = |text: &str| resolve(text, &[], None).unwrap_err().hint.unwrap();
    assert_eq!(hint("[log]\nx = 1"), "[log] takes level, format");
    let all = "baton --config /dev/null config show lists all settings; [providers.NAME], [[roles.NAME]], [prices.NAME], [policy.modes.NAME], [policy.channels.NAME], [policy.cells.NAME], [tools.NAME], [serve.tokens.NAME] are tables beside them";
    assert_eq!(hint("zzz = 1"), all);
}

#[test]
fn what_is_probably_not_meant_is_told_and_not_refused() {
    let doubts = |text: &str| -> Vec<(String, String)> {
        let resolved = resolve(text, &[], None).unwrap();
        let folder = resolved.config_file().display().to_string();
        let told = |doubt: ConfigWarning| (doubt.what.replace(&folder, "FILE"), doubt.fix);
        resolved.doubts().into_iter().map(told).collect()
    };
    let role = |name: &str, more: &str| format!("[[roles.{name}]]\nmodel = \"offline\"\n{more}");
    for name in ["router", "reasoning", "coding", "planning", "own"] {
        assert_eq!(doubts(&role(name, "max_tokens = 64\ncontext_window = 256\n")), []);
    }
    let expected = (
        "FILE:2: `roles.reasonning` is a role of your own, which nobody asks for; did you mean `reasoning`?"
            .to_owned(),
        "write [[roles.reasoning]], or choose a name that is less like it".to_owned(),
    );
    assert_eq!(doubts(&role("reasonning", &role("reasonning", ""))), [expected]);
    let expected = (
        "FILE:3: `roles.own[0].max_tokens` is 251, but answers are cut to 250 tokens: a quarter of the window".to_owned(),
        "say max_tokens = 250, or a larger context_window if it has one".to_owned(),
    );
    assert_eq!(doubts(&role("own", "max_tokens = 251\ncontext_window = 1000\n")), [expected]);
}

#[test]
fn every_setting_of_the_commented_file_can_be_set_alone() {
    let page = commented_file();
    let lines: Vec<&str> = page.lines().collect();
    let fixed = lines.iter().position(|line| line.starts_with("# Such a table")).unwrap();
    let is_setting = |line: &str| {
        line.strip_prefix("# ")
            .and_then(|rest| rest.split_once(" = "))
            .is_some_and(|(name, _)| !name.contains(' '))
    };
    let mut set = Vec::new();
    for at in (0..fixed).filter(|at| is_setting(lines[*at])) {
        let mut lines = lines.clone();
        lines[at] = &lines[at][2..];
        let contents = file::parse(Path::new("baton.toml"), &lines.join("\n")).unwrap();
        assert_eq!(contents.groups, []);
        set.extend(contents.lines.into_iter().map(|line| line.key));
    }
    let all: Vec<&str> = SETTINGS.iter().filter(|setting| !setting.is_place()).map(|s| s.key).collect();
    assert_eq!(set, all);
    let in_force = lines.iter().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert!(in_force.into_iter().all(|line| line.starts_with('[')), "{page}");
}

#[test]
fn a_secret_is_refused_and_never_repeated() {
    for text in [
        "api_key = \"sk-very-secret\"",
        "[providers.x]\nurl = \"u\"\nAPI_KEY = \"sk-very-secret\"",
        "[x]\ntoken = \"sk-very-secret\"",
        "[x]\nkey = \"sk-very-secret\"",
        "[providers.lab]\nbase_url = \"http://x\"\nkey = \"sk-very-secret\"",
        "[[roles.reasoning]]\nmodel = \"offline\"\napi_key = \"sk-very-secret\"",
        "[roles]\nreasoning = [{secret = \"sk-very-secret\"}]",
        "[providers]\napi_key = \"sk-very-secret\"",
    ] {
        let failure = resolve(text, &[], None).unwrap_err();
        let told = format!("{}\n{}", failure.message, failure.hint.unwrap_or_default());
        assert!(told.contains("secrets are never values in this file") && told.contains("key_env"), "{told}");
        assert!(!told.contains("very"));
    }
    assert!(refused("[x]\nkey_env = \"NAME\"").starts_with("1: there is no setting `x`"));
}

#[test]
fn where_a_key_file_is_is_not_shown() {
    let text = "[providers.lab]\nbase_url = \"http://h\"\nkey_file = \"sk-5ecre7\"";
    let resolved = resolve(text, &[], None).unwrap();
    let shown = format!("{resolved:?} {:?}", Config::new(&resolved).unwrap());
    assert!(!shown.contains("5ecre7") && shown.contains("File((set), "), "{shown}");
    let stated = &resolved.groups[0].get("key_file").unwrap().value;
    assert_eq!((stated.to_string().as_str(), stated.to_json()), ("(set)", "(set)".into()));
}

#[test]
fn levels_are_taken_in_any_case() {
    let level = |text: &str| {
        resolve("", &[("LOG_LEVEL", text)], None)
            .map(|s| Config::new(&s).unwrap().log.level)
            .map_err(|f| f.message)
    };
    use tracing::level_filters::LevelFilter;
    assert_eq!(level("INFO"), Ok(LevelFilter::INFO));
    assert_eq!(level("Warning"), Ok(LevelFilter::WARN));
    assert_eq!(level("loud"), Err("LOG_LEVEL: expected one of off, error, warn, info, debug, trace".into()));
}

#[test]
fn a_named_file_must_be_there() {
    let missing = globals(Path::new("no-such-file.toml"));
    let failure = ValueSources { globals: &missing, flags: Flags::default(), environment: &|_| None }
        .resolve()
        .unwrap_err();
    assert!(failure.message.starts_with("no-such-file.toml cannot be read: "), "{}", failure.message);
}

#[test]
fn the_commented_file_is_read_back_as_nothing_and_uncommented_as_the_defaults() {
    let page = commented_file();
    let path = Path::new("baton.toml");
    assert_eq!(file::parse(path, &page).unwrap(), file::Contents::default());
    let open: String = page
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(head) if head.starts_with('[') => format!("{head}\n"),
            Some(rest) if rest.split_once(" = ").is_some_and(|(name, _)| !name.contains(' ')) => {
                format!("{rest}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let settings = SETTINGS.iter().filter(|setting| !setting.is_place()).count();
    let contents = file::parse(path, &open).unwrap();
    assert_eq!(contents.lines.len(), settings, "{open}");
    let stated = |group: &NamedTable| (group.section.key, group.values.len());
    let expected: Vec<_> =
        named::SECTIONS.iter().map(|section| (section.key, section.fields.len())).collect();
    assert_eq!(contents.groups.iter().map(stated).collect::<Vec<_>>(), expected, "{open}");
}

#[test]
fn values_that_do_not_go_together_say_so() {
    let failure = Config::new(&resolve("[render]\npolicy = \"last_n\"\n", &[], None).unwrap()).unwrap_err();
    assert!(failure.message.ends_with("baton.toml:2) is \"last_n\", and `last_n` is not set"));
    let policy = |text: &str| Config::new(&resolve(text, &[], None).unwrap()).unwrap().render.policy;
    assert_eq!(policy("last_n = 3\n[render]\npolicy = \"last_n\""), RenderPolicy::Full);
    assert_eq!(policy("[render]\npolicy = \"summary\""), RenderPolicy::Summary);
    assert_eq!(
        refused("[render]\npolicy = \"half\""),
        "2: `render.policy`: expected one of full, last_n, token_budget, summary, like \"summary\""
    );
}
