//! Settings and this installation: `baton`, `init`, `config show`, `doctor`, `completions`, `--help`.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::world::World;

#[test]
fn baton_alone_says_what_it_is_and_what_to_try() {
    let did = World::new().baton(&[]);
    assert_eq!(did.code, 0);
    assert!(
        did.out.contains("model: offline (nothing is configured, and no Ollama here has llama3.2:3b)"),
        "{}",
        did.out
    );
    assert_eq!(did.out.lines().filter(|line| line.starts_with("  baton ")).count(), 3);
    assert_eq!(did.err, "");
}

#[test]
fn an_unknown_setting_names_the_nearest_and_its_place() {
    let world = World::new();
    world.settings("model = \"offline\"\n[limits]\niteration = 3\n");
    let did = world.baton(&["ask", "hi"]);
    assert_eq!((did.code, did.out.as_str()), (2, ""));
    let file = world.path("home/config/baton/baton.toml");
    let why = "there is no setting `limits.iteration`; did you mean `limits.iterations`?";
    assert_eq!(did.err.lines().next(), Some(format!("error: {}:3: {why}", file.display()).as_str()));
}

#[test]
fn a_secret_in_the_file_is_refused_and_not_repeated() {
    let world = World::new();
    world.settings("[provider]\napi_key = \"sk-123456\"\n");
    for command in ["ask hi", "config show", "doctor", "chat", "ask -vv hi"] {
        let did = world.baton(&command.split(' ').collect::<Vec<_>>());
        assert_ne!(did.code, 0, "{command}");
        let said = did.out + &did.err;
        assert!(said.contains("key_env") && !said.contains("123456"), "{said}");
    }
}

#[test]
fn the_current_folder_is_not_read_unasked() {
    let world = World::new();
    world.write("work/baton.toml", "nonsense = 1\n");
    assert_eq!(world.baton(&["config", "show"]).code, 0);
    for args in
        [&["--config", "baton.toml", "config", "show"][..], &["config", "show", "--config", "baton.toml"]]
    {
        assert!(world.baton(args).err.contains("baton.toml:1: there is no setting `nonsense`"));
    }
}

#[test]
fn config_show_says_where_each_value_came_from() {
    let world = World::new();
    world.settings("last_n = 7\n");
    let mut command = world.command(&["config", "show", "--json", "--data", "here"]);
    let output = command.env("BATON_MODEL", "scripted/x").env("LOG_LEVEL", "Debug").output().unwrap();
    let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let find = |key: &str| {
        let all = settings["settings"].as_array().unwrap();
        let found = all.iter().find(|setting| setting["key"] == key).unwrap();
        (found["value"].clone(), found["from"].clone())
    };
    let from = |value: Value, from: &str| (value, json!(from));
    assert_eq!(find("data"), from(json!("here"), "flag"));
    assert_eq!(find("model"), from(json!("scripted/x"), "environment"));
    assert_eq!(find("log.level"), from(json!("debug"), "environment"));
    assert_eq!(find("last_n"), from(json!(7), "file"));
    assert_eq!(find("engine.most_attempts"), from(json!(3), "default"));
    assert_eq!(find("limits.tokens"), from(json!(null), "default"));
    let shown = world.baton(&["config", "show"]).out;
    let line = shown.lines().find(|line| line.starts_with("last_n ")).unwrap();
    let (_, value) = line.split_once(" = ").unwrap();
    assert!(value.starts_with("7  # file "), "{shown}");
}

#[test]
fn init_writes_a_file_once() {
    let world = World::new();
    let file = world.path("home/config/baton/baton.toml");
    let did = world.baton(&["init"]);
    assert_eq!((did.code, did.out), (0, format!("{}\n", file.display())));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(world.baton(&["config", "show"]).code, 0);
    let again = world.baton(&["init"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("is already there\n  baton init --force writes over it"), "{}", again.err);
    assert_eq!(world.baton(&["init", "--force"]).code, 0);
    assert_eq!(world.baton(&["init", "--config", "mine.toml"]).code, 0);
    assert!(world.path("work/mine.toml").exists());
}

#[test]
fn data_is_private() {
    let world = World::new();
    // It is still running: the last process to leave may remove the database's log.
    let script = json!({"v": 1, "replies": [{"do": [{"text": "x"}, {"stall": true}]}]});
    let mut running = world.start(&["ask", "--model", &world.script(&script), "hi"]);
    running.until("x");
    let mode = |name: &str| std::fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("home/data/baton"), 0o700);
    assert_eq!(mode("home/data/baton/baton.db"), 0o600);
    assert_eq!(mode("home/data/baton/baton.db-wal") & 0o077, 0);
}

