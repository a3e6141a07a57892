//! Calls of tools that behave at their worst.

use std::time::Duration;

use baton_core::effect::BlobRef;
use baton_core::thread::Closing;

use super::*;
use crate::output::{MAX_STORED, MAX_WHOLE};

#[tokio::test]
async fn results_and_errors_of_a_tool_become_outcomes() {
    let ran = run(spec("a"), |_| std::future::ready(Ok(Output::Json(json!({"n": 1})))).boxed()).await;
    let outcome = ToolOutcome::new(Closing::Ok, json!({"n": 1}));
    assert_eq!(ran, ToolCallResult { outcome, blob: None, before_start: false, timed_out: false });
    let ran = run(spec("a"), |_| std::future::ready(Err(ToolError::new("no"))).boxed()).await;
    assert_eq!(ran, failed("no"));
    let ran = run(spec("a"), |_| std::future::ready(Err(ToolError::before_start("no"))).boxed()).await;
    assert_eq!(ran, ToolCallResult { before_start: true, ..failed("no") });
    let refused = |message: &str| {
        let mut ran = ToolCallResult { before_start: true, ..failed(message) };
        ran.outcome.cause = Some(Cause::Asked);
        ran
    };
    let ran = run(spec("a"), |_| std::future::ready(Err(ToolError::invalid_call("no"))).boxed()).await;
    assert_eq!(ran, refused("no"));
    let ran = registry().call("nothing", json!({}), context()).await;
    assert_eq!(ran, refused("There is no tool \"nothing\" here."));
}

#[tokio::test]
async fn a_panic_is_an_error_of_unknown_outcome() {
    let error = failed("`a` broke down. This is a fault of the tool, not of the arguments.");
    let expected = ToolCallResult { timed_out: true, ..error }; // its effects by then are unknown
    assert_eq!(run(spec("a"), |_| async { panic!("secret") }.boxed()).await, expected);
    assert_eq!(run(spec("a"), |_| panic!("before its future")).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_stopped() {
    let ran = run(spec("a"), |_| std::future::pending().boxed()).await;
    assert_eq!(ran, out_of_time(1000));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_call_cancels_the_work_that_its_tool_spawned() {
    static STOPPED: tokio::sync::Notify = tokio::sync::Notify::const_new();
    let ran = run(spec("a"), |context| {
        tokio::spawn(async move {
            context.cancel.cancelled().await;
            STOPPED.notify_one();
        });
        std::future::pending().boxed()
    })
    .await;
    assert!(ran.timed_out);
    tokio::time::timeout(Duration::from_secs(5), STOPPED.notified()).await.unwrap();
}

#[tokio::test]
async fn a_cancel_reaches_the_tool() {
    let stopping: Act = |context| {
        async move {
            context.cancel.cancelled().await;
            Err(ToolError::new("stopped"))
        }
        .boxed()
    };
    let context = context();
    context.cancel.cancel();
    let registry = Registry::new(vec![acting(spec("a"), stopping)]).unwrap();
    assert_eq!(registry.call("a", json!({}), context).await, failed("stopped"));
}

#[tokio::test]
async fn a_result_that_does_not_fit_the_output_schema_is_an_error_and_stored() {
    let spec = || ToolSpec { output_schema: Some(json!({"type": "object", "required": ["n"]})), ..spec("a") };
    let ran = run(spec(), |_| std::future::ready(Ok(Output::Json(json!({"n": 1})))).boxed()).await;
    assert_eq!(ran.outcome.status, Closing::Ok);

    let ran = run(spec(), |_| std::future::ready(Ok(Output::Json(json!({"m": 1})))).boxed()).await;
    let hash = json::sha256_hex(br#"{"m":1}"#);
    let message = format!(
        "`a` returned something else than it promises: \"n\" is a required property. Its raw result can be read with \
         read_blob; hash {hash}."
    );
    let blob = Some(BlobRef { hash, size: 7, dropped: 0 });
    let expected = ToolCallResult {
        outcome: ToolOutcome { blob, cause: Some(Cause::Tool), ..ToolOutcome::error(message) },
        blob: Some(br#"{"m":1}"#.to_vec()),
        before_start: false,
        timed_out: false,
    };
    assert_eq!(ran, expected);

    for act in [(|_| std::future::ready(Ok(Output::Text("n".into()))).boxed()) as Act, |_| {
        std::future::ready(Ok(Output::Bytes(vec![0xff]))).boxed()
    }] {
        let ran = run(spec(), act).await;
        assert_eq!((ran.outcome.status, ran.blob.is_some()), (Closing::Error, true));
    }
}

#[tokio::test]
async fn long_outputs_and_long_errors_are_limited() {
    let ran =
        run(spec("a"), |_| std::future::ready(Ok(Output::Text("x".repeat(MAX_STORED + 1)))).boxed()).await;
    assert!(ran.outcome.result.as_str().unwrap().len() < MAX_WHOLE);
    assert_eq!(ran.outcome.blob.unwrap().dropped, 1);
    assert_eq!(ran.blob.unwrap().len(), MAX_STORED);
    let ran =
        run(spec("a"), |_| std::future::ready(Err(ToolError::new("x".repeat(MAX_WHOLE + 1)))).boxed()).await;
    assert!(ran.outcome.result.as_str().unwrap().len() < MAX_WHOLE);
    assert_eq!((ran.outcome.status, ran.blob.unwrap().len()), (Closing::Error, MAX_WHOLE + 1));
}
