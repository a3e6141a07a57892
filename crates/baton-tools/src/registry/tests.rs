//! Admission of calls as models write them at their worst.

mod calls;
mod trust;

use baton_core::chat::RawCall;
use baton_core::effect::{Admission, CheckedCall, ToolOutcome};
use baton_core::id::Tenant;
use baton_core::tool::{ASK_USER, Cause, EffectClass};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::builtin::{Builtin, builtin};
use crate::testing::test_effect;
use crate::tool::{CallContext, Output, ToolError};

type Act = fn(CallContext) -> BoxFuture<'static, Result<Output, ToolError>>;

struct Acting {
    spec: ToolSpec,
    act: Act,
}

impl Tool for Acting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, _: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        (self.act)(context)
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class: EffectClass::Unsafe,
        timeout_ms: 1_000,
        ..ToolSpec::default()
    }
}

fn acting(spec: ToolSpec, act: Act) -> Arc<dyn Tool> {
    Arc::new(Acting { spec, act })
}

fn idle(spec: ToolSpec) -> Arc<dyn Tool> {
    acting(spec, |_| std::future::ready(Ok(Output::Text("done".into()))).boxed())
}

fn context() -> CallContext {
    let (cancel, roots) = (CancellationToken::new(), Vec::new());
    CallContext {
        call_id: "call_1".into(),
        key: "key_1".into(),
        cancel,
        roots,
        tenant: Tenant::local(),
        metadata: Value::Null,
        permit: Default::default(),
    }
}

async fn run(spec: ToolSpec, act: Act) -> ToolCallResult {
    let name = spec.name.clone();
    Registry::new(vec![acting(spec, act)]).unwrap().call(&name, json!({}), context()).await
}

fn failed(message: &str) -> ToolCallResult {
    let outcome = ToolOutcome { cause: Some(Cause::Tool), ..ToolOutcome::error(message) };
    ToolCallResult { outcome, blob: None, before_start: false, timed_out: false }
}

/// The result of a call whose time ran out. It has no cause, so that it is not retried automatically.
fn out_of_time(ms: u32) -> ToolCallResult {
    let outcome = ToolOutcome::error(format!("`a` did not finish within {ms} ms and was stopped."));
    ToolCallResult { outcome, blob: None, before_start: false, timed_out: true }
}

fn registry() -> Registry {
    let options =
        Builtin { secrets: Default::default(), roots: Vec::new(), blobs: None, now: Default::default };
    let mut tools = builtin(options).unwrap();
    tools.extend([test_effect(), idle(spec("anything"))]);
    Registry::new(tools).unwrap()
}

fn call(name: &str, arguments: &str) -> RawCall {
    RawCall { id: None, name: name.to_owned(), arguments: arguments.to_owned() }
}

fn check(name: &str, arguments: &str) -> CheckedCall {
    registry().check(&call(name, arguments), &VisibleTools::ALL)
}

fn reason(checked: &CheckedCall) -> &str {
    match &checked.admission {
        Admission::Refused { reason } => reason,
        Admission::Fits { .. } => panic!("admitted: {checked:?}"),
    }
}

#[test]
fn unusable_sets_of_tools_are_refused_by_name() {
    let new = |tools| Registry::new(tools).unwrap_err();
    let duplicate = new(vec![idle(spec("b")), idle(spec("a")), idle(spec("b"))]);
    assert_eq!(duplicate, RegistryError::Duplicate { name: "b".into() });
    for name in ["", "a b", "a b", "é", "a\n", &"x".repeat(65)] {
        assert_eq!(new(vec![idle(spec(name))]), RegistryError::Name { name: name.to_owned() });
    }
    for schema in
        [json!({"type": "no_such_type"}), json!({"pattern": "("}), json!({"$ref": "https://e.invalid/s"})]
    {
        let input = ToolSpec { input_schema: schema.clone(), ..spec("a") };
        let error = new(vec![idle(input)]).to_string();
        assert!(error.starts_with("the input schema of tool `a` is not usable: "), "{error}");
        let output = ToolSpec { output_schema: Some(schema), ..spec("a") };
        let error = new(vec![idle(output)]).to_string();
        assert!(error.starts_with("the output schema of tool `a` is not usable: "), "{error}");
    }
}

#[test]
fn specs_are_sorted_and_complete() {
    let registry = registry();
    let names: Vec<String> = registry.specs().into_iter().map(|spec| spec.name).collect();
    let expected = [
        "anything",
        "ask_user",
        "calculator",
        "clock",
        "system_health",
        "system_logs",
        "test_effect",
        "update_plan",
    ];
    assert_eq!(names, expected);
    assert!(registry.get("clock").is_some() && registry.get("Clock").is_none());
    let calculator = registry.get("calculator").unwrap().spec();
    assert_eq!(calculator.input_schema["required"], json!(["expression"]));
    assert_eq!(calculator.input_schema["additionalProperties"], json!(false));
}

