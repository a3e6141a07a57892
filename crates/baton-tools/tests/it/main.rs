//! The built-in tools as the engine calls them: through a registry.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod builtin;
mod effect;
mod execution;
mod fetch_url;
mod server;
mod ssrf;
mod web_search;

use std::collections::HashMap;
use std::sync::Arc;

use baton_core::effect::ToolOutcome;
use baton_core::id::Tenant;
use baton_core::thread::Closing;
use baton_core::time::Timestamp;
use baton_core::tool::Cause;
use baton_tools::{BlobSource, Builtin, CallContext, Registry, ToolCallResult, builtin, testing};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Blobs in memory; the hash `broken` stands for a store that is down.
struct Blobs(HashMap<String, Vec<u8>>);

impl BlobSource for Blobs {
    fn read(&self, _tenant: Tenant, hash: String) -> BoxFuture<'static, Result<Option<Vec<u8>>, String>> {
        let found = if hash == BROKEN {
            Err("The store is down.".to_owned())
        } else {
            Ok(self.0.get(&hash).cloned())
        };
        std::future::ready(found).boxed()
    }
}

const BROKEN: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

fn registry(blobs: &[&[u8]]) -> Registry {
    let blobs = blobs.iter().map(|bytes| (baton_core::json::sha256_hex(bytes), bytes.to_vec())).collect();
    let options = Builtin {
        secrets: Default::default(),
        roots: vec![concat!(env!("CARGO_MANIFEST_DIR"), "/src").into()],
        blobs: Some(Arc::new(Blobs(blobs))),
        now: || Timestamp(1_767_225_600_000),
    };
    let mut tools = builtin(options).unwrap();
    tools.push(testing::test_effect());
    Registry::new(tools).unwrap()
}

fn context(key: &str) -> CallContext {
    let (cancel, roots) = (CancellationToken::new(), Vec::new());
    CallContext {
        call_id: format!("call_{key}"),
        key: key.to_owned(),
        cancel,
        roots,
        tenant: Tenant::local(),
        metadata: Value::Null,
        permit: Default::default(),
    }
}

/// Calls a tool with arguments that its schema admits.
async fn call(registry: &Registry, name: &str, arguments: Value) -> ToolCallResult {
    registry.validate(name, &arguments).unwrap();
    registry.call(name, arguments, context("k")).await
}

fn ok(result: Value) -> ToolCallResult {
    let outcome = ToolOutcome::new(Closing::Ok, result);
    ToolCallResult { outcome, blob: None, before_start: false, timed_out: false }
}

/// A failure that may pass.
fn failed(message: &str) -> ToolCallResult {
    let outcome = ToolOutcome { cause: Some(Cause::Tool), ..ToolOutcome::error(message) };
    ToolCallResult { outcome, blob: None, before_start: false, timed_out: false }
}

/// A failure whose cause lies in the call, found before anything was done.
fn refused(message: &str) -> ToolCallResult {
    ToolCallResult { before_start: true, ..not_taken(message) }
}

/// A failure whose cause lies in the call, found after it was sent.
fn not_taken(message: &str) -> ToolCallResult {
    let mut ran = failed(message);
    ran.outcome.cause = Some(Cause::Asked);
    ran
}
