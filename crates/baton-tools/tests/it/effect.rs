//! `test_effect`: the properties that crash tests rely on.

use std::fs;

use baton_core::thread::Closing;
use baton_core::tool::EffectClass;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, context, failed, ok, refused, registry};

fn arguments(folder: &TempDir, more: Value) -> Value {
    let mut all = json!({"file": folder.path().join("effects"), "line": "hello", "class": "unsafe"});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

fn written(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("effects")).unwrap_or_default()
}

#[tokio::test]
async fn every_call_leaves_a_line() {
    let (registry, folder) = (registry(&[]), TempDir::new().unwrap());
    for _ in 0..2 {
        let ran = call(&registry, "test_effect", arguments(&folder, json!({}))).await;
        assert_eq!(ran, ok(json!("wrote hello")));
    }
    assert_eq!(written(&folder), "k\thello\nk\thello\n");
}

#[tokio::test]
async fn an_idempotent_call_leaves_one_line_a_key() {
    let (registry, folder) = (registry(&[]), TempDir::new().unwrap());
    for key in ["k", "k", "k2", "k"] {
        let ran = registry
            .call("test_effect", arguments(&folder, json!({"class": "idempotent"})), context(key))
            .await;
        assert_eq!(ran, ok(json!("wrote hello")));
    }
    assert_eq!(written(&folder), "k\thello\nk2\thello\n");
}

#[tokio::test]
async fn the_line_is_there_even_if_the_call_fails_or_is_stopped() {
    let (registry, folder) = (registry(&[]), TempDir::new().unwrap());
    let ran = call(&registry, "test_effect", arguments(&folder, json!({"fail": true}))).await;
    assert_eq!(ran, failed("failed as told"));

    let context = context("stopped");
    context.cancel.cancel();
    let ran = registry.call("test_effect", arguments(&folder, json!({"delay_ms": 60_000})), context).await;
    assert_eq!(ran, failed("stopped"));
    assert_eq!(written(&folder), "k\thello\nstopped\thello\n");
}

#[tokio::test]
async fn a_cancel_can_be_ignored() {
    let (registry, folder) = (registry(&[]), TempDir::new().unwrap());
    let context = context("k");
    context.cancel.cancel();
    let arguments = arguments(&folder, json!({"delay_ms": 1, "ignore_cancel": true}));
    assert_eq!(registry.call("test_effect", arguments, context).await, ok(json!("wrote hello")));
}

#[tokio::test]
async fn outputs_of_any_size_can_be_asked_for() {
    let (registry, folder) = (registry(&[]), TempDir::new().unwrap());
    let ran = call(&registry, "test_effect", arguments(&folder, json!({"output_bytes": 100_000}))).await;
    assert_eq!((ran.outcome.status, ran.blob.unwrap().len()), (Closing::Ok, 100_000));
}

#[tokio::test]
async fn a_line_that_would_break_the_file_is_refused() {
    let (registry, folder) = (registry(&[]), TempDir::new().unwrap());
    let ran = call(&registry, "test_effect", arguments(&folder, json!({"line": "two\nlines"}))).await;
    assert_eq!(ran, refused("The line and the key must fit one line of the file."));
    assert_eq!(written(&folder), "");
}

#[test]
fn the_class_is_an_argument() {
    let registry = registry(&[]);
    let class = |arguments: Value| registry.get("test_effect").unwrap().class(&arguments);
    assert_eq!(class(json!({"class": "side_effect_free"})), EffectClass::SideEffectFree);
    assert_eq!(class(json!({"class": "idempotent"})), EffectClass::Idempotent);
    for invalid in [json!({"class": "unsafe"}), json!({"class": "harmless"}), json!({"class": 1}), json!({})]
    {
        assert_eq!(class(invalid), EffectClass::Unsafe);
    }
}