#[test]
fn a_fitting_call_is_admitted_with_its_class() {
    let checked = check("calculator", r#" {"expression": "1+1"} "#);
    let expected = CheckedCall {
        provider_id: None,
        name: "calculator".into(),
        arguments: json!({"expression": "1+1"}),
        admission: Admission::Fits { class: EffectClass::SideEffectFree, egress: false },
    };
    assert_eq!(checked, expected);
    for arguments in ["", " \n", "null", "{}"] {
        let checked = check("anything", arguments);
        assert_eq!(checked.arguments, json!({}), "{arguments:?}");
        assert_eq!(
            checked.admission,
            Admission::Fits { class: EffectClass::Unsafe, egress: false },
            "{arguments:?}"
        );
    }
    let checked = check(ASK_USER, r#"{"question": "Which one?"}"#);
    assert_eq!(checked.admission, Admission::Fits { class: EffectClass::SideEffectFree, egress: false });
    for (class, expected) in [("idempotent", EffectClass::Idempotent), ("unsafe", EffectClass::Unsafe)] {
        let arguments = json!({"file": "f", "line": "l", "class": class}).to_string();
        assert_eq!(
            check("test_effect", &arguments).admission,
            Admission::Fits { class: expected, egress: false }
        );
    }
}

#[test]
fn malformed_arguments_are_refused_with_a_reason() {
    let object = "Send one complete JSON object.";
    let cases = [
        ("[]", "The arguments are an array. Send one JSON object, like {\"key\": \"value\"}.".to_owned()),
        (
            r#""{\"a\":1}""#,
            "The arguments are a string. Send one JSON object, like {\"key\": \"value\"}.".to_owned(),
        ),
        ("7", "The arguments are a number. Send one JSON object, like {\"key\": \"value\"}.".to_owned()),
        (
            "true",
            "The arguments are a bare word. Send one JSON object, like {\"key\": \"value\"}.".to_owned(),
        ),
        (
            r#"{"a": "b"#,
            format!(
                "The arguments are not valid JSON: EOF while parsing a string at line 1 column 8. {object}"
            ),
        ),
        (
            "```json\n{\"a\": 1}\n```",
            "The arguments are wrapped in a code fence. Send the bare JSON object, without ``` marks."
                .to_owned(),
        ),
        (
            r#"{"a": 1,}"#,
            format!("The arguments are not valid JSON: trailing comma at line 1 column 9. {object}"),
        ),
        (
            "{} {}",
            format!("The arguments are not valid JSON: trailing characters at line 1 column 4. {object}"),
        ),
        (
            r#"{"a": "\ud800"}"#,
            format!(
                "The arguments are not valid JSON: unexpected end of hex escape at line 1 column 14. {object}"
            ),
        ),
        (
            r#"{"a": 1e400}"#,
            format!("The arguments are not valid JSON: number out of range at line 1 column 11. {object}"),
        ),
        (
            r#"{"a": NaN}"#,
            format!("The arguments are not valid JSON: expected value at line 1 column 7. {object}"),
        ),
        (
            "{a: 1}",
            format!("The arguments are not valid JSON: key must be a string at line 1 column 2. {object}"),
        ),
    ];
    for (arguments, expected) in cases {
        let checked = check("anything", arguments);
        assert_eq!(reason(&checked), expected, "{arguments}");
        assert_eq!(checked.arguments, json!({}), "{arguments}");
    }
}

#[test]
fn arguments_that_do_not_fit_the_schema_are_kept_and_explained() {
    let checked = check("calculator", r#"{"raw": "1+1"}"#);
    assert_eq!(checked.arguments, json!({"raw": "1+1"}));
    let expected = "The arguments do not fit `calculator`: Additional properties are not allowed ('raw' was \
                    unexpected); \"expression\" is a required property.";
    assert_eq!(reason(&checked), expected);
    let checked = check("calculator", r#"{"expression": 2}"#);
    assert_eq!(
        reason(&checked),
        "The arguments do not fit `calculator`: at /expression: 2 is not of type \"string\"."
    );
    // A reason stays short for any arguments.
    let long = json!({"expression": ["x".repeat(100_000)]}).to_string();
    assert!(reason(&check("calculator", &long)).len() < 2_000);
    let many: String = (0..1_000).map(|n| format!("\"k{n}\":1,")).collect();
    assert!(reason(&check("calculator", &format!("{{{many}\"z\":1}}"))).len() < 2_000);
}

#[test]
fn of_two_equal_keys_the_last_one_counts() {
    let checked = check("anything", r#"{"a": 1, "a": 2}"#);
    assert_eq!(checked.arguments, json!({"a": 2}));
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    for depth in [63, 64] {
        assert!(matches!(check("anything", &nested(depth)).admission, Admission::Fits { .. }), "{depth}");
    }
    for depth in [65, 128, 100_000] {
        let checked = check("anything", &nested(depth));
        let expected = "The arguments are nested more than 64 levels deep. Send flatter ones.";
        assert_eq!(reason(&checked), expected, "{depth}");
    }
    let long = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
    for length in [MAX_ARGUMENT_BYTES - 1, MAX_ARGUMENT_BYTES] {
        assert!(matches!(check("anything", &long(length)).admission, Admission::Fits { .. }), "{length}");
    }
    assert_eq!(
        reason(&check("anything", &long(MAX_ARGUMENT_BYTES + 1))),
        "The arguments are 1048577 bytes long; at most 1048576 are accepted. Send shorter ones."
    );
}

#[test]
fn unknown_tools_are_refused_with_the_nearest_one() {
    let cases = [
        ("calcluator", "calcluator", r#"There is no tool "calcluator". The nearest one is `calculator`."#),
        ("CLOCK", "CLOCK", r#"There is no tool "CLOCK". The nearest one is `clock`."#),
        ("clock ", "clock_", r#"There is no tool "clock ". The nearest one is `clock`."#),
        ("cl\nock", "cl_ock", r#"There is no tool "cl\nock". The nearest one is `clock`."#),
        ("clock\0", "clock_", r#"There is no tool "clock\0". The nearest one is `clock`."#),
        ("", "_", r#"There is no tool "". The nearest one is `clock`."#),
    ];
    for (name, recorded, expected) in cases {
        let checked = check(name, "{}");
        assert_eq!((reason(&checked), checked.name.as_str()), (expected, recorded));
    }
    let checked = check(&"é".repeat(100_000), "{}");
    assert_eq!(checked.name, "_".repeat(64));
    assert!(reason(&checked).len() < 300);
}

#[test]
fn a_tool_that_is_not_known_is_refused_like_one_that_does_not_exist() {
    let check = |only: &dyn Fn(&str) -> bool| {
        registry()
            .check(&call("calculator", r#"{"expression":"1"}"#), &VisibleTools { known: only, offered: only })
    };
    let nearest = r#"There is no tool "calculator". The nearest one is `clock`."#;
    assert_eq!(reason(&check(&|name| name == "clock")), nearest);
    let none = r#"There is no tool "calculator", and no other tool is offered. Answer in words."#;
    assert_eq!(reason(&check(&|_| false)), none);
}

#[test]
fn a_tool_that_is_known_and_not_offered_is_admitted_and_never_suggested() {
    let check = |name: &str, offered: &dyn Fn(&str) -> bool| {
        registry().check(&call(name, r#"{"expression":"1"}"#), &VisibleTools { offered, ..VisibleTools::ALL })
    };
    let fits = Admission::Fits { class: EffectClass::SideEffectFree, egress: false };
    assert_eq!(check("calculator", &|name| name == "clock").admission, fits);
    let nearest = r#"There is no tool "calculators". The nearest one is `clock`."#;
    assert_eq!(reason(&check("calculators", &|name| name == "clock")), nearest);
    let none = r#"There is no tool "calculators", and no other tool is offered. Answer in words."#;
    assert_eq!(reason(&check("calculators", &|_| false)), none);
}

#[test]
fn only_usable_ids_of_the_provider_are_kept() {
    let longest = "x".repeat(256);
    let too_long = "x".repeat(257);
    let cases = [
        (Some("call_1"), true),
        (Some(longest.as_str()), true),
        (Some(too_long.as_str()), false),
        (Some(""), false),
        (Some("a b"), false),
        (Some("a\0"), false),
        (Some("é"), false),
        (None, false),
    ];
    for (id, kept) in cases {
        let call = RawCall { id: id.map(str::to_owned), ..call("anything", "") };
        let expected = id.filter(|_| kept).map(str::to_owned);
        assert_eq!(registry().check(&call, &VisibleTools::ALL).provider_id, expected);
    }
}

#[test]
fn edited_arguments_are_checked_alike() {
    let registry = registry();
    assert_eq!(registry.validate("calculator", &json!({"expression": "1"})), Ok(()));
    assert_eq!(registry.validate("nothing", &json!({})), Err("There is no tool \"nothing\".".into()));
    assert_eq!(registry.validate("anything", &json!([])), Err("The arguments are not a JSON object.".into()));
    let deep = json!({"a": (0..64).fold(json!(1), |inner, _| json!([inner]))});
    assert!(registry.validate("anything", &deep).is_err());
    assert!(registry.validate("calculator", &json!({})).is_err());
}

proptest! {
    #[test]
    fn a_checked_call_has_a_usable_name_and_an_object_for_any_input(name in ".*", arguments in ".*", id in proptest::option::of(".*")) {
        let checked = registry().check(&RawCall { id, name, arguments }, &VisibleTools::ALL);
        prop_assert!(is_tool_name(&checked.name));
        prop_assert!(checked.arguments.is_object());
    }
}
