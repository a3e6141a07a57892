use std::sync::Arc;

use super::*;
use proptest::prelude::*;

const NOTE: &str =
    "\n\n(offline model: no language model is connected; `baton doctor` says how to connect one)";

/// The answer to one result, without its last line.
fn told(name: &str, arguments: Value, content: &str) -> String {
    let mut messages = vec![user("x")];
    messages.extend(called("1", name, arguments, content));
    let text = text_of(&ask(messages));
    text.strip_suffix(NOTE).expect("the note").to_owned()
}

fn health(cpu: f64, memory: u64, disk: u64) -> Value {
    let gib = 1_073_741_824_u64;
    json!({
        "cpu": {"usage_percent": cpu, "logical_cores": 8},
        "memory": {"total_bytes": 16 * gib, "used_bytes": memory * gib, "available_bytes": (16 - memory) * gib, "used_percent": 1.0},
        "swap": {"total_bytes": 0, "used_bytes": 0, "available_bytes": 0, "used_percent": 0.0},
        "disks": [
            {"mount_point": "/", "file_system": "ext4", "total_bytes": 100 * gib, "available_bytes": (100 - disk) * gib, "used_percent": 1.0},
            {"mount_point": "/none", "file_system": "x", "total_bytes": 0, "available_bytes": 0, "used_percent": 0.0},
        ],
        "load_average": {"one_minute": 0.5, "five_minutes": 0.25, "fifteen_minutes": 1.0},
        "uptime_seconds": 200_000,
        "process_count": 42,
        "busiest_by_cpu": [{"pid": 1, "name": "a", "cpu_percent": 150.0, "memory_bytes": 1}, {"pid": 2, "name": "b", "cpu_percent": 1.0, "memory_bytes": 1}],
        "busiest_by_memory": [{"pid": 1, "name": "a", "cpu_percent": 1.0, "memory_bytes": 2 * gib}],
        "temperatures": [],
    })
}

#[test]
fn a_healthy_machine() {
    assert_eq!(
        told("system_health", json!({}), &health(12.4, 8, 40).to_string()),
        "**Nothing looks wrong: the processor, the disk and memory have room.**\n\n\
         - **Processor**: 12 % busy of 8 cores\n\
         - **Load**: 0.50, 0.25, 1.00 over 1, 5 and 15 minutes\n\
         - **Memory**: 8.0 GiB of 16.0 GiB used (50 %)\n\
         - **Swap**: none\n\
         - **Disk /**: 40.0 GiB of 100.0 GiB used (40 %)\n\
         - **Up for**: 2 d 7 h\n\
         - **Busiest**: a (150 %), b (1 %)\n\
         - **Most memory**: a (2.0 GiB)\n\
         - **process count**: 42"
    );
}

#[test]
fn a_machine_in_trouble() {
    let text = told("system_health", json!({}), &health(97.0, 15, 85).to_string());
    let headline = "**The processor is very busy (97 %); disk / is filling up (85 % used); memory is nearly full (94 % used).**";
    assert_eq!(text.lines().next(), Some(headline));
    let advice = "\n\n**Advice**\n\n\
        - Look at the busiest programs: end those that should not be running.\n\
        - Make room on disk /: downloads, caches and old logs are often the largest.\n\
        - Close programs that take much memory and are not needed now.";
    assert!(text.ends_with(advice), "{text}");
}

#[test]
fn a_machine_of_another_shape() {
    let table = [
        (
            json!({"mem_used_percent": 20.0}),
            "**Nothing looks wrong: memory has room.**\n\n- **Memory**: 20 % used",
        ),
        (json!({"cpu": "fast"}), "- **cpu**: fast"),
        (json!({"cpu": 400.0, "memory": {}}), "- **cpu**: 400.0\n- **memory**: none"),
        (json!("all good"), "all good"),
        (json!([]), "(nothing)"),
    ];
    for (value, expected) in table {
        assert_eq!(told("system_health", json!({}), &value.to_string()), expected);
    }
}

#[test]
fn known_results_are_put_into_words() {
    let entries = json!({"more": true, "entries": [
        {"path": "src", "kind": "folder"}, {"path": "src/a.rs", "kind": "file", "size_bytes": 2048}]});
    let found = json!({"matches": [{"path": "a.rs", "line": 3, "text": "  // TODO `x`"}], "files_searched": 1,
        "files_skipped": 0, "more": false});
    let none = json!({"matches": [], "files_searched": 7, "files_skipped": 0, "more": false});
    let log = json!({"available": true, "note": "The newest lines.", "lines": ["a", "b"]});
    let no_log = json!({"available": false, "note": "not available: no reader", "lines": []});
    let moment = json!({"time": "2026-01-01T02:00:00.000+02:00", "weekday": "Thursday", "timezone": "+02:00", "unix_ms": 1});
    let table = [
        (
            "calculator",
            json!({"expression": "12 * 3.5"}),
            json!({"result": "42", "exact": true}),
            "12 * 3.5 = 42",
        ),
        (
            "calculator",
            json!({"expression": "1/3"}),
            json!({"result": "0.3", "exact": false}),
            "1/3 = 0.3 (rounded)",
        ),
        ("calculator", json!({}), json!(42), "42"),
        ("calculator", json!({}), json!({"odd": 1}), "- **odd**: 1"),
        ("clock", json!({}), moment, "It is Thursday, 2026-01-01 02:00:00 (+02:00)."),
        ("clock", json!({}), json!({"time": "noon"}), "- **time**: noon"),
        (
            "list_files",
            json!({"path": "."}),
            entries,
            "2 entries in `.`:\n\n- `src/`\n- `src/a.rs`, 2.0 KiB\n\nThere is more than the tool returned; ask for less at once.",
        ),
        ("list_files", json!({}), json!({"entries": [], "more": false}), "There is nothing."),
        ("list_files", json!({}), json!({"entries": [1]}), "- **entries**: 1"),
        (
            "search_files",
            json!({"pattern": "TODO"}),
            found,
            "1 match for `TODO` in 1 file:\n\n- `a.rs:3`: `// TODO 'x'`",
        ),
        ("search_files", json!({"pattern": "TODO"}), none, "No match for `TODO` in 7 files."),
        ("system_logs", json!({}), log, "The newest lines.\n\n```\na\nb\n```"),
        ("system_logs", json!({}), no_log, "No lines of the system's log: not available: no reader"),
        ("weather", json!({}), json!({"sky": "clear"}), "- **sky**: clear"),
    ];
    for (name, arguments, value, expected) in table {
        assert_eq!(told(name, arguments, &value.to_string()), expected);
    }
}