#[test]
fn doctor_checks_everything_and_says_what_helps() {
    let world = World::new();
    let did = world.baton(&["doctor", "--json"]);
    assert_eq!(did.code, 0, "{did:?}");
    let found = did.json();
    assert_eq!(found["ok"], true);
    let checks = found["checks"].as_array().unwrap();
    let names: Vec<&Value> = checks.iter().map(|check| &check["name"]).collect();
    let expected = [
        "version",
        "configuration",
        "model",
        "search",
        "egress",
        "data folder",
        "disk space",
        "store",
        "service",
        "system log",
        "runs",
    ];
    assert_eq!(names, expected);
    assert!(checks.iter().all(|check| check["state"] == "ok" || check["fix"].is_string()), "{checks:?}");
}

#[test]
fn doctor_fails_with_the_fix() {
    let world = World::new();
    assert_eq!(world.baton(&["doctor"]).code, 0);
    let data = world.path("home/data/baton");
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
    let did = world.baton(&["doctor"]);
    assert_eq!(did.code, 1);
    assert!(did.out.contains(&format!("chmod 700 {}", data.display())), "{}", did.out);
    world.settings("modle = 1\n");
    let did = world.baton(&["doctor"]);
    assert_eq!(did.code, 1);
    assert!(did.out.contains("did you mean `model`?"), "{}", did.out);
}

#[test]
fn doctor_finds_runs_that_nobody_drives() {
    let world = World::new();
    let script = json!({"v": 1, "replies": [{"do": [{"text": "x"}, {"stall": true}]}]});
    let mut running = world.start(&["ask", "--model", &world.script(&script), "hi"]);
    running.until("x");
    assert!(world.baton(&["doctor"]).out.contains("every unfinished run is driven"));
    running.signal(rustix::process::Signal::KILL);
    running.end();
    let did = world.baton(&["doctor"]);
    assert_eq!(did.code, 0);
    assert!(did.out.contains("nobody drives: ") && did.out.contains("baton runs resume "), "{}", did.out);
}

#[test]
fn every_shell_gets_its_completions() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let did = world.baton(&["completions", shell]);
        assert_eq!(did.code, 0);
        assert!(did.out.contains("approvals") && did.out.contains("baton"), "{shell}");
    }
    assert_eq!(world.baton(&["completions", "abacus"]).code, 2);
}

#[test]
fn every_command_explains_itself_with_examples() {
    let world = World::new();
    for command in [
        "",
        "ask",
        "chat",
        "init",
        "config show",
        "doctor",
        "models",
        "models test",
        "usage",
        "demo crash",
        "completions",
    ] {
        let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
        for flag in ["-h", "--help"] {
            let did = world.baton(&[&words[..], &[flag]].concat());
            assert_eq!((did.code, did.err.as_str()), (0, ""), "{command}");
            assert!(did.out.contains("Examples:") && did.out.contains("--data"), "{command}: {}", did.out);
        }
    }
    assert_eq!(world.baton(&["--version"]).out, format!("baton {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn newer_data_is_refused_with_the_version_it_needs() {
    let world = World::new();
    assert_eq!(world.baton(&["ask", "What is 1+1?"]).code, 0);
    let db = rusqlite::Connection::open(world.path("home/data/baton/baton.db")).unwrap();
    db.execute_batch("UPDATE meta SET value = '9.9.0' WHERE key = 'needs'; PRAGMA user_version = 99")
        .unwrap();
    let did = world.baton(&["ask", "What is 1+1?"]);
    assert_eq!(did.code, 2, "{did:?}");
    assert!(
        did.err.contains("is of format 99") && did.err.contains("use Baton 9.9.0 or newer"),
        "{}",
        did.err
    );
    assert_eq!(world.baton(&["doctor"]).code, 1);
}
