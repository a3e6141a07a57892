//! `test_effect`: a tool whose effect can be counted.
//!
//! It writes one line to a file *before* it does anything else, so a test that kills the process at
//! any moment can tell from the file whether, and how often, the effect happened. `test_note` does the same and is
//! declared idempotent: it writes whenever it is called, so the file shows the keys of its calls. Both are for
//! tests and drills: they write to any file that the call names, and are not among the built-in tools.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_core::tool::{EffectClass, ToolSpec, Trust};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::tool::{CallContext, Output, Tool, ToolError};
use crate::typed::{ToolInfo, off_thread, parse_arguments, typed};

const MAX_OUTPUT: usize = 32 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestEffectArguments {
    /// The file that the line is appended to.
    file: PathBuf,
    /// The text to write behind the call's key.
    line: String,
    /// The effect class of this call: the consequence of a crash.
    class: TestEffectClass,
    /// How long to wait after writing.
    delay_ms: Option<u64>,
    /// Whether to wait to the end even when told to stop.
    #[serde(default)]
    ignore_cancel: bool,
    /// Whether to fail after writing and waiting.
    #[serde(default)]
    fail: bool,
    /// How many bytes of text to return.
    #[schemars(range(max = 33_554_432))]
    output_bytes: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TestEffectClass {
    SideEffectFree,
    Idempotent,
    Unsafe,
}

/// The tool `test_effect`.
pub fn test_effect() -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: "test_effect",
        description: "For tests: appends a line to a file, then waits, fails or returns as told.",
        class: EffectClass::Unsafe,
        timeout_ms: 30_000,
        trust: Trust::default(),
    };
    Arc::new(TestEffect { spec: about.spec::<TestEffectArguments>(None) })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestNoteArguments {
    /// The file that the line is appended to.
    file: PathBuf,
    /// The text to write behind the call's key.
    line: String,
    /// How long to wait after writing.
    delay_ms: Option<u64>,
}

/// The tool `test_note`, which may be called again under its key.
pub fn test_note() -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: "test_note",
        description: "For tests: appends a line to a file whenever it is called, then waits.",
        class: EffectClass::Idempotent,
        timeout_ms: 30_000,
        trust: Trust::default(),
    };
    typed(about, |TestNoteArguments { file, line, delay_ms }: TestNoteArguments, context| async move {
        fits(&line, &context.key)?;
        let (key, written) = (context.key, line.clone());
        off_thread(move || append(&file, &key, &written, false)).await?.map_err(unwritten)?;
        tokio::time::sleep(Duration::from_millis(delay_ms.unwrap_or(0))).await;
        Ok(format!("wrote {line}"))
    })
}

struct TestEffect {
    spec: ToolSpec,
}

impl Tool for TestEffect {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, arguments: &Value) -> EffectClass {
        arguments.get("class").and_then(|class| EffectClass::deserialize(class).ok()).unwrap_or_default()
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        perform(arguments, context).boxed()
    }
}

async fn perform(arguments: Value, context: CallContext) -> Result<Output, ToolError> {
    let arguments: TestEffectArguments = parse_arguments(arguments)?;
    fits(&arguments.line, &context.key)?;
    let TestEffectArguments { file, line, class, .. } = arguments;
    let (key, written) = (context.key, line.clone());
    off_thread(move || append(&file, &key, &written, class == TestEffectClass::Idempotent))
        .await?
        .map_err(unwritten)?;

    let delay = tokio::time::sleep(Duration::from_millis(arguments.delay_ms.unwrap_or(0)));
    if arguments.ignore_cancel {
        delay.await;
    } else if context.cancel.run_until_cancelled(delay).await.is_none() {
        return Err(ToolError::new("stopped"));
    }
    match arguments.output_bytes {
        _ if arguments.fail => Err(ToolError::new("failed as told")),
        Some(bytes) => Ok(Output::Text("x".repeat(bytes.min(MAX_OUTPUT)))),
        None => Ok(Output::Text(format!("wrote {line}"))),
    }
}

fn fits(line: &str, key: &str) -> Result<(), ToolError> {
    if line.contains('\n') || key.contains(['\n', '\t']) {
        return Err(ToolError::invalid_call("The line and the key must fit one line of the file."));
    }
    Ok(())
}

fn unwritten(error: io::Error) -> ToolError {
    ToolError::new(format!("The file could not be written: {error}."))
}

/// Appends a line and waits until it is on the disk. With `once`, a key that the file has already gets no second line;
/// the lock makes the check and the write atomic, across processes, too.
fn append(path: &PathBuf, key: &str, line: &str, once: bool) -> io::Result<()> {
    let mut file: File = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    file.lock()?;
    if once {
        let mut written = Vec::new();
        file.read_to_end(&mut written)?;
        let begin = format!("{key}\t");
        if written.split(|byte| *byte == b'\n').any(|line| line.starts_with(begin.as_bytes())) {
            return Ok(());
        }
    }
    file.write_all(format!("{key}\t{line}\n").as_bytes())?;
    file.sync_all()
}
