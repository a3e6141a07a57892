//! `baton tools`.

use serde_json::json;

use crate::stage::Stage;

#[test]
fn the_tools_are_listed_with_what_a_client_needs_to_know() {
    let stage = Stage::new();
    let tools = stage.document(&["tools", "ls"])["tools"].as_array().unwrap().clone();
    let flags: Vec<_> = tools
        .iter()
        .map(|tool| {
            json!([tool["name"], tool["side_effect_free"], tool["idempotent"], tool["requires_context"]])
        })
        .collect();
    let free = |name: &str| json!([name, true, true, false]);
    let expected = [
        free("ask_user"),
        free("calculator"),
        free("clock"),
        free("fetch_url"),
        free("list_files"),
        free("read_blob"),
        free("read_file"),
        free("search_blob"),
        free("search_files"),
        free("system_health"),
        free("system_logs"),
        json!(["test_effect", false, false, false]),
        json!(["test_note", false, true, false]),
        free("update_plan"),
    ];
    assert_eq!(flags, expected);
    assert!(tools.iter().all(|tool| tool["timeout_s"].as_f64().is_some_and(|s| s > 0.0)));

    let listed = stage.baton(&["tools", "ls"]).ok();
    let names: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, expected.each_ref().map(|tool| tool[0].as_str().unwrap()));

    let one = stage.document(&["tools", "show", "calculator"]);
    assert_eq!(&one, &tools[1]);
    let shown = stage.baton(&["tools", "show", "calculator"]).ok();
    assert!(shown.starts_with("calculator: Calculates") && shown.contains("\"expression\""), "{shown}");
}

#[test]
fn a_tool_is_called_with_json_or_with_pairs() {
    let stage = Stage::new();
    let result = "{\n  \"exact\": true,\n  \"result\": \"42\"\n}\n";
    for args in [
        &["tools", "call", "calculator", "expression=6 * 7"][..],
        &["tools", "call", "calculator", "{\"expression\": \"6 * 7\"}"],
        &["tools", "call", "calculator", "--arguments", "{\"expression\": \"6 * 7\"}"],
    ] {
        assert_eq!(stage.baton(args).ok(), result, "{args:?}");
    }
    let mut document = stage.document(&["tools", "call", "calculator", "expression=6 * 7"]);
    assert!(document["execution_time_ms"].take().is_u64());
    let output = json!({"exact": true, "result": "42"});
    assert_eq!(document, json!({"status": "success", "output": output, "execution_time_ms": null}));
}

#[test]
fn text_is_printed_as_it_is_and_whole() {
    let stage = Stage::new();
    let file = format!("file={}", stage.path("effects").display());
    let call = ["tools", "call", "test_effect", &file, "line=by hand", "class=unsafe"];
    assert_eq!(stage.baton(&call).ok(), "wrote by hand\n");
    assert_eq!(stage.effects(), ["by hand"]);
    let long = stage.baton(&[&call[..], &["output_bytes=50000"]].concat()).ok();
    assert_eq!(long, format!("{}\n", "x".repeat(50_000)));
}

#[test]
fn the_blob_that_a_document_names_can_be_read() {
    let stage = Stage::new();
    let file = format!("file={}", stage.path("effects").display());
    let call =
        ["tools", "call", "test_effect", &file, "line=l", "class=unsafe", "output_bytes=50000", "--json"];
    let output = stage.baton(&call).json()["output"].as_str().unwrap().to_owned();
    let hash = output.split("hash ").nth(1).and_then(|rest| rest.split('.').next()).unwrap();
    let read = stage.baton(&["tools", "call", "read_blob", &format!("hash={hash}"), "offset=49990"]).ok();
    assert!(read.contains("xxxxxxxxxx"), "{read}");
}

#[test]
fn a_tool_that_fails_is_a_failure() {
    let stage = Stage::new();
    let file = format!("file={}", stage.path("effects").display());
    let call = ["tools", "call", "test_effect", &file, "line=l", "class=unsafe", "fail=true"];
    let did = stage.baton(&call);
    assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (1, "", "error: failed as told\n"));
    let did = stage.baton(&[&call[..], &["--json"]].concat());
    let mut document = did.json();
    document["execution_time_ms"].take();
    let expected = json!({"status": "error", "output": "failed as told", "execution_time_ms": null});
    assert_eq!((did.code, document), (1, expected));
}

#[test]
fn wrong_use_says_what_fits() {
    let stage = Stage::new();
    let cases = [
        (
            &["tools", "show", "nope"][..],
            1,
            "error: there is no tool \"nope\"\n  baton tools ls shows what there is\n",
        ),
        (
            &["tools", "call", "calculater"],
            2,
            "error: There is no tool \"calculater\". The nearest one is `calculator`.\n  baton tools ls shows what there is\n",
        ),
        (
            &["tools", "call", "calculator"],
            2,
            "error: The arguments do not fit `calculator`: \"expression\" is a required property.\n  baton tools show calculator says what fits\n",
        ),
        (
            &["tools", "call", "calculator", "--arguments", "[1]"],
            2,
            "error: The arguments are an array. Send one JSON object, like {\"key\": \"value\"}.\n  baton tools show calculator says what fits\n",
        ),
        (
            &["tools", "call", "calculator", "six"],
            2,
            "error: \"six\" is neither a JSON object nor key=value\n  for example: expression=\"2 * 21\"\n",
        ),
    ];
    for (args, code, err) in cases {
        let did = stage.baton(args);
        assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (code, "", err), "{args:?}");
    }
    assert_eq!(stage.effects(), [] as [&str; 0]);
}
