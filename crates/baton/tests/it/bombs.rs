//! Input that is made to break a reader: too deep, too long, too many, twice, or no text at all.
//!
//! Each ends with one clear error and leaves everything as it was. The size of the command line is limited by the
//! system (128 KiB for one word), so the largest inputs come by file and by pipe.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{Did, Stage};

/// The limit for each of them, even for a debug build on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Checks that it failed as it should: wrong use or a failure, one error of a bearable length, no panic.
#[track_caller]
fn is_one_clear_error(name: &str, did: &Did) {
    let shown: String = did.err.chars().take(2_000).collect();
    assert!(matches!(did.code, 1 | 2), "{name}: {} {shown}", did.code);
    let is_problem = serde_json::from_str::<Value>(&did.out).is_ok_and(|problem| problem["code"].is_string());
    assert!(did.out.is_empty() || (did.out.lines().count() == 1 && is_problem), "{name}: {}", did.out);
    assert_eq!(did.err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{name}: {shown}");
    assert!(did.err.len() < 20 << 10, "{name}: {} bytes of error", did.err.len());
    assert!(!did.err.contains("panicked") && !did.err.contains("overflow"), "{name}: {shown}");
    assert!(!did.err.contains(|c: char| c.is_control() && c != '\n'), "{name}: {shown:?}");
}

/// Runs a command that has to fail like that, and in time.
#[track_caller]
fn refuses(name: &str, run: impl FnOnce() -> Did) {
    let begun = Instant::now();
    is_one_clear_error(name, &run());
    assert!(begun.elapsed() < SOON, "{name} took {:?}", begun.elapsed());
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn keys(count: usize) -> String {
    (0..count).map(|n| format!("\"k{n}\":1")).collect::<Vec<_>>().join(",")
}

/// A stage with a thread that holds one message.
fn furnished() -> Stage {
    let stage = Stage::careful();
    assert_eq!(stage.baton(&["ask", "--thread", "kept", "hello"]).code, 0);
    stage
}

/// Everything that the user could find: the threads, one of them whole, and the runs.
fn everything(stage: &Stage) -> Vec<Value> {
    let seen =
        [&["threads", "ls"][..], &["threads", "export", "kept"], &["runs", "ls"], &["approvals", "ls"]];
    seen.iter().map(|args| stage.baton(&[args, &["--json"][..]].concat()).json()).collect()
}

/// JSON texts that are neither arguments of a tool nor fields of a message.
fn words() -> Vec<(String, String)> {
    let named = |name: &str, text: String| (name.to_owned(), text);
    vec![
        named("no JSON", "{".to_owned()),
        named("an array", nested(1)),
        named("a number", "7".to_owned()),
        named("65 levels", format!("{{\"text\":{}}}", nested(64))),
        named("128 levels", format!("{{\"text\":{}}}", nested(127))),
        named("60000 levels", format!("{{\"text\":{}}}", nested(59_000))),
        named("60000 levels without an end", "[".repeat(120_000)),
        named("9000 keys", format!("{{{}}}", keys(9_000))),
        named("100000 digits", format!("{{\"text\":{}}}", "9".repeat(100_000))),
        named("a number without bounds", "{\"text\":1e400}".to_owned()),
        named("a key of 100 KB", format!("{{\"{}\":1}}", "k".repeat(100_000))),
        named("a key that commands", format!("{{\"{}\":1}}", "\\u001b[2J\\u202e")),
        named("a lone surrogate", r#"{"text":"\ud800"}"#.to_owned()),
        named("not a number", r#"{"text":NaN}"#.to_owned()),
        named("a mark of byte order", "\u{feff}{\"text\":\"x\"}".to_owned()),
    ]
}

#[test]
fn arguments_of_tools_and_fields_of_entries_are_refused_whole() {
    let stage = furnished();
    let before = everything(&stage);
    for (name, word) in words() {
        refuses(&name, || stage.baton(&["tools", "call", "calculator", "--arguments", &word]));
        refuses(&name, || stage.baton(&["threads", "push", "kept", "--t", "UserMessage", &word]));
    }
    let long = "k".repeat(100_000);
    refuses("a long type", || stage.baton(&["threads", "push", "kept", "--t", &long, "{}"]));
    refuses("a long id", || stage.baton(&["threads", "push", &long, "--t", "note", "{}"]));
    refuses("a long name", || stage.baton(&["tools", "call", &long, "{}"]));
    refuses("a long pair", || stage.baton(&["tools", "call", "calculator", &long]));
    assert_eq!(everything(&stage), before);
}

#[test]
fn edited_arguments_are_refused_whole() {
    let stage = furnished();
    assert_eq!(stage.baton(&["ask", "--thread", "waiting", "the effect"]).code, 3);
    let before = everything(&stage);
    let approval = stage.baton(&["approvals", "ls", "--json"]).json()["items"][0]["id"].clone();
    for (name, word) in words() {
        let edit = ["approvals", "edit", approval.as_str().unwrap(), "--arguments", &word];
        refuses(&name, || stage.baton(&edit));
    }
    assert_eq!((everything(&stage), stage.effects()), (before, vec![]));
}

#[test]
fn words_that_are_no_text_are_refused() {
    let stage = furnished();
    let before = everything(&stage);
    let broken = || OsString::from_vec(b"{\"text\":\"\xff\xfe\"}".to_vec());
    for args in [
        &["tools", "call", "calculator", "--arguments"][..],
        &["threads", "push", "kept", "--t", "UserMessage"],
        &["approvals", "edit", "some", "--arguments"],
        &["ask"],
        &["ask", "hello", "--thread"],
    ] {
        refuses(&args.join(" "), || {
            let output = stage.command(args).arg(broken()).output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            Did {
                code: output.status.code().unwrap_or(-1),
                out: text(output.stdout),
                err: text(output.stderr),
            }
        });
    }
    assert_eq!(everything(&stage), before);
}

/// Of a repeated key the last value counts, and only that one is kept and passed on.
#[test]
fn keys_that_occur_twice_are_one_key_afterwards() {
    let stage = furnished();
    let call = ["tools", "call", "calculator", r#"{"expression": "1", "expression": "2 * 21"}"#];
    assert!(stage.baton(&call).ok().contains("\"result\": \"42\""));
    let push = ["threads", "push", "kept", "--t", "UserMessage", r#"{"text": "first", "text": "last"}"#];
    stage.baton(&push).ok();
    let shown = stage.baton(&["threads", "export", "kept"]).ok();
    assert!(shown.contains("\"last\"") && !shown.contains("\"first\""), "{shown}");
}

/// An archive of one message, with one part replaced.
fn archive(part: &str, value: &str) -> String {
    let parts = [
        ("id", "\"bomb\""),
        ("meta", "null"),
        ("current", "\"main\""),
        ("t", "\"UserMessage\""),
        ("v", "1"),
        ("data", "{\"text\":\"x\"}"),
        ("more", ""),
    ];
    let mut text = String::from(
        r#"{"baton":"thread","v":1,"id":<id>,"created":"2026-01-01T00:00:00.000Z","meta":<meta>,"current":<current>,
        "branches":[{"name":"main","head":"01890000-0000-7000-8000-000000000001"}],
        "entries":[{"id":"01890000-0000-7000-8000-000000000001","parent":null,"ts":"2026-01-01T00:00:00.000Z",
        "t":<t>,"v":<v>,"data":<data>}]<more>}"#,
    );
    for (name, usual) in parts {
        text = text.replace(&format!("<{name}>"), if name == part { value } else { usual });
    }
    text
}

fn archives() -> Vec<(String, Vec<u8>)> {
    let long = format!("\"{}\"", "x".repeat(10_000_000));
    let digits = "9".repeat(1_000_000);
    let many = format!("{{{}}}", keys(1_000_000));
    let mut all: Vec<(String, Vec<u8>)> = vec![
        ("nothing".into(), Vec::new()),
        ("a string of 10 MB".into(), long.clone().into_bytes()),
        ("128 levels".into(), nested(128).into_bytes()),
        ("100000 levels".into(), nested(100_000).into_bytes()),
        ("100000 levels without an end".into(), "{\"x\":".repeat(100_000).into_bytes()),
        ("a million keys".into(), many.clone().into_bytes()),
        ("no text".into(), b"{\"baton\":\"thread\",\"v\":1,\"id\":\"\xff\"}".to_vec()),
        ("zeros".into(), vec![0; 10_000_000]),
        ("another version".into(), archive("more", r#","v":2"#).into_bytes()),
    ];
    for (part, values) in [
        ("id", &[&long, &digits, &nested(100)][..]),
        ("meta", &[&nested(65), &nested(120), &nested(100_000), &digits]),
        ("current", &[&long, &nested(100)]),
        ("t", &[&long, &digits]),
        ("v", &[&digits, &"4294967296".to_owned(), &"-1".to_owned()]),
        ("data", &[&nested(64), &nested(120), &nested(100_000), &long, &many, &digits]),
    ] {
        for (at, value) in values.iter().enumerate() {
            all.push((format!("{part}, bomb {at}"), archive(part, value).into_bytes()));
        }
    }
    let deep = format!("{{\"x\":{}}}", nested(64));
    all.push((
        "an entry of 65 levels".into(),
        archive("t", "\"note\"").replace("{\"text\":\"x\"}", &deep).into_bytes(),
    ));
    all
}

#[test]
fn documents_are_imported_whole_or_not_at_all() {
    let stage = furnished();
    let before = everything(&stage);
    let file = stage.path("bomb.json");
    for (name, bytes) in archives() {
        std::fs::write(&file, bytes).unwrap();
        refuses(&name, || stage.baton_reading(&["threads", "import", "-"], &file));
        refuses(&name, || stage.baton(&["threads", "import", file.to_str().unwrap()]));
    }
    assert_eq!(everything(&stage), before);
    std::fs::write(&file, archive("data", r#"{"text":"x"}"#)).unwrap();
    assert_eq!(stage.baton(&["threads", "import", file.to_str().unwrap()]).code, 0, "the usual one is fine");
}

/// An entry that is long and fits is imported; one that could never be read again is not.
#[test]
fn an_entry_is_kept_only_if_it_can_be_read_again() {
    let stage = furnished();
    let file = stage.path("bomb.json");
    let text = |bytes: usize| json!({"text": "x".repeat(bytes)}).to_string();
    std::fs::write(&file, archive("data", &text(10_000_000))).unwrap();
    assert_eq!(stage.baton(&["threads", "import", "--id", "long", file.to_str().unwrap()]).code, 0);
    assert_eq!(stage.baton(&["threads", "show", "long", "--json"]).code, 0);
    let before = everything(&stage);
    std::fs::write(&file, archive("data", &text(70_000_000))).unwrap();
    let did = stage.baton(&["threads", "import", "--id", "longer", file.to_str().unwrap()]);
    is_one_clear_error("70 MB", &did);
    assert_eq!(everything(&stage), before);
}

#[test]
fn messages_by_pipe_are_bounded() {
    let stage = furnished();
    let before = everything(&stage);
    let file = stage.path("message");
    let said: [(&str, Vec<u8>); 5] = [
        ("2 MiB", "é".repeat(1 << 20).into_bytes()),
        ("one byte more than 1 MiB", vec![b'x'; (1 << 20) + 1]),
        ("not text", vec![0xff, 0xfe]),
        ("nothing", Vec::new()),
        ("white space", vec![b' '; 1000]),
    ];
    for (name, bytes) in said {
        std::fs::write(&file, bytes).unwrap();
        refuses(name, || stage.baton_reading(&["ask", "-"], &file));
        refuses(name, || stage.baton_reading(&["ask", "--thread", "kept", "--json", "-"], &file));
    }
    refuses("no end", || stage.baton_reading(&["ask", "-"], Path::new("/dev/zero")));
    assert_eq!(everything(&stage), before);
    std::fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    assert_eq!(stage.baton_reading(&["ask", "-"], &file).code, 0, "1 MiB is fine");
}

#[test]
fn settings_that_are_no_settings_change_nothing() {
    let stage = Stage::new();
    let dots = |count: usize| vec!["a"; count].join(".");
    let bombs: Vec<(&str, Vec<u8>)> = vec![
        ("128 levels", format!("a = {}", nested(128)).into_bytes()),
        ("100000 levels", format!("a = {}", nested(100_000)).into_bytes()),
        ("100000 tables", format!("a = {}1{}", "{a=".repeat(100_000), "}".repeat(100_000)).into_bytes()),
        ("a key of 100000 parts", format!("{} = 1", dots(100_000)).into_bytes()),
        ("a heading of 100000 parts", format!("[{}]\nx = 1", dots(100_000)).into_bytes()),
        ("100000 headings", "[[limits]]\n".repeat(90_000).into_bytes()),
        ("50000 keys", (0..50_000).map(|n| format!("k{n} = 1\n")).collect::<String>().into_bytes()),
        ("a million keys", (0..1_000_000).map(|n| format!("k{n} = 1\n")).collect::<String>().into_bytes()),
        ("a key of 1 MB", format!("{} = 1", "k".repeat(1_000_000)).into_bytes()),
        ("a key of 10 MB", format!("{} = 1", "k".repeat(10_000_000)).into_bytes()),
        ("a key that commands", "\"\\u001b[2J\\u202e\" = 1".to_owned().into_bytes()),
        ("a string of 10 MB", format!("model = \"{}\"", "x".repeat(10_000_000)).into_bytes()),
        ("a million digits", format!("last_n = {}", "9".repeat(1_000_000)).into_bytes()),
        (
            "a million digits and a point",
            format!("limits.cost_usd = {}.5", "9".repeat(1_000_000)).into_bytes(),
        ),
        ("not a number", "limits.cost_usd = nan".to_owned().into_bytes()),
        ("without bounds", "limits.cost_usd = inf".to_owned().into_bytes()),
        ("a key twice", "model = \"offline\"\nmodel = \"offline\"\n".to_owned().into_bytes()),
        ("no text", b"model = \"\xff\"".to_vec()),
        ("NUL", b"model = \"off\0line\"".to_vec()),
        ("an end within a character", ["é".repeat(600_000).as_bytes(), b"\xc3"].concat()),
    ];
    let file = stage.path("bomb.toml");
    for (name, bytes) in bombs {
        std::fs::write(&file, bytes).unwrap();
        let config = file.to_str().unwrap();
        refuses(name, || stage.baton(&["--config", config, "ask", "hello"]));
        refuses(name, || stage.baton(&["--config", config, "config", "show"]));
    }
    refuses("no end", || stage.baton(&["--config", "/dev/zero", "ask", "hello"]));
    assert!(!stage.path("data").exists(), "nothing was opened");
}

#[test]
fn scripts_that_are_no_scripts_begin_no_run() {
    let stage = furnished();
    let before = everything(&stage);
    let bombs: Vec<(&str, String)> = vec![
        ("100000 levels", nested(100_000)),
        ("a million keys", format!("{{\"v\":1,\"replies\":[],{}}}", keys(1_000_000))),
        ("a key of 10 MB", format!("{{\"v\":1,\"replies\":[],\"{}\":1}}", "k".repeat(10_000_000))),
        ("a million digits", format!("{{\"v\":{}}}", "9".repeat(1_000_000))),
        ("17 MB", " ".repeat(17 << 20)),
        (
            "a code of 10 MB",
            json!({"v": 1, "replies": [{"do": [{"error": {"code": "c".repeat(10_000_000), "message": ""}}]}]})
                .to_string(),
        ),
        (
            "an end of 10 MB",
            json!({"v": 1, "replies": [{"do": [{"finish": "c".repeat(10_000_000)}]}]}).to_string(),
        ),
    ];
    let file = stage.path("bomb.json");
    let model = format!("scripted/{}", file.display());
    for (name, text) in bombs {
        std::fs::write(&file, text).unwrap();
        refuses(name, || stage.baton(&["ask", "--model", &model, "hello"]));
    }
    assert_eq!(everything(&stage), before);
}