#[test]
fn files_are_shown_as_text() {
    let path = || json!({"path": "a.json"});
    assert_eq!(told("read_file", path(), "{\"a\": 1}\n"), "`a.json`:\n\n```\n{\"a\": 1}\n```");
    assert_eq!(told("read_file", path(), ""), "`a.json` is empty.");
    assert_eq!(told("read_file", path(), "```\nx"), "`a.json`:\n\n````\n```\nx\n````");
    let long = told("read_file", path(), &"x".repeat(10_000));
    assert!(long.ends_with("\n```\n\n… and 3856 bytes more."), "{long}");
}

#[test]
fn failed_calls_are_described_plainly() {
    let table = [
        ("clock", "Error: no clock", "`clock` did not work: no clock"),
        ("clock", "Denied: not today", "`clock` was not allowed to run: not today"),
        ("clock", "Expired: 1 h", "`clock` did not run, because nobody decided in time: 1 h"),
        ("clock", "Cancelled: stop", "`clock` was cancelled: stop"),
        ("clock", "Unknown outcome: crash", "Nobody knows whether `clock` took effect: crash"),
        (ASK_USER, "Expired: 1 h", "My question was not answered in time: 1 h"),
    ];
    for (name, content, expected) in table {
        assert_eq!(told(name, json!({}), content), expected);
    }
}

#[test]
fn several_results_have_headings_and_questions_are_left_out() {
    let mut messages = vec![user("x")];
    messages.extend(called("q", ASK_USER, json!({}), "yes"));
    messages.extend(called(
        "1",
        "calculator",
        json!({"expression": "1+1"}),
        r#"{"result":"2","exact":true}"#,
    ));
    messages.extend(called("2", "weather", json!({}), "Error: no network"));
    let expected = "### calculator\n\n1+1 = 2\n\n### weather\n\n`weather` did not work: no network";
    assert_eq!(text_of(&ModelRequest { tools: vec![].into(), ..ask(messages) }), format!("{expected}{NOTE}"));
}

#[test]
fn without_a_fitting_tool_it_lists_its_abilities() {
    assert_eq!(
        text_of(&ask(vec![user("Write me a poem")])),
        format!(
            "I am not a language model: I choose tools by the words of a request, and none fits this one. What I can do \
             here:\n\n\
             - `calculator`: “What is 12 * 3.5?”\n\
             - `clock`: “What time is it?”\n\
             - `system_health`: “How is my machine doing?”\n\
             - `system_logs`: “Show the last 20 errors in the logs”\n\
             - `list_files`: “List the files in src”\n\
             - `read_file`: “Read notes.txt”\n\
             - `search_files`: “Search for \"TODO\" in src”\n\
             - `send_mail`: Sends an e-mail message to somebody.{NOTE}"
        )
    );
    let none = ModelRequest { tools: vec![].into(), ..ask(vec![user("hi")]) };
    let expected = "I am not a language model, and no tools are offered to me here: I cannot answer this.";
    assert_eq!(text_of(&none), format!("{expected}{NOTE}"));
}

#[test]
fn every_example_it_gives_works() {
    for tool in tools() {
        let listed = text_of(&ModelRequest { tools: vec![tool.clone()].into(), ..ask(vec![user("poem")]) });
        let Some(example) = listed.split_once('“').and_then(|(_, rest)| rest.split_once('”')) else {
            continue;
        };
        let OfflineAction::Call(calls) = decide(&ask(vec![user(example.0)])) else {
            panic!("{} does nothing", example.0)
        };
        assert_eq!(calls.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [tool.name]);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        "\\PC{0,6}",
        prop::sample::select(vec![
            "cpu",
            "memory",
            "disks",
            "swap",
            "load",
            "total_bytes",
            "used_percent",
            "entries",
            "matches",
            "lines",
            "time",
            "properties",
            "required",
            "type",
            "enum",
            "anyOf",
            "path",
            "uptime_seconds",
            "temperatures",
            "busiest",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_result_has_an_answer(value in any_json(), which in 0..10_usize, prefix in "(Error: |Denied: )?") {
        let name = tools()[which].name.clone();
        let mut messages = vec![user("x")];
        messages.extend(called("1", &name, value.clone(), &format!("{prefix}{value}")));
        let request = ask(messages);
        prop_assert_eq!(decide(&request), decide(&request));
    }

    #[test]
    fn any_request_and_any_schema_has_an_answer(
        request in "\\PC{0,60}|(read|find|2\\+2|list|last 5|'x'|in|folder|a/b| ){0,9}",
        schema in any_json(),
    ) {
        let mut request = ask(vec![user(&request)]);
        for tool in Arc::make_mut(&mut request.tools) {
            if tool.name.contains('_') {
                tool.input_schema = schema.clone();
            }
        }
        prop_assert_eq!(decide(&request), decide(&request));
    }
}
