use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Asked {
    input: String,
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    config: Option<Config>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    timeout_s: Option<u32>,
    #[serde(default)]
    metadata: Value,
}

fn why(body: &str) -> String {
    match parse::<Asked>(body.as_bytes()) {
        Ok(value) => panic!("{value:?} was taken"),
        Err(problem) => {
            assert_eq!(problem.code, ProblemCode::InvalidRequest);
            problem.detail
        }
    }
}

#[test]
fn a_body_that_fits_is_taken() {
    let body = r#"{"input":"hi","config":{"timeout_s":3,"metadata":{"a":[1,{"b":null}]}}}"#;
    let config = Config { timeout_s: Some(3), metadata: json!({"a": [1, {"b": null}]}) };
    let expected = Asked { input: "hi".into(), thread_id: None, config: Some(config) };
    assert_eq!(parse::<Asked>(body.as_bytes()).unwrap(), expected);
}

#[test]
fn a_mistake_says_where_it_is_and_what_was_meant() {
    let told = [
        why(r#"{"input":"hi","thread":"t"}"#),
        why(r#"{"input":"hi","config":{"timeout":3}}"#),
        why(r#"{"input":"hi","zzz":3}"#),
        why(r#"{"input":"hi","config":{"timeout_s":"soon"}}"#),
        why(r#"{"thread_id":"t"}"#),
        why(r#"{"input":"hi","#),
        why(r#"{"input":"a","input":"b"}"#),
        why(r#"{"input":"a","x`, expected `input":1}"#),
    ];
    let expected = [
        "there is no field `thread`; did you mean `thread_id`? There are: input, thread_id, config",
        "there is no field `timeout` in `config`; did you mean `timeout_s`? There are: timeout_s, metadata",
        "there is no field `zzz`. There are: input, thread_id, config",
        "config.timeout_s: invalid type: string \"soon\", expected u32 at line 1 column 42",
        "missing field `input` at line 1 column 17",
        "EOF while parsing a value at line 1 column 14",
        "the key `input` stands twice in one object: send it once",
        "there is no field `x`, expected `input`. There are: input, thread_id, config",
    ];
    assert_eq!(told, expected);
}

#[test]
fn ids_of_a_path_are_told_apart_by_who_chooses_them() {
    assert_eq!(run_id("no-uuid"), Err(Problem::not_found("run")));
    assert_eq!(run_id(&"9".repeat(5000)), Err(Problem::not_found("run")));
    assert_eq!(thread_id("a b").map_err(|problem| problem.code), Err(ProblemCode::InvalidRequest));
    assert!(thread_id("trip-1").is_ok());
}
