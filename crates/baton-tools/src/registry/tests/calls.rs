//! What tools do, at its worst.

use std::time::Duration;

use baton_core::effect::BlobRef;
use baton_core::thread::Closing;

use super::*;
use crate::output::{STORED, WHOLE};

#[tokio::test]
async fn an_answer_is_an_outcome() {
    let ran = run(spec("a"), |_| std::future::ready(Ok(Output::Json(json!({"n": 1})))).boxed()).await;
    let outcome = ToolOutcome::new(Closing::Ok, json!({"n": 1}));
    assert_eq!(ran, Ran { outcome, blob: None, before_start: false, timed_out: false });
    let ran = run(spec("a"), |_| std::future::ready(Err(ToolError::new("no"))).boxed()).await;
    assert_eq!(ran, failed("no"));
    let ran = run(spec("a"), |_| std::future::ready(Err(ToolError::before_start("no"))).boxed()).await;
    assert_eq!(ran, Ran { before_start: true, ..failed("no") });
    let asked = |message: &str| {
        let mut ran = Ran { before_start: true, ..failed(message) };
        ran.outcome.cause = Some(Cause::Asked);
        ran
    };
    let ran = run(spec("a"), |_| std::future::ready(Err(ToolError::asked("no"))).boxed()).await;
    assert_eq!(ran, asked("no"));
    let ran = registry().call("nothing", json!({}), context()).await;
    assert_eq!(ran, asked("There is no tool \"nothing\" here."));
}

#[tokio::test]
async fn a_panic_is_an_error() {
    let told = failed("`a` broke down. This is a fault of the tool, not of the arguments.");
    let expected = Ran { timed_out: true, ..told }; // nobody knows what it did by then
    assert_eq!(run(spec("a"), |_| async { panic!("secret") }.boxed()).await, expected);
    assert_eq!(run(spec("a"), |_| panic!("before its future")).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs_is_stopped() {
    let ran = run(spec("a"), |_| std::future::pending().boxed()).await;
    assert_eq!(ran, out_of_time(1000));
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_left_behind_learns_that_the_call_is_over() {
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
async fn a_result_that_breaks_its_promise_is_an_error_and_kept() {
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
    let expected = Ran {
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
    let ran = run(spec("a"), |_| std::future::ready(Ok(Output::Text("x".repeat(STORED + 1)))).boxed()).await;
    assert!(ran.outcome.result.as_str().unwrap().len() < WHOLE);
    assert_eq!(ran.outcome.blob.unwrap().dropped, 1);
    assert_eq!(ran.blob.unwrap().len(), STORED);
    let ran =
        run(spec("a"), |_| std::future::ready(Err(ToolError::new("x".repeat(WHOLE + 1)))).boxed()).await;
    assert!(ran.outcome.result.as_str().unwrap().len() < WHOLE);
    assert_eq!((ran.outcome.status, ran.blob.unwrap().len()), (Closing::Error, WHOLE + 1));
}
